"""What a plateau is made of: a pattern that does not change, or outer weights that are slow?

[plateau] explains plateaus by constant activation patterns (§1, Theorem 3.1). Here every plateau of many
runs on many targets is split into L = Q₀ + (LSQ − Q₀) + (L − LSQ), `landscape.plateau.levels`, and set
beside the exact curve of the outer weights alone. Besides, how often the levels of consecutive stages fall,
and Theorem 3.2 decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES
from shallowflow.dynamics.baselines import alternating_least_squares
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.methods import LOSS, STEP, knots, plateaus_left, share_claim, undecided
from shallowflow.landscape.geometry.floors import blocks
from shallowflow.landscape.plateau.levels import exit_of, frozen_losses, loss_parts
from shallowflow.models import KnotNetwork, initialize
from shallowflow.readings.stages import Stage, stages

TARGETS: dict[str, tuple[Callable[[Floats], Floats], int, int]] = {
    "sin πx": (CURVES["sin_pi"], 10, 100),
    "sin 2πx": (lambda x: np.sin(2 * np.pi * x), 20, 200),
    "sin 3πx": (lambda x: np.sin(3 * np.pi * x), 50, 250),
    "sin 5πx": (CURVES["sin_5pi"], 100, 500),
    "f₂": (CURVES["jump"], 100, 500),
    "exp 2x": (lambda x: np.exp(2 * x), 20, 200),
}
"""Functions on [−1, 1], neurons and equidistant points: the paper's (f₂ smaller), and some between them."""
MOST = 0.9
"""A plateau belongs to what makes up this share of its loss in its middle."""
LONG = 100_000
"""Iterations of LS/GD after which a run without a plateau counts against the claim."""


@dataclass(frozen=True)
class PlateauSeen:
    """A plateau of a run, from `start` to `end`: what it is made of.

    level: its loss over that of the zero function; passed: data points that knots passed on it; pattern,
    weights: the shares of Q₀ and of L − LSQ in its middle; frozen: the loss at its end with the knots held
    where they were at its start, over the loss itself.
    """

    target: str
    start: float
    end: float
    level: float
    passed: int
    pattern: float
    weights: float
    frozen: float


