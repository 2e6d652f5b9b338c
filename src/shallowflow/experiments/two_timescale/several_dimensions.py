"""Figures 6, 9 and 10: several dimensions, and ReLU networks, with one ratio of steps or another.

"printed" is SGD on fresh batches with the squared loss and step 1; "authors" is what the public code runs:
descent on one fixed batch with the loss ‖r‖₂/n. (Its networks have no bias a_0; ours keep the printed one.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.sweep import run_all
from shallowflow.landscape import population_loss
from shallowflow.models import AdditiveStepNetwork, KnotNetwork, NormLoss, initialize

JUMPS = (0.3, 0.5, 0.7)
STAIRCASE = PiecewiseConstant(JUMPS, (0.0, 1.0, 2.0, 3.0))
KINKS = PiecewiseAffine((0.0, 0.3, 0.5, 0.7, 1.0), (0.0, 0.0, 0.2, 0.0, 0.6))
"""relu(x − 0.3) − 2 relu(x − 0.5) + 3 relu(x − 0.7) on [0, 1]."""
RECORD = Record.geometric(40)
SMALL = 0.1
"""A loss below this has more than the mean of the target."""


def _additive(dimension: int) -> Additive:
    return Additive([STAIRCASE] * dimension)


def _train(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Trajectory:
    """Train one network: parameters name the reading, ε, the dimension (0: ReLU on the line), the start."""
    dimension, epsilon = parameters["dimension"], parameters["epsilon"]
    network: AdditiveStepNetwork | KnotNetwork
    target: Additive | PiecewiseAffine
    if dimension == 0:
        network, target = initialize.uniform_knots(parameters["width"], seed=parameters["start"]), KINKS
    else:
        network = initialize.uniform_cuboids(
            parameters["width"], dimension, sharpness=parameters["sharpness"], seed=parameters["start"]
        )
        target = _additive(dimension)
    steps, step = parameters["steps"][epsilon], 1.0
    if parameters["reading"] == "authors":
        inputs = np.random.default_rng(seed).random((parameters["batch"], max(dimension, 1)))
        data = Dataset(inputs, target(inputs if isinstance(target, Additive) else inputs[:, 0]))
        return gradient_descent(
            network, data, step=step, steps=steps, epsilon=epsilon, loss=NormLoss(), record=RECORD
        )
    if parameters["reading"] == "smaller step":
        step, steps = parameters["stable_step"], round(steps / parameters["stable_step"])
    return stochastic_descent(
        network,
        target,
        step=step,
        steps=min(steps, parameters["most_steps"]),
        epsilon=epsilon,
        batch=parameters["batch"],
        seed=seed,
        record=RECORD,
    )


def _missed(positions: Floats, within: float) -> int:
    """Return how many jumps (or kinks) of all coordinates (m, d) have no neuron that near."""
    gaps = np.abs(np.array(JUMPS)[:, None, None] - positions).min(axis=1)
    return int((gaps >= within).sum())


def _positions(trajectory: Trajectory) -> Floats:
    final = trajectory.final
    if isinstance(final, KnotNetwork):
        return final.knots[:, None]
    assert isinstance(final, AdditiveStepNetwork)
    return final.positions


def task(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, float]:
    """Return the distance at the end, the jumps without a neuron, and whether the run ended well."""
    run = _train(parameters, seed)
    dimension = parameters["dimension"]
    target = KINKS if dimension == 0 else _additive(dimension)
    diverged = run.outcome.status == "diverged"
    return {
        "distance": np.inf if diverged else 2.0 * population_loss(run.final, target),
        "missed": float(_missed(_positions(run), parameters["within"])),
        "unstable": float(not run.outcome.ok),
    }


def run_fig6(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show the neurons of a 2-D network at the end, in both regimes and all readings."""
    panels, claims = list[Panel](), list[Claim]()
    cases = [(reading, epsilon) for reading in parameters["batches"] for epsilon in parameters["steps"]]
    missed: dict[tuple[str, float], int] = {}
    for done, (reading, epsilon) in enumerate(cases):
        progress(done / len(cases), f"{reading}, ε = {epsilon:g}")
        batch = parameters["batches"][reading]
        chosen = {**parameters, "reading": reading, "epsilon": epsilon, "batch": batch}
        run = _train(chosen, np.random.SeedSequence(parameters["seed"]))
        missed[reading, epsilon] = _missed(_positions(run), parameters["within"])
        panels.append(_plane(run, f"{reading}, ε = {epsilon:g}"))
        if reading == "printed":
            claims.append(_blow_up(run, epsilon))
    for reading in parameters["batches"]:
        if reading != "printed":
            fast, slow = missed[reading, 1.0], missed[reading, 0.01]
            claims.append(
                Claim(
                    f"{reading}: a discontinuity is missed at ε = 1, none at ε = 0.01",
                    "at ε = 1 the jump at x = 0.3 has no neuron; at ε = 0.01 all have one",
                    f"of 6 jumps {fast} have no neuron within {parameters['within']:g} at ε = 1, {slow} at "
                    "ε = 0.01",
                    fast > 0 and slow == 0,
                    "" if fast > 0 and slow == 0 else "it hangs on the start and on the run: see fig9",
                )
            )
    caption = "Lines: the neurons' positions (orange) and the jumps of the target (blue) at the end."
    return Findings((Figure("fig6", "Two dimensions", tuple(panels), caption),), tuple(claims))


