"""Figures 6 and 9: two and ten dimensions, with one ratio of steps or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import shallowflow.experiments.two_timescale.batch_training as training
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.batch_training import FAST, JUMPS, SLOW, STEPS, Repeats, plan

SMALL = 0.1
"""A loss below this has more than the mean of the target."""


def run_fig6(parameters: Values, progress: Progress) -> Findings:
    """Show the neurons of a 2-D network at the end, in both regimes and all readings."""
    panels, claims = list[Panel](), list[Claim]()
    cases = [(reading, epsilon) for reading in parameters["batches"] for epsilon in parameters["steps"]]
    lost: dict[tuple[str, float], int] = {}
    for done, (reading, epsilon) in enumerate(cases):
        progress(done / len(cases), f"{reading}, ε = {epsilon:g}")
        batch = parameters["batches"][reading]
        chosen = plan({**parameters, "batch": batch}, reading, epsilon, parameters["start"])
        run = training.train(chosen, np.random.SeedSequence(parameters["seed"]))
        lost[reading, epsilon] = training.missed(run, parameters["within"])
        panels.append(_plane(run, f"{reading}, ε = {epsilon:g}"))
        if reading == "printed":
            claims.append(_blow_up(run, epsilon))
    claims += [
        _lost_claim(reading, lost[reading, FAST], lost[reading, SLOW], parameters["within"])
        for reading in parameters["batches"]
        if reading != "printed"
    ]
    caption = "Lines: the neurons' positions (orange) and the jumps of the target (blue) at the end."
    return Findings((Figure("fig6", "Two dimensions", tuple(panels), caption),), tuple(claims))


def _lost_claim(reading: str, fast: int, slow: int, within: float) -> Claim:
    holds = fast > 0 and slow == 0
    return Claim(
        f"{reading}: a discontinuity is missed at ε = 1, none at ε = 0.01",
        "at ε = 1 the jump at x = 0.3 has no neuron; at ε = 0.01 all have one",
        f"of 6 jumps {fast} have no neuron within {within:g} at ε = 1, {slow} at ε = 0.01",
        holds,
        "" if holds else "it hangs on the start and on the run: see fig9",
    )


def _blow_up(run: Trajectory, epsilon: float) -> Claim:
    within = training.inside(run)
    fine = run.outcome.ok and float(run.losses[-1]) < SMALL
    return Claim(
        f"printed: with step 1 and the squared loss the network learns (ε = {epsilon:g})",
        "trained by SGD with h = 1.0 and batches of 1000",
        f"{run.outcome} (at most {run.losses.max():.3g} on the way; {int((~within).sum())} of {within.size} "
        "positions left [0, 1])",
        fine,
        ""
        if fine
        else "step 1 is beyond the stability limit 2/λ of the weights: they blow up and throw the "
        "positions out of [0, 1]; what remains is a constant. A smaller step works",
    )


def _plane(run: Trajectory, title: str) -> Panel:
    """Draw positions as lines across the unit square; a run that overflowed shows where it began."""
    places = training.positions(run)
    jumps = _grid(np.array(JUMPS), np.array(JUMPS), "jumps", "sky", 2.6)
    lines = (*jumps, *_grid(places[:, 0], places[:, 1], "neurons", "orange", 0.8))
    words, unit = training.outcome_title(run, title), (0.0, 1.0)
    return Panel(lines, words, "x₁", "x₂", x_limits=unit, y_limits=unit)


def _grid(first: Floats, second: Floats, label: str, tone: str, size: float) -> tuple[Series, Series]:
    across, along = np.tile([0.0, 1.0, np.nan], len(first)), np.tile([0.0, 1.0, np.nan], len(second))
    return (
        Series(np.repeat(first, 3), across, label, tone=tone, size=size),
        Series(along, np.repeat(second, 3), tone=tone, size=size),
    )


def run_fig9(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Repeat the training in 2 and 10 dimensions over starts."""
    panels, claims = list[Panel](), list[Claim]()
    for case in parameters["cases"]:
        title = f"{case['dimension']}-D, {case['reading']}"
        whole = {**parameters, **case}
        of = training.repeats(f"two_timescale/fig9, {title}", whole, case["reading"], sweep)
        panels.append(_distances(of, title))
        claims.append(_fig9_claim(of, title, whole))
    caption = "∫(f − f*)² over the cube at the end, every repeat a point; the lines join medians."
    figure = Figure("fig9", "Several dimensions: distance over ε", tuple(panels), caption)
    return Findings((figure,), tuple(claims))


def _distances(of: Repeats, title: str) -> Panel:
    epsilons = sorted(of)
    clouds = [(e, r["distance"]) for e in epsilons for r in of[e] if np.isfinite(r["distance"])]
    x, y = np.array(clouds).T if clouds else (np.empty(0), np.empty(0))
    medians = [float(np.median([r["distance"] for r in of[e]])) for e in epsilons]
    series = (
        Series(epsilons, medians, "median", tone="orange"),
        Series(x, y, "repeats", style="points", tone="blue", size=0.7),
    )
    return Panel(series, title, "ε", "∫(f − f*)²", "log", "log")


def _fig9_claim(of: Repeats, title: str, case: Values) -> Claim:
    slow, fast = (np.array([r["distance"] for r in of[e]]) for e in (SLOW, FAST))
    lost, blown = ({e: _count(of[e], name) for e in (SLOW, FAST)} for name in ("missed", "unstable"))
    smaller = bool(np.median(slow) < 0.5 * np.median(fast))
    recovers, fails = lost[SLOW] < 0.5 * len(slow), lost[FAST] > 0.5 * len(fast)
    return Claim(
        f"{title}: small ε recovers the target, ε = 1 does not",
        "the distance is much smaller at ε = 0.01",
        f"median {np.median(slow):.3g} at ε = 0.01 ({lost[SLOW]}/{len(slow)} miss a jump), "
        f"{np.median(fast):.3g} at ε = 1 ({lost[FAST]}/{len(fast)} miss one); judged unstable: {blown[SLOW]} "
        f"and {blown[FAST]}",
        smaller and recovers and fails,
        _fig9_reason(of, case),
    )


def _count(results: Sequence[Mapping[str, float]], name: str) -> int:
    return sum(result[name] > 0 for result in results)


def _fig9_reason(of: Repeats, case: Values) -> str:
    """Return what the outcome hangs on, as far as results, steps and their cap tell."""
    plans = {e: plan(case, case["reading"], e, 0) for e in (SLOW, FAST)}
    whole, words = len(of[FAST]) - _count(of[FAST], "missed"), list[str]()
    if lost := _count(of[SLOW], "missed"):
        words.append(f"{lost} of {len(of[SLOW])} runs miss a jump at ε = 0.01, too")
    if whole:
        words.append(f"{whole} of {len(of[FAST])} runs at ε = 1 miss none")
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
    {"dimension": 2, "reading": "authors", "batch": 1000},
    {"dimension": 10, "reading": "authors", "batch": 1000},
    {"dimension": 2, "reading": "printed", "batch": 200},
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
    cost={"quick": 9.8, "paper": 51},
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
    cost={"quick": 2.9, "paper": 472},
)
