"""Figure 10: ReLU networks on the line and a piecewise affine target.

Trainings of figures 6, 9 and 10: on batches, in several dimensions or of ReLU networks on the line.

"printed" is SGD on fresh batches with the squared loss and step 1; "authors" is what the public code runs:
descent on one fixed batch with the loss ‖r‖₂/n. (Its networks have no bias a_0; ours keep the printed one.)
"smaller step" is "printed" with steps below 2/λ for both layers. A neuron of weight a at its jump has the
curvature (9/5)a²/η in its position, which moves with ε times the step: at ε = 1, η = 0.01 and a = 1 the step
must stay below 0.011, at ε = 0.01 the weights ask for more than the positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.data import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import population_loss
from shallowflow.models import AdditiveStepNetwork, KnotNetwork, NormLoss, initialize
from shallowflow.studies import Study

JUMPS = (0.3, 0.5, 0.7)
STAIRCASE = PiecewiseConstant(JUMPS, (0.0, 1.0, 2.0, 3.0))
KINKS = PiecewiseAffine((0.0, 0.3, 0.5, 0.7, 1.0), (0.0, 0.0, 0.2, 0.0, 0.6))
"""relu(x − 0.3) − 2 relu(x − 0.5) + 3 relu(x − 0.7) on [0, 1]."""
RECORD = Record.geometric(40)
FAST, SLOW = 1.0, 0.01
"""The ratios ε that are compared."""
STEPS = {FAST: 300, SLOW: 5000}
"""Steps of size 1 for every ε."""
STABLE = {FAST: 0.003, SLOW: 0.1}
"""The smaller steps for every ε; there are more of them in turn."""
LONGER = 10
PUBLISHED_MEDIANS = {"2-D": (0.0038, 0.0145), "10-D": (0.0051, 0.0130), "ReLU": (0.00036, 0.00152)}
"""At ε = 0.01 and 1: read off the box plots in the authors' notebooks, whose ordinate is ‖r‖₂/n."""
TOLERANCE = 0.25
SPREAD = (
    "√(∫(f − f*)²/n), n the size of a batch: the unit of the published box plots. Crosses: their medians."
)
Repeats = dict[float, list[Mapping[str, float]]]
"""ε → results of the repeats."""


def plan(parameters: Values, reading: str, epsilon: float, start: int) -> dict[str, Any]:
    """Return the parameters of one training: step and number of steps follow from reading and ε."""
    step = STABLE[epsilon] if reading == "smaller step" else 1.0
    steps = round(parameters["steps"][epsilon] / step)
    if reading != "authors":
        steps = min(steps, parameters["most_steps"])
    names = ("width", "dimension", "sharpness", "within", "batch")
    fixed = {name: parameters[name] for name in names if name in parameters}
    return {**fixed, "reading": reading, "epsilon": epsilon, "start": start, "step": step, "steps": steps}


def _problem(parameters: Values) -> tuple[AdditiveStepNetwork | KnotNetwork, Additive | PiecewiseAffine]:
    """Return the network at a start and the target; dimension 0: ReLU on the line."""
    width, dimension, start = parameters["width"], parameters["dimension"], parameters["start"]
    if dimension == 0:
        return initialize.uniform_knots(width, seed=start), KINKS
    network = initialize.uniform_cuboids(width, dimension, sharpness=parameters["sharpness"], seed=start)
    return network, Additive([STAIRCASE] * dimension)


def train(parameters: Values, seed: np.random.SeedSequence) -> Trajectory:
    """Train one network of a `plan`."""
    network, target = _problem(parameters)
    step, steps, epsilon = parameters["step"], parameters["steps"], parameters["epsilon"]
    if parameters["reading"] == "authors":
        inputs = np.random.default_rng(seed).random((parameters["batch"], max(parameters["dimension"], 1)))
        data = Dataset(inputs, target(inputs if isinstance(target, Additive) else inputs[:, 0]))
        return gradient_descent(
            network, data, step=step, steps=steps, epsilon=epsilon, loss=NormLoss(), record=RECORD
        )
    return stochastic_descent(
        network,
        target,
        step=step,
        steps=steps,
        epsilon=epsilon,
        batch=parameters["batch"],
        seed=seed,
        record=RECORD,
    )


def positions(trajectory: Trajectory) -> Floats:
    """Return the positions or knots at the end, (m, d)."""
    final = trajectory.final
    if isinstance(final, KnotNetwork):
        return final.knots[:, None]
    assert isinstance(final, AdditiveStepNetwork)
    return final.positions