def _blow_up(run: Trajectory, epsilon: float) -> Claim:
    inside = _positions(run)
    out = int(((inside < 0) | (inside > 1)).sum())
    fine = run.outcome.ok and float(run.losses[-1]) < SMALL
    return Claim(
        f"printed: with step 1 and the squared loss the network learns (ε = {epsilon:g})",
        "trained by SGD with h = 1.0 and batches of 1000",
        f"{run.outcome} ({out} of {inside.size} positions left [0, 1])",
        fine,
        ""
        if fine
        else "step 1 is beyond the stability limit 2/λ of the weights: they blow up and throw the "
        "positions out of [0, 1]; what remains is a constant. A smaller step works",
    )


def _plane(run: Trajectory, title: str) -> Panel:
    """Draw positions as lines across the unit square; a run that overflowed shows where it began."""
    positions = _positions(run)
    return Panel(
        (
            *_grid(np.array(JUMPS), np.array(JUMPS), "jumps", "sky", 2.6),
            *_grid(positions[:, 0], positions[:, 1], "neurons", "orange", 0.8),
        ),
        _outcome_title(run, title),
        "x₁",
        "x₂",
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )


def _outcome_title(run: Trajectory, title: str) -> str:
    """Return the title, with a word on a run that overflowed or lost all its neurons."""
    if run.outcome.status == "diverged":
        return f"{title}: overflowed"
    positions = _positions(run)
    inside = np.any((positions >= 0) & (positions <= 1))
    return title if inside else f"{title}: all neurons left [0, 1]"


def _grid(first: Floats, second: Floats, label: str, tone: str, size: float) -> tuple[Series, Series]:
    across, along = np.tile([0.0, 1.0, np.nan], len(first)), np.tile([0.0, 1.0, np.nan], len(second))
    return (
        Series(np.repeat(first, 3), across, label, tone=tone, size=size),
        Series(along, np.repeat(second, 3), tone=tone, size=size),
    )


