"""Training on batches: two and ten dimensions (Figures 6 and 9), ReLU networks on the line (Figure 10).

"printed" is SGD on fresh batches with the squared loss and step 1; "authors" is what the public code runs:
descent on one fixed batch with the loss ‖r‖₂/n. (Its networks have no bias a_0; ours keep the printed one.)
"smaller step" is "printed" with steps below 2/λ for both layers. A neuron of weight a at its jump has the
curvature (9/5)a²/η in its position, which moves with ε times the step: at ε = 1, η = 0.01 and a = 1 the step
must stay below 0.011, at ε = 0.01 the weights ask for more than the positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.data import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent, stochastic_descent
from shallowflow.experiments.experiment import (
    Claim,
    Experiment,
    Findings,
    Interval,
    Progress,
    Sweep,
    Values,
    scales,
)
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


SMALL = 0.1
"""A loss below this has more than the mean of the target."""


def run_fig6(parameters: Values, progress: Progress) -> Findings:
    """Show the neurons of a 2-D network at the end, in both regimes and all readings."""
    panels, claims, blown = list[Panel](), list[Claim](), list[Series]()
    cases = [(reading, epsilon) for reading in parameters["batches"] for epsilon in parameters["steps"]]
    for done, (reading, epsilon) in enumerate(cases):
        progress(done / len(cases), f"{reading}, ε = {epsilon:g}")
        batch = parameters["batches"][reading]
        chosen = plan({**parameters, "batch": batch}, reading, epsilon, parameters["start"])
        run = train(chosen, np.random.SeedSequence(parameters["seed"]))
        if reading == "printed":
            blown.append(Series(run.times[1:], run.losses[1:], f"ε = {epsilon:g}"))
            claims.append(_blow_up(run, epsilon))
        else:
            panels.append(_plane(run, f"{reading}, ε = {epsilon:g}"))
            lost = missed(run, parameters["within"])
            claims.append(lost_claim(reading, epsilon, lost, parameters["within"]))
    panels.append(Panel(tuple(blown), "printed: step 1 blows up", "time", "½∫(f − f*)²", "log", "log"))
    caption = (
        "Each shade of blue is a constant piece of the target; orange lines are the positions of the neurons "
        "at the end. Last: the loss as printed, with step 1 and the squared loss."
    )
    return Findings((Figure("fig6", "Two dimensions", tuple(panels), caption),), tuple(claims))


def lost_claim(setting: str, epsilon: float, lost: int, within: float) -> Claim:
    """Judge the caption of figure 6 for the start that is shown; its own start is not known."""
    fast = epsilon == FAST
    return Claim.that(
        "In the standard regime a discontinuity is missed" if fast else "At ε = 0.01 none is missed",
        "at ε = 1 the one at x = 0.3 has no neuron" if fast else "all are covered",
        Interval.exact(lost),
        least=1 if fast else -inf,
        most=inf if fast else 0,
        words=f"of 6 jumps {{}} have no neuron within {within:g}, from start 0",
        reason="the published start is not known: shares of starts are in fig9",
        setting=setting,
    )


def _blow_up(run: Trajectory, epsilon: float) -> Claim:
    within = inside(run)
    fine = run.outcome.ok and float(run.losses[-1]) < SMALL
    return Claim(
        f"With step 1 and the squared loss the network learns (ε = {epsilon:g})",
        "trained by SGD with h = 1.0 and batches of 1000",
        f"{run.outcome} (at most {run.losses.max():.3g} on the way; {int((~within).sum())} of {within.size} "
        "positions left [0, 1])",
        fine,
        ""
        if fine
        else "step 1 is beyond the stability limit 2/λ of the weights: they blow up and throw the "
        "positions out of [0, 1]; what remains is a constant. A smaller step works",
        f"if the run ends badly, or with a loss above {SMALL:g}",
        setting="printed",
    )


LOW, HIGH = -0.2, 1.3
"""The part of the plane that is shown: neurons may end outside [0, 1]."""


def _plane(run: Trajectory, title: str) -> Panel:
    """Draw positions as lines over the shades of the target; a run that overflowed shows where it began."""
    places = positions(run)
    ends, gone = np.array([LOW, HIGH]), np.full(2, np.nan)
    shades = [
        series
        for v in JUMPS
        for series in (
            Series([v, HIGH], gone, tone="sky", band=([LOW, LOW], [HIGH, HIGH])),
            Series(ends, gone, tone="sky", band=([v, v], [HIGH, HIGH])),
        )
    ]
    lines = (*shades, *_grid(places[:, 0], places[:, 1]))
    limits = (LOW, HIGH)
    words = outcome_title(run, title)
    return Panel(lines, words, "x₁", "x₂", x_limits=limits, y_limits=limits, square=True)


def _grid(first: Floats, second: Floats) -> tuple[Series, Series]:
    across, along = np.tile([LOW, HIGH, np.nan], len(first)), np.tile([LOW, HIGH, np.nan], len(second))
    return (
        Series(np.repeat(first, 3), across, "neurons", tone="orange", size=0.8),
        Series(along, np.repeat(second, 3), tone="orange", size=0.8),
    )


def run_fig9(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Repeat the training in 2 and 10 dimensions over starts."""
    panels, claims = list[Panel](), list[Claim]()
    for case in parameters["cases"]:
        space, reading = f"{case['dimension']}-D", case["reading"]
        whole = {**parameters, **case}
        of = repeats(f"two_timescale/fig9, {space}, {reading}", whole, reading, sweep)
        published = PUBLISHED_MEDIANS[space] if reading == "authors" else None
        panels.append(spread_panel(f"{space}, {reading}", of, whole["batch"], published))
        claims += fig9_claims(space, reading, of, whole)
        unlike = whole.get("unlike", "")
        claims += median_claims(reading, of, whole["batch"], published, unlike, f"{space}: ")
    figure = Figure("fig9", "Several dimensions: distance over ε", tuple(panels), SPREAD)
    return Findings((figure,), tuple(claims))


