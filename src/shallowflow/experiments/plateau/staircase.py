"""Plateaus of the loss, and what they are made of: a pattern that does not change, or slow outer weights?

**Figures 1 and 2**: the loss of gradient descent on sin 5πx has plateaus; that of ANLS is not held up.

**Causes.** [plateau] explains plateaus by constant activation patterns (§1, Theorem 3.1). Here every plateau
of many runs on many targets is split into L = Q₀ + (LSQ − Q₀) + (L − LSQ), `landscape.plateau.levels`, and
set beside the exact curve of the outer weights alone. Besides, how often the levels of consecutive stages
fall, and Theorem 3.2 decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.baselines import alternating_least_squares
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.estimators import ANLSRegressor
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.methods import (
    LOSS,
    RATE,
    STEP,
    Training,
    anls,
    descend,
    error_panel,
    flow,
    knots,
    many_starts,
    plateaus_left,
    share_claim,
    start_of,
    undecided,
)
from shallowflow.landscape.geometry.floors import blocks
from shallowflow.landscape.plateau.levels import exit_of, frozen_losses, loss_parts, plateau_level
from shallowflow.landscape.plateau.moves import best_loss, candidates, losses_of_candidates, moved
from shallowflow.models import KnotNetwork, SquareLoss, initialize
from shallowflow.readings.stages import Stage, stages

REGIMES = ((0.0, 3e4), (3e4, 3e6), (3e6, 1e8))
"""The iterations of the three panels of Figure 1."""
NEAR = 1.1
"""A loss is near its level if it is at most this many times as large."""


@dataclass(frozen=True)
class Stagnation:
    """A run's plateaus that are left again: how many, and L/Q₀ in the middle of each."""

    ratios: tuple[float, ...]

    @property
    def near(self) -> int:
        """The number of plateaus on which the loss is near the level of its pattern."""
        return sum(ratio <= NEAR for ratio in self.ratios)


def _levels(training: Training, dataset: Dataset) -> Floats:
    """Return 2 Q₀ at the recorded iterations."""
    return np.array([2 * plateau_level(training.network(k), dataset, LOSS) for k in training.iterations])