def run_fig9(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Repeat the training in 2 and 10 dimensions over starts."""
    runs = [
        {**parameters, **case, "epsilon": epsilon, "start": start}
        for case in parameters["cases"]
        for epsilon in parameters["steps"]
        for start in range(parameters["repeats"])
    ]
    found = run_all(task, runs, parameters["seed"], parameters["jobs"], lambda done: progress(done, "runs"))
    panels, claims = list[Panel](), list[Claim]()
    for case in parameters["cases"]:
        of = {
            epsilon: [
                result
                for run, result in zip(runs, found, strict=True)
                if run["epsilon"] == epsilon
                and (run["reading"], run["dimension"]) == (case["reading"], case["dimension"])
            ]
            for epsilon in parameters["steps"]
        }
        title = f"{case['dimension']}-D, {case['reading']}"
        panels.append(_distances(of, title))
        claims.append(_fig9_claim(of, title))
    caption = "∫(f − f*)² over the cube at the end, every repeat a point; the lines join medians."
    return Findings(
        (Figure("fig9", "Several dimensions: distance over ε", tuple(panels), caption),), tuple(claims)
    )


Repeats = dict[float, list[dict[str, float]]]


def _distances(of: Repeats, title: str) -> Panel:
    epsilons = sorted(of)
    clouds = [(e, r["distance"]) for e in epsilons for r in of[e] if np.isfinite(r["distance"])]
    x, y = np.array(clouds).T if clouds else (np.empty(0), np.empty(0))
    medians = [float(np.median([r["distance"] for r in of[e]])) for e in epsilons]
    return Panel(
        (
            Series(epsilons, medians, "median", tone="orange"),
            Series(x, y, "repeats", style="points", tone="blue", size=0.7),
        ),
        title,
        "ε",
        "∫(f − f*)²",
        x_scale="log",
        y_scale="log",
    )


def _fig9_claim(of: Repeats, title: str) -> Claim:
    slow, fast = (np.array([r["distance"] for r in of[e]]) for e in (0.01, 1.0))
    lost = {e: sum(r["missed"] > 0 for r in of[e]) for e in (0.01, 1.0)}
    blown = {e: int(sum(r["unstable"] for r in of[e])) for e in (0.01, 1.0)}
    holds = bool(np.median(slow) < 0.5 * np.median(fast))
    return Claim(
        f"{title}: small ε recovers the target, ε = 1 does not",
        "the distance is much smaller at ε = 0.01",
        f"median {np.median(slow):.3g} at ε = 0.01 ({lost[0.01]}/{len(slow)} miss a jump), "
        f"{np.median(fast):.3g} at ε = 1 ({lost[1.0]}/{len(fast)} miss one); judged unstable: {blown[0.01]} "
        f"and {blown[1.0]}",
        holds,
        ""
        if holds
        else "step 1 is beyond the stability limit 2/λ of the weights"
        if any(blown.values())
        else "jumps are missed at ε = 0.01 too: 5,000 steps are not enough for all of them",
    )


def run_fig10(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Fit a piecewise affine target by ReLU networks, in both regimes and readings."""
    panels, claims = list[Panel](), list[Claim]()
    for part, reading in enumerate(("authors", "printed")):
        chosen = {**parameters, "reading": reading, "dimension": 0}
        runs = [
            {**chosen, "epsilon": epsilon, "start": start}
            for epsilon in parameters["steps"]
            for start in range(parameters["repeats"])
        ]
        progress(part / 2, f"{reading}, {len(runs)} repeats")
        found = run_all(task, runs, parameters["seed"], parameters["jobs"])
        panels += [_kinks_panel(chosen, epsilon) for epsilon in parameters["steps"]]
        claims.append(_fig10_claim(chosen, runs, found))
    caption = "Dotted: the kinks of the target. Points: the knots of the network."
    return Findings((Figure("fig10", "ReLU networks", tuple(panels), caption),), tuple(claims))


def _kinks_panel(parameters: Mapping[str, Any], epsilon: float) -> Panel:
    chosen = {**parameters, "epsilon": epsilon, "start": parameters["shown"]}
    run = _train(chosen, np.random.SeedSequence(parameters["seed"]))
    x, knots = np.linspace(0.0, 1.0, 501), _positions(run)[:, 0]
    return Panel(
        (
            Series(x, KINKS(x), "target", tone="sky", size=2.6),
            Series(x, run.final(x), "network", tone="orange"),
            Series(knots, run.final(knots), "knots", style="points", tone="orange"),
        ),
        _outcome_title(run, f"{parameters['reading']}, ε = {epsilon:g}"),
        "x",
        "f(x)",
        marks=tuple((kink, "") for kink in JUMPS),
        marks_label="kinks of the target",
        x_limits=(0.0, 1.0),
        y_limits=(-0.1, 0.8),
    )


def _fig10_claim(
    parameters: Mapping[str, Any], runs: list[dict[str, Any]], found: list[dict[str, float]]
) -> Claim:
    of = {
        epsilon: [r for run, r in zip(runs, found, strict=True) if run["epsilon"] == epsilon]
        for epsilon in parameters["steps"]
    }
    lost = {epsilon: float(np.mean([r["missed"] for r in of[epsilon]])) for epsilon in of}
    slow, fast = (np.median([r["distance"] for r in of[epsilon]]) for epsilon in (0.01, 1.0))
    fewer = lost[0.01] < 0.5 * lost[1.0]
    return Claim(
        f"{parameters['reading']}: kinks are not covered at ε = 1 and are at ε = 0.01",
        "some kinks have no neuron in the standard regime; all have one in the other",
        f"of 3 kinks, on average {lost[1.0]:.2f} have no knot within {parameters['within']:g} at ε = 1, "
        f"{lost[0.01]:.2f} at ε = 0.01; median ∫(f − f*)² {fast:.2g} and {slow:.2g} "
        f"({parameters['repeats']} starts)",
        fewer and bool(slow < fast),
        "" if fewer else "knots stop on both sides of a kink rather than on it",
    )


_STEPS = {1.0: 300, 0.01: 5000}
_PLANE = {"width": 10, "sharpness": 1e-2, "within": 1e-2, "steps": _STEPS, "dimension": 2, "stable_step": 0.1}
_CASES = (
    {"dimension": 2, "reading": "authors", "batch": 1000},
    {"dimension": 10, "reading": "authors", "batch": 10_000},
    {"dimension": 2, "reading": "printed", "batch": 1000},
)
_SMALL_CASES = (
    {"dimension": 2, "reading": "authors", "batch": 1000},
    {"dimension": 10, "reading": "authors", "batch": 1000},
    {"dimension": 2, "reading": "printed", "batch": 200},
)
_FIG6 = {**_PLANE, "start": 0, "seed": 6}
_FIG10 = {"width": 10, "within": 2e-2, "steps": _STEPS, "seed": 10, "shown": 0, "stable_step": 0.1}

FIG6 = Experiment(
    "two_timescale/fig6",
    "Two dimensions: are all jumps covered?",
    "Figure 6, §6, App. C Tables 3 and 4",
    {
        "quick": {
            **_FIG6,
            "batches": {"authors": 1000, "printed": 200, "smaller step": 200},
            "most_steps": 5000,
        },
        "paper": {
            **_FIG6,
            "batches": {"authors": 1000, "printed": 1000, "smaller step": 1000},
            "most_steps": 100_000,
        },
    },
    run_fig6,
    cost={"quick": 9.4},
)
FIG9 = Experiment(
    "two_timescale/fig9",
    "Two and ten dimensions: distance to the target over ε",
    "Figure 9, App. C",
    {
        "quick": {**_PLANE, "cases": _SMALL_CASES, "repeats": 2, "jobs": 1, "seed": 9, "most_steps": 500},
        "paper": {**_PLANE, "cases": _CASES, "repeats": 20, "jobs": 2, "seed": 9, "most_steps": 5000},
    },
    run_fig9,
    cost={"quick": 3.9},
)
FIG10 = Experiment(
    "two_timescale/fig10",
    "ReLU networks and a piecewise affine target",
    "Figure 10, App. C",
    {
        "quick": {**_FIG10, "batch": 200, "repeats": 2, "jobs": 1, "most_steps": 5000},
        "paper": {**_FIG10, "batch": 1000, "repeats": 20, "jobs": 2, "most_steps": 5000},
    },
    run_fig10,
    cost={"quick": 4.4},
)