def fig9_claims(space: str, reading: str, of: Repeats, case: Values) -> list[Claim]:
    """Judge the distances of both regimes, and whether jumps are covered."""
    slow, fast = (np.array([r["distance"] for r in of[e]]) for e in (SLOW, FAST))
    whole = {e: len(of[e]) - _count(of[e], "missed") for e in (SLOW, FAST)}
    # A run that overflowed is infinitely far away; where both did, neither is nearer.
    ratios = np.array([f / s if np.isfinite(s) else 1.0 for s, f in zip(slow, fast, strict=True)])
    claims = [
        Claim.that(
            f"{space}: the distance is much smaller at ε = 0.01 than at ε = 1",
            "much smaller",
            Interval.of_median(ratios),
            least=2,
            words=f"medians {np.median(slow):.3g} and {np.median(fast):.3g}; from one start to the next "
            "the factor is {}",
            reason=_fig9_reason(of, case),
            setting=reading,
        ),
        Claim.that(
            f"{space}: at ε = 0.01 the target is recovered",
            "convergence to a global minimum is obtained in the two-timescale regime",
            Interval.of_share(whole[SLOW], len(slow)),
            least=0.5,
            words=f"all jumps are covered from a share {{}} of {len(slow)} starts",
            reason=_fig9_reason(of, case),
            setting=reading,
        ),
        Claim.that(
            f"{space}: at ε = 1 it is not",
            "but not in the standard regime",
            Interval.of_share(whole[FAST], len(fast)),
            most=0.5,
            words=f"all jumps are covered from a share {{}} of {len(fast)} starts",
            reason=_fig9_reason(of, case),
            setting=reading,
        ),
    ]
    return [cannot_tell(claim, case.get("unlike", "")) for claim in claims]


def _count(results: Sequence[Mapping[str, float]], name: str) -> int:
    return sum(result[name] > 0 for result in results)


def _fig9_reason(of: Repeats, case: Values) -> str:
    """Return what the outcome hangs on, as far as results, steps and their cap tell."""
    plans = {e: plan(case, case["reading"], e, 0) for e in (SLOW, FAST)}
    words = list[str]()
    for e, chosen in plans.items():
        asked = round(case["steps"][e] / chosen["step"])
        if emptied := _count(of[e], "emptied"):
            words.append(
                f"step {chosen['step']:g} leaves {emptied} runs at ε = {e:g} without a neuron in [0, 1]"
            )
        if chosen["steps"] < asked:
            words.append(f"runs at ε = {e:g} are cut at {chosen['steps']} of {asked} steps")
    return "; ".join(words)


_PLANE = {"width": 10, "sharpness": 1e-2, "within": 1e-2, "steps": STEPS, "dimension": 2}
_CASES = (
    {"dimension": 2, "reading": "authors", "batch": 1000},
    {"dimension": 10, "reading": "authors", "batch": 10_000},
    {"dimension": 2, "reading": "printed", "batch": 1000},
    {"dimension": 2, "reading": "smaller step", "batch": 100, "repeats": 8},
)
_SMALL_CASES = (
    {"dimension": 2, "reading": "authors", "batch": 1000, "repeats": 8},
    {
        "dimension": 10,
        "reading": "authors",
        "batch": 1000,
        "repeats": 1,
        "unlike": "a batch of 1,000 instead of 10,000 overfits: another experiment, not a cheaper one",
    },
)


FIG6 = Experiment(
    "two_timescale/fig6",
    "Two dimensions: are all jumps covered?",
    "Figure 6, §6, App. C Tables 3 and 4",
    scales(
        {**_PLANE, "start": 0, "seed": 6},
        quick={"batches": {"authors": 1000, "printed": 200, "smaller step": 50}, "most_steps": 20_000},
        paper={"batches": {"authors": 1000, "printed": 1000, "smaller step": 200}, "most_steps": 100_000},
    ),
    run_fig6,
    cost={"quick": 13, "paper": 71},
)
FIG9 = Experiment(
    "two_timescale/fig9",
    "Two and ten dimensions: distance to the target over ε",
    "Figure 9, App. C",
    scales(
        {**_PLANE, "seed": 9},
        quick={"cases": _SMALL_CASES, "repeats": 2, "most_steps": 500},
        paper={"cases": _CASES, "repeats": 20, "most_steps": 100_000},
    ),
    run_fig9,
    sweeps=True,
    cost={"quick": 2.9, "paper": 6300},
)
