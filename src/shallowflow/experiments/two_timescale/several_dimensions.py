"""Figures 6 and 9: two and ten dimensions, with one ratio of steps or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

import shallowflow.experiments.two_timescale.batch_training as training
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.batch_training import FAST, JUMPS, SLOW, STEPS, Repeats, plan

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
        run = training.train(chosen, np.random.SeedSequence(parameters["seed"]))
        if reading == "printed":
            blown.append(Series(run.times[1:], run.losses[1:], f"ε = {epsilon:g}"))
            claims.append(_blow_up(run, epsilon))
        else:
            panels.append(_plane(run, f"{reading}, ε = {epsilon:g}"))
            lost = training.missed(run, parameters["within"])
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
    within = training.inside(run)
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
    places = training.positions(run)
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
    words = training.outcome_title(run, title)
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
        of = training.repeats(f"two_timescale/fig9, {space}, {reading}", whole, reading, sweep)
        published = training.PUBLISHED_MEDIANS[space] if reading == "authors" else None
        panels.append(training.spread_panel(f"{space}, {reading}", of, whole["batch"], published))
        claims += fig9_claims(space, reading, of, whole)
        unlike = whole.get("unlike", "")
        claims += training.median_claims(reading, of, whole["batch"], published, unlike, f"{space}: ")
    figure = Figure("fig9", "Several dimensions: distance over ε", tuple(panels), training.SPREAD)
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
    return [training.cannot_tell(claim, case.get("unlike", "")) for claim in claims]


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