@dataclass(frozen=True)
class Exits:
    """Ends of stages at which a point passes; falls of the level; where Thm 3.2 applies, is met, is right."""

    ends: int
    falls: int
    covered: int
    met: int
    right: int

    def __add__(self, other: Exits) -> Exits:
        return Exits(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def dataset_of(target: str, size: int | None = None) -> Dataset:
    """Return equidistant samples of a target."""
    function, _, default = TARGETS[target]
    x = np.linspace(-1.0, 1.0, size or default)
    return Dataset(x[:, None], function(x), name=target)


def plateaus_of(
    target: str, times: Floats, networks: Sequence[KnotNetwork], passages: Floats | None
) -> list[PlateauSeen]:
    """Return the plateaus of a run seen at times (k,), but for one that begins with the record.

    On a logarithmic axis every curve begins flat. passages: when a knot passed a data point; None: to be
    read off the networks (what passes and returns between two of them is then missed).
    """
    dataset = dataset_of(target)
    losses = np.array([LOSS.value(one(dataset.inputs), dataset.targets) for one in networks])
    zero, found = LOSS.value(np.zeros(dataset.size), dataset.targets), []
    for start, end in plateaus_left(times, losses):
        i, j = np.searchsorted(times, [start, end])
        if passages is None:
            borders = [blocks(one, dataset).borders for one in networks[i : j + 1]]
            passed = sum(int(np.abs(then - now).sum()) for now, then in pairwise(borders))
        else:
            passed = int(np.sum((passages > start) & (passages < end)))
        pattern, _, weights = loss_parts(networks[(i + j) // 2], dataset).shares
        frozen = float(frozen_losses(networks[i], dataset, [end - start])[0])
        level = float(losses[(i + j) // 2]) / zero
        found.append(PlateauSeen(target, start, end, level, passed, pattern, weights, frozen / losses[j]))
    return found


def _flow_plateaus(target: str, seed: int, parameters: Values) -> list[PlateauSeen]:
    run = gradient_flow(
        initialize.he_knots(TARGETS[target][1], seed=seed), dataset_of(target), until=parameters["until"]
    )
    times = np.geomspace(STEP, parameters["until"], parameters["points"])
    networks = [knots(run(float(time))) for time in times]
    passages = np.array([event.time for event in run.events if event.kind in ("on", "off")])
    return plateaus_of(target, times, networks, passages)


def _hybrid_plateaus(target: str, seed: int, parameters: Values) -> list[PlateauSeen]:
    """Return the plateaus of LS/GD, in iterations."""
    run = alternating_least_squares(
        initialize.he_knots(TARGETS[target][1], seed=seed),
        dataset_of(target),
        step=STEP,
        steps=parameters["hybrid_steps"],
        record=Record.geometric(parameters["points"]),
    )
    networks = [knots(run(float(time))) for time in run.times[1:]]
    return plateaus_of(target, run.times[1:], networks, None)


def exits_of(found: Sequence[Stage]) -> Exits:
    """Return how often the level falls at the end of a stage, and what Thm 3.2 says of it."""
    total = Exits(0, 0, 0, 0, 0)
    for stage, then in pairwise(found):
        if np.array_equal(stage.blocks.borders, then.blocks.borders):
            continue  # a knot comes to rest on a data point, or leaves it to the side from which it came
        condition = exit_of(stage.blocks, then.blocks, LOSS)
        met = condition.applies and float(np.exp(-stage.decay_min.total)) < condition.threshold
        fell = then.level < stage.level
        total += Exits(1, int(fell), int(condition.applies), int(met), int(met and fell))
    return total


def _exits(target: str, seed: int, parameters: Values) -> Exits:
    """Return the ends of stages of a small run: ten neurons on a hundred points."""
    dataset = dataset_of(target, 100)
    run = gradient_flow(initialize.he_knots(10, seed=seed), dataset, until=parameters["stages_until"])
    return exits_of(stages(run, dataset, samples=9))


def run_causes(parameters: Values, progress: Progress) -> Findings:
    """Split the plateaus of many runs, of descent (as flow) and of LS/GD, and count the ends of stages."""
    flows, hybrids, exits = list[PlateauSeen](), list[list[PlateauSeen]](), Exits(0, 0, 0, 0, 0)
    cases = [(target, seed) for target in TARGETS for seed in range(parameters["seeds"])]
    for number, (target, seed) in enumerate(cases):
        progress(number / len(cases), f"{target}, start {seed}")
        flows += _flow_plateaus(target, seed, parameters)
        if seed < parameters["hybrid_seeds"]:
            hybrids.append(_hybrid_plateaus(target, seed, parameters))
        if seed < parameters["stages_seeds"]:
            exits += _exits(target, seed, parameters)
    joined = [one for found in hybrids for one in found]
    figure = Figure(
        "causes",
        "What plateaus are made of",
        (_split_panel(flows, joined), _passed_panel(flows, joined)),
        "Left: the share of Q₀, the level of the pattern, in the loss on a plateau; at the top the "
        "pattern holds the "
        "loss up, at the bottom the slow outer weights. Right: how many data points knots pass on it.",
    )
    return Findings((figure,), cause_claims(flows, hybrids, exits, parameters["hybrid_steps"]))


def cause_claims(
    flows: Sequence[PlateauSeen], hybrids: Sequence[Sequence[PlateauSeen]], exits: Exits, iterations: int
) -> tuple[Claim, ...]:
    """Return the claims about plateaus of flows, of LS/GD (by run), and about ends of stages."""
    early = [one for one in flows if one.weights >= MOST]
    late = [one for one in flows if one.pattern >= MOST]
    joined = [one for found in hybrids for one in found]
    return (
        share_claim(
            "A plateau is a time of constant activation pattern (§1): no knot passes a data point",
            "plateaus are constant patterns",
            [one.passed == 0 for one in flows],
            0.5,
            reason=f"the median plateau sees {np.median([one.passed for one in flows] or [0]):.0f} passages",
        ),
        share_claim(
            f"On a plateau the loss is near the level of its pattern (Theorem 3.1): Q₀ ≥ {MOST:g} L",
            "the loss converges to Q₀",
            [one.pattern >= MOST for one in flows],
            0.5,
            reason=f"of the other plateaus most are slow outer weights: L − LSQ ≥ {MOST:g} L on "
            f"{len(early)} of "
            f"{len(flows)}",
        ),
        share_claim(
            f"Plateaus are of two kinds: pattern, or conditioning of the outer weights (one of them ≥ "
            f"{MOST:g} L)",
            "–",
            [max(one.pattern, one.weights) >= MOST for one in flows],
            0.9,
            ours=True,
        ),
        share_claim(
            "Where the outer weights are slow, frozen knots have the same plateau (loss at its end "
            "within 10 %)",
            "–",
            [one.frozen <= 1.1 for one in early],
            0.9,
            ours=True,
        ),
        share_claim(
            "Plateaus of constant pattern come late: their loss is lower than on every plateau of slow "
            "weights",
            "–",
            [one.level < min(other.level for other in early) for one in late] if early else [],
            0.9,
            ours=True,
        ),
        _hybrid_claim([len(found) > 0 for found in hybrids], iterations),
        share_claim(
            f"… for the same reason: Q₀ ≥ {MOST:g} L on the plateaus of LS/GD",
            "constant patterns",
            [one.pattern >= MOST for one in joined],
            0.5,
            reason="with the outer weights solved for, what is left of L over Q₀ is the places of the knots",
        ),
        *_exit_claims(exits),
    )


def _hybrid_claim(outcomes: Sequence[bool], iterations: int) -> Claim:
    claim = share_claim(
        f"Even LS/GD exhibits plateaus (§1): runs of {iterations:,} iterations with one that is left again",
        "LS/GD still exhibits the plateau phenomenon",
        outcomes,
        0.5,
        reason=f"a run may sit on a plateau that it would leave later than {iterations:,} iterations",
    )
    short = iterations < LONG and claim.holds is False
    return undecided(claim, claim.reason) if short else claim


def _exit_claims(exits: Exits) -> tuple[Claim, ...]:
    tested = Claim(
        "Where Theorem 3.2's condition is met at the end of a stage, the next level is lower",
        "Q₀(t_{s+1}) < Q₀(t_s)",
        f"met at 0 of {exits.covered} ends of stages",
        None,
        "the condition is never met here: the theorem is not contradicted, and not tested",
        "if the level rises at one end where the condition is met",
    )
    if exits.met:
        tested = Claim(
            tested.statement,
            tested.published,
            f"lower at {exits.right} of {exits.met} ends where it is met",
            exits.right == exits.met,
            fails_if=tested.fails_if,
        )
    outcomes = [True] * exits.falls + [False] * (exits.ends - exits.falls)
    decided = [True] * exits.met + [False] * (exits.covered - exits.met)
    return (
        share_claim(
            "The levels Q₀ decrease from stage to stage: the loss is a decreasing staircase (§3.1)",
            "Q₀(t_{s+1}) < Q₀(t_s)",
            outcomes,
            0.95,
            reason="a knot that passes a data point leaves its block with another line, which may fit worse",
        ),
        tested,
        share_claim(
            "Theorem 3.2's condition is met at some ends of stages (at least 1 %)",
            "–",
            decided,
            0.01,
            reason="a stage of descent is left long before its loss has fallen as the theorem needs",
            ours=True,
        ),
    )


def _split_panel(flows: Sequence[PlateauSeen], hybrids: Sequence[PlateauSeen]) -> Panel:
    series = tuple(
        Series([one.level for one in found], [one.pattern for one in found], name, style="points", tone=tone)
        for name, found, tone in (("gradient flow", flows, "blue"), ("LS/GD", hybrids, "pink"))
    )
    title, label = "share of Q₀ in the loss", "loss on the plateau / loss of the zero function"
    return Panel(series, title, label, "Q₀ / L", "log", y_limits=(-0.05, 1.05))


def _passed_panel(flows: Sequence[PlateauSeen], hybrids: Sequence[PlateauSeen]) -> Panel:
    series = tuple(
        Series(
            [one.end / one.start for one in found],
            [one.passed for one in found],
            name,
            style="points",
            tone=tone,
        )
        for name, found, tone in (("gradient flow", flows, "blue"), ("LS/GD", hybrids, "pink"))
    )
    labels = "length of the plateau: end / start", "data points passed"
    return Panel(series, "passages on a plateau", *labels, "log", "symlog")


CAUSES = Experiment(
    "plateau/causes",
    "What plateaus are made of: pattern or conditioning",
    "§1, Theorems 3.1 and 3.2, over targets and starts",
    scales(
        {"until": 2e5, "points": 500, "stages_until": 2000.0},
        quick={"seeds": 12, "hybrid_seeds": 3, "hybrid_steps": 20_000, "stages_seeds": 3},
        paper={"seeds": 40, "hybrid_seeds": 4, "hybrid_steps": 100_000, "stages_seeds": 12},
    ),
    run_causes,
    cost={"quick": 53, "paper": 250},
)