def missed(trajectory: Trajectory, within: float) -> int:
    """Return how many jumps (or kinks) of all coordinates have no neuron that near at the end.

    After an overflow that is all of them: what is left is the last network before it, not an end.
    """
    gaps = np.abs(np.array(JUMPS)[:, None, None] - positions(trajectory)).min(axis=1)
    return gaps.size if trajectory.outcome.status == "diverged" else int((gaps >= within).sum())


def inside(trajectory: Trajectory) -> Bools:
    """Return which positions or knots are in [0, 1] at the end, (m, d)."""
    places = positions(trajectory)
    return np.asarray((places >= 0) & (places <= 1))


def outcome_title(run: Trajectory, title: str) -> str:
    """Return the title, with a word on a run that overflowed or lost all its neurons."""
    if run.outcome.status == "diverged":
        return f"{title}: overflowed"
    return title if np.any(inside(run)) else f"{title}: all neurons left [0, 1]"


def task(parameters: Values, seed: np.random.SeedSequence) -> dict[str, float]:
    """Return the distance at the end and the jumps without a neuron.

    Also whether no neuron is left in [0, 1], and whether the run was judged unstable.
    """
    run = train(parameters, seed)
    _, target = _problem(parameters)
    diverged = run.outcome.status == "diverged"
    return {
        "distance": np.inf if diverged else 2.0 * population_loss(run.final, target),
        "missed": float(missed(run, parameters["within"])),
        "emptied": float(not np.any(inside(run))),
        "unstable": float(not run.outcome.ok),
    }


def repeats(name: str, parameters: Values, reading: str, sweep: Sweep) -> Repeats:
    """Train from the starts 0, 1, … for every ε, as a study; `parameters` are those of one case."""
    starts = range(parameters["repeats"])
    points = [
        plan(parameters, reading, epsilon, start) for epsilon in parameters["steps"] for start in starts
    ]
    found: Repeats = {epsilon: [] for epsilon in parameters["steps"]}
    for one in sweep(Study(name, task, points, root_seed=parameters["seed"])):
        found[one.parameters["epsilon"]].append(one.metrics)
    return found