def stagnation(training: Training, dataset: Dataset) -> Stagnation:
    """Return what the plateaus of a run are like."""
    ratios = []
    for first, last in training.plateaus:
        k = int(np.searchsorted(training.iterations, np.sqrt(first * last)))
        level = 2 * plateau_level(training.network(float(training.iterations[k])), dataset, LOSS)
        ratios.append(float(training.errors[k] / level))
    return Stagnation(tuple(ratios))


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Descend on sin 5πx; beside the loss Q₀ of its pattern, and the outer weights alone (knots frozen)."""
    dataset = curve("sin_5pi", parameters["size"])
    training = descend(dataset, parameters, lambda done: progress(0.6 * done, "gradient descent"))
    later = flow(dataset, parameters)
    progress(0.7, "other starts")
    others = [stagnation(flow(dataset, one), dataset) for one in many_starts(parameters)]
    literal = gradient_descent(start_of(parameters), dataset, step=RATE, steps=1000, loss=SquareLoss("sum"))
    frozen = 2 * frozen_losses(start_of(parameters), dataset, STEP * later.iterations[1:])
    curves = (
        training.series("blue"),
        Series(later.iterations[1:], later.errors[1:], "gradient flow", style="dashed", tone="sky"),
        Series(
            later.iterations[1:],
            _levels(later, dataset)[1:],
            "level Q₀ of the pattern",
            style="steps",
            tone="orange",
        ),
        Series(later.iterations[1:], frozen, "knots frozen at the start", style="dashed", tone="green"),
    )
    panels = tuple(
        Panel(curves, f"({letter})", "iterations", "mean squared error", y_scale="log", x_limits=limits)
        for letter, limits in zip("abc", REGIMES, strict=True)
    )
    whole = Panel(curves, "all iterations", "iterations", "mean squared error", "log", "log")
    caption = (
        "While a pattern lasts the loss cannot fall below its level Q₀. On the first long plateau it is "
        "far above, and "
        "the outer weights alone, with the knots frozen, have a plateau there too: plateau/causes counts "
        "both kinds."
    )
    title = "sin 5πx by gradient descent: slow and fast in turn"
    figures = (
        Figure("fig1", title, panels, caption, columns=3),
        Figure("fig1_all", title, (whole,), columns=1),
    )
    return Findings(figures, fig1_claims(others, literal))


def fig1_claims(runs: Sequence[Stagnation], literal: Trajectory) -> tuple[Claim, ...]:
    """Return the claims: runs of several starts, and the descent of ½Σ at rate 10⁻³."""
    ratios = [ratio for run in runs for ratio in run.ratios]
    return (
        share_claim(
            "The loss alternates between slow and fast decay (plateau phenomenon): starts with a plateau "
            "left again",
            "plateaus within the training",
            [len(run.ratios) > 0 for run in runs],
            words=f"{len(ratios)} plateaus",
        ),
        share_claim(
            f"On its plateaus the loss is near the level Q₀ of its pattern (Theorem 3.1): L ≤ {NEAR:g} Q₀",
            "L → Q₀",
            [ratio <= NEAR for ratio in ratios],
            words=f"median L/Q₀ {np.median(ratios or [np.nan]):.3g}",
            reason="on most plateaus the outer weights are slow, not the pattern stuck: see plateau/causes",
        ),
        Claim(
            "Rate 10⁻³ trains this network with the loss ½Σr² (2.1)",
            "loss curve of Figure 1 at rate 10⁻³",
            f"{literal.outcome.status}: loss {literal.losses[0]:.0f} → {literal.losses[-1]:.0f}",
            literal.outcome.ok,
            ""
            if literal.outcome.ok
            else "rate × λ_max is far above 2 with the sum; the mean squared error, used here, is stable",
            "if the outcome is unstable or diverged",
        ),
    )


@dataclass(frozen=True)
class Race:
    """Where methods end from one start: mean squared errors of descent and ANLS, plateaus of ANLS.

    saving: the CPU time of least squares for every candidate of the first move, over that of Theorem 4.2.
    """

    descent: float
    anls: float
    plateaus: int
    saving: float


def run_fig2(parameters: Values, progress: Progress) -> Findings:
    """Compare gradient descent with active neuron least squares on the task of Figure 1."""
    dataset = curve("sin_5pi", parameters["size"])
    training = descend(dataset, parameters, lambda done: progress(0.6 * done, "gradient descent"))
    found = anls(dataset, parameters)
    races = list[Race]()
    for number, one in enumerate(many_starts(parameters)):
        progress(0.6 + 0.3 * number / parameters["starts"], "other starts")
        moves = anls(dataset, one)
        end = float(flow(dataset, one).errors[-1])
        saving = _saving(start_of(one).knots, dataset)
        races.append(Race(end, float(moves.errors[-1]), len(moves.plateaus), saving))
    progress(0.95, "the best known fit")
    best = best_known(dataset, parameters["width"])
    x = np.linspace(-1.0, 1.0, 1001)
    target = Series(x, CURVES["sin_5pi"](x), "target", style="dashed", tone="muted")
    functions = (target, training.graph("GD", "blue"), found.graph("ANLS", "orange"))
    figure = Figure(
        "fig2",
        "Gradient descent and active neuron least squares on sin 5πx",
        (
            error_panel((training.series("blue"), found.series("orange"))),
            Panel(functions, "trained networks", "x", "f(x)"),
        ),
    )
    return Findings((figure,), fig2_claims(races, best, parameters["flow_steps"]))


def _saving(knots: Floats, dataset: Dataset) -> float:
    """Return the CPU time of one least-squares problem per candidate, over that of one decomposition."""
    x, y = dataset.inputs[:, 0], dataset.targets
    first = time.process_time()
    losses_of_candidates(knots, x, y)
    second = time.process_time()
    for candidate in candidates(knots, np.unique(x)):
        best_loss(moved(knots, candidate), x, y)
    return (time.process_time() - second) / (second - first)


def best_known(dataset: Dataset, width: int) -> float:
    """Return the mean squared error of the best fit known with so many neurons: knots relocated."""
    x, y = dataset.inputs, dataset.targets
    model = ANLSRegressor(width, left="zero").fit(x, y)
    return float(np.mean((model.predict(x) - y) ** 2))


def fig2_claims(races: Sequence[Race], best: float, steps: int) -> tuple[Claim, ...]:
    """Return the claims about descents (as flows, of so many steps) and ANLS from the same starts."""
    ends = np.array([race.anls for race in races])
    return (
        share_claim(
            "ANLS ends at a much smaller loss than gradient descent: less than half of it",
            "ANLS well below GD",
            [race.anls < 0.5 * race.descent for race in races],
            words=f"medians {np.median(ends):.2g} and, after {steps:,} steps (as flow), "
            f"{np.median([race.descent for race in races]):.2g}",
        ),
        share_claim(
            "ANLS has no plateau that it leaves again",
            "steady decrease",
            [race.plateaus == 0 for race in races],
        ),
        share_claim(
            "ANLS is not stuck: it ends within twice the best known error of as many neurons (knots "
            "relocated)",
            "–",
            [race.anls <= 2 * best for race in races],
            words=f"median {np.median(ends):.2g}, best known {best:.2g}",
            reason="no single passage lowers the loss there: a level of its own",
            ours=True,
        ),
        Claim.that(
            "One decomposition for all candidates is cheaper than least squares for each (§4.4, Remark 3)",
            "efficient: a much smaller problem",
            Interval.of_median([race.saving for race in races]),
            least=1.0,
            words="the latter takes {} times the CPU time, in the median over starts",
            reason="it hangs on the sizes",
        ),
    )


_SCALES = scales(
    {"width": 100, "size": 500, "points": 400, "seed": 0, "starts": 12, "flow_steps": 100_000_000},
    quick={"steps": 1_000_000},
    paper={"steps": 100_000_000, "starts": 40},
)

FIG1 = Experiment(
    "plateau/fig1",
    "The plateau phenomenon on sin 5πx",
    "Figure 1, §1",
    _SCALES,
    run_fig1,
    cost={"quick": 5.3, "paper": 41},
)
FIG2 = Experiment(
    "plateau/fig2",
    "ANLS beside gradient descent",
    "Figure 2, §1",
    _SCALES,
    run_fig2,
    cost={"quick": 7.3, "paper": 48},
)


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