def run_fig10(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Fit a piecewise affine target by ReLU networks, in both regimes and readings, and for longer."""
    panels, claims, boxes = list[Panel](), list[Claim](), list[Panel]()
    steps = {SLOW: LONGER * parameters["steps"][SLOW]}
    longer = {**parameters, "steps": steps, "repeats": parameters["longer_repeats"]}
    for reading in ("authors", "printed"):
        found = repeats(f"two_timescale/fig10, {reading}", parameters, reading, sweep)
        later = repeats(f"two_timescale/fig10, {reading}, longer", longer, reading, sweep)
        panels += [_kinks_panel(parameters, reading, epsilon) for epsilon in parameters["steps"]]
        published = PUBLISHED_MEDIANS["ReLU"] if reading == "authors" else None
        boxes.append(spread_panel(reading, found, parameters["batch"], published))
        claims += fig10_claims(reading, found, later)
        claims += median_claims(reading, found, parameters["batch"], published)
    caption = "Dotted: the kinks of the target. Points: the knots of the network."
    shown = Figure("fig10", "ReLU networks", tuple(panels), caption)
    return Findings(
        (shown, Figure("fig10-repeats", "ReLU networks: repeats", tuple(boxes), SPREAD)), tuple(claims)
    )


def _kinks_panel(parameters: Values, reading: str, epsilon: float) -> Panel:
    chosen = plan(parameters, reading, epsilon, parameters["shown"])
    run = train(chosen, np.random.SeedSequence(parameters["seed"]))
    x, knots = np.linspace(0.0, 1.0, 501), positions(run)[:, 0]
    return Panel(
        (
            Series(x, KINKS(x), "target", tone="sky", size=2.6),
            Series(x, run.final(x), "network", tone="orange"),
            Series(knots, run.final(knots), "knots", style="points", tone="orange"),
        ),
        outcome_title(run, f"{reading}, ε = {epsilon:g}"),
        "x",
        "f(x)",
        marks=tuple((kink, "") for kink in JUMPS),
        marks_label="kinks of the target",
        x_limits=(0.0, 1.0),
        y_limits=(-0.1, 0.8),
    )


def in_paper_units(of: Repeats, batch: int) -> dict[float, list[float]]:
    """Return √(∫(f − f*)²/n) by ε, n the size of the batch: what the published box plots show, ‖r‖/n."""
    return {epsilon: [float(np.sqrt(r["distance"] / batch)) for r in of[epsilon]] for epsilon in of}


def spread_panel(title: str, of: Repeats, batch: int, published: tuple[float, float] | None) -> Panel:
    """Return box plots of both regimes, with the published medians."""
    places = {SLOW: 0.0, FAST: 1.0}
    found = in_paper_units(of, batch)
    pairs = [(places[e], one) for e in (SLOW, FAST) for one in found[e] if np.isfinite(one)]
    x, y = np.array(pairs).T if pairs else (np.empty(0), np.empty(0))
    series = [
        Series(x, y, "repeats", style="boxes", tone="blue"),
        Series(x, y, style="points", tone="blue", size=0.5),
    ]
    if published:
        series.append(Series([0.0, 1.0], published, "published medians", style="crosses", tone="red"))
    ticks = ((0.0, f"ε = {SLOW:g}"), (1.0, f"ε = {FAST:g}"))
    return Panel(
        tuple(series), title, "", "√(∫(f − f*)²/n)", y_scale="log", x_limits=(-0.5, 1.5), x_ticks=ticks
    )


def median_claims(
    setting: str,
    of: Repeats,
    batch: int,
    published: tuple[float, float] | None,
    unlike: str = "",
    what: str = "",
) -> list[Claim]:
    """Judge the medians against the published ones; unlike: why this scale cannot tell."""
    if published is None:
        return []
    found = in_paper_units(of, batch)
    claims = [
        Claim.that(
            f"{what}The median at ε = {epsilon:g} is the published one",
            f"{value:g} (read off the stored box plot), in units of √(∫(f − f*)²/n)",
            _scaled(Interval.of_median(found[epsilon]), 1 / value),
            least=1 - TOLERANCE,
            most=1 + TOLERANCE,
            words=f"{np.median(found[epsilon]):.2g}, {{}} times it ({len(found[epsilon])} starts)",
            setting=setting,
        )
        for epsilon, value in zip((SLOW, FAST), published, strict=True)
    ]
    return [cannot_tell(claim, unlike) for claim in claims]


def _scaled(found: Interval, factor: float) -> Interval:
    return Interval(found.value * factor, found.low * factor, found.high * factor)


def cannot_tell(claim: Claim, why: str) -> Claim:
    """Return a claim as open, for a reason; as it is without one."""
    return replace(claim, holds=None, reason=why) if why else claim


def fig10_claims(setting: str, of: Repeats, later: Repeats) -> list[Claim]:
    """Judge which kinks have a knot, in both regimes and after more steps."""
    alone = {epsilon: sum(r["missed"] > 0 for r in of[epsilon]) for epsilon in (SLOW, FAST)}
    whole = len(of[SLOW]) - alone[SLOW]
    ended = sum(r["missed"] == 0 for r in later[SLOW])
    emptied = sum(r["emptied"] > 0 for r in of[FAST])
    return [
        Claim.that(
            "Some kinks are left without a knot at ε = 1",
            "some kinks are not covered in the standard regime",
            Interval.of_share(alone[FAST], len(of[FAST])),
            least=0.5,
            words=f"so it is from a share {{}} of {len(of[FAST])} starts",
            reason=f"{emptied} runs have no knot left in [0, 1]: step 1 is too long for them"
            if emptied
            else "",
            setting=setting,
        ),
        Claim.that(
            "Every kink has a knot at ε = 0.01",
            "all have one in the two-timescale regime",
            Interval.of_share(whole, len(of[SLOW])),
            least=0.5,
            words=f"so it is from a share {{}} of {len(of[SLOW])} starts; with {LONGER} times the steps from "
            f"{ended} of {len(later[SLOW])}",
            reason="" if whole > len(of[SLOW]) / 2 else "knots are still on their way to a kink",
            setting=setting,
        ),
    ]


FIG10 = Experiment(
    "two_timescale/fig10",
    "ReLU networks and a piecewise affine target",
    "Figure 10, App. C",
    scales(
        {
            "width": 10,
            "within": 2e-2,
            "steps": STEPS,
            "seed": 10,
            "shown": 0,
            "dimension": 0,
            "most_steps": 50_000,
        },
        quick={"batch": 1000, "repeats": 8, "longer_repeats": 2},
        paper={"batch": 1000, "repeats": 20, "longer_repeats": 5},
    ),
    run_fig10,
    sweeps=True,
    cost={"quick": 9.3, "paper": 100},
)
