"""What the theorems ask of the paper's own example, and what of their promises a run shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.certificates import Certificate, Hypothesis, certify
from shallowflow.dynamics.limits.two_timescale import two_timescale_limit
from shallowflow.dynamics.population import population_flow
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.settings import PRINTED, function_panel
from shallowflow.landscape import step_class
from shallowflow.models import StepNetwork, initialize


def run_theorems(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """State what the theorems ask of the printed example, and what a run shows of their promises."""
    target, delta = PRINTED.target, parameters["delta"]
    known = step_class(target)
    width = int(np.ceil(known.neurons(delta)))
    wide = initialize.uniform_positions(width, sharpness=parameters["sharpness"], seed=parameters["seed"])
    asked = certify(
        "two_timescale/theorem-1",
        wide,
        target,
        epsilon=parameters["epsilon"],
        delta=delta,
        error=parameters["error"],
    )
    limit_asked = certify("two_timescale/theorem-2", wide, target, delta=delta, error=parameters["error"])
    progress(0.1, "Lemma 10")
    lemma = certify(
        "two_timescale/lemma-10",
        wide,
        target,
        delta=delta,
        samples=parameters["samples"],
        seed=parameters["seed"],
    )
    progress(0.3, "Propositions 1 and 4")
    even = StepNetwork(
        (np.arange(parameters["width"]) + 0.3) / parameters["width"],
        np.zeros(parameters["width"]),
        0.0,
        parameters["even_sharpness"],
    )
    curvature = certify("two_timescale/prop-1", even, target)
    flow = population_flow(even, target, until=parameters["until"], epsilon=parameters["tiny_epsilon"])
    tracking = certify("two_timescale/prop-4", even, target, flow, epsilon=parameters["tiny_epsilon"])
    progress(0.7, "recovery")
    heaviside = StepNetwork(wide.positions, wide.outer)
    limit = two_timescale_limit(heaviside, target, until=known.slow_time)
    recovered = certify(
        "two_timescale/theorem-2", wide, target, limit, delta=delta, error=parameters["error"]
    )
    claims = _theorem_claims(parameters, width, (asked, limit_asked, lemma, curvature, tracking, recovered))
    return Findings((_recovery_figure(limit, width),), claims)


def _theorem_claims(
    parameters: Mapping[str, Any], width: int, certificates: tuple[Certificate, ...]
) -> tuple[Claim, ...]:
    asked, limit_asked, lemma, curvature, tracking, recovered = certificates
    sharp, slow = asked.hypotheses[2], asked.hypotheses[3]
    eta = limit_asked.hypotheses[1]
    return (
        Claim(
            "Theorem 1 covers the paper's own example",
            f"m = 20, η = {parameters['sharpness']:g}, ε = {parameters['epsilon']:g}",
            f"it asks for m ≥ {width} (20 misses it by {width / 20:.1f}), then η ≤ {_miss(sharp)} and "
            f"ε ≤ {_miss(slow)}",
            asked.holds,
            "the proof does not aim at good constants (2⁻²¹, 2⁻³⁶) nor at small powers of m",
        ),
        Claim(
            "Theorem 2 covers the paper's own example in the limit ε → 0",
            f"m = 20, η = {parameters['sharpness']:g}",
            f"it asks for η ≤ {_miss(eta)} at m = {width}",
            limit_asked.holds,
            "as for Theorem 1",
        ),
        Claim(
            "What Theorem 2 promises comes true, in the limit η → 0",
            f"∫(f − f*)² ≤ ξ = {parameters['error']:g} at τ = 6/(Δf)²",
            f"{recovered.promises[1].observed:.2g} at τ = {recovered.promises[0].bound:g} with m = {width}",
            bool(recovered.promises[1].kept),
        ),
        Claim(
            f"Lemma 10: uniform positions are D-good with probability 1 − δ, δ = {parameters['delta']:g}",
            f"≥ {lemma.promises[0].bound:.2f}",
            f"{lemma.promises[0].observed:.3f} of {parameters['samples']} draws, m = {width}",
            bool(lemma.kept) and lemma.holds,
        ),
        Claim(
            "Proposition 1: the least eigenvalue of H(u) is at least Δ(u)/8",
            f"≥ {curvature.promises[0].bound:.2e}",
            f"{curvature.promises[0].observed:.2e} for {parameters['width']} even positions",
            bool(curvature.kept) and curvature.holds,
        ),
        Claim(
            "Proposition 4: the weights follow a*(u) within its bound",
            f"‖a − a*‖ ≤ {tracking.promises[0].bound:.3g} where it is tightest",
            f"{tracking.promises[0].observed:.3g} at ε = {parameters['tiny_epsilon']:g}",
            bool(tracking.kept) and tracking.holds,
            "" if tracking.holds else "a hypothesis fails",
        ),
    )


def _miss(hypothesis: Hypothesis) -> str:
    """Return a bound and by what factor it is missed."""
    assert hypothesis.value is not None
    assert hypothesis.bound is not None
    return f"{hypothesis.bound:.1e} (missed by {hypothesis.value / hypothesis.bound:.1e})"


def _recovery_figure(limit: Trajectory, width: int) -> Figure:
    end = function_panel(limit.final, PRINTED.target, "at τ = 6/(Δf)²", "limit, η = 0")
    error = Panel(
        (Series(limit.times[1:], 2 * limit.losses[1:], tone="green"),),
        f"two-timescale limit, m = {width}",
        "τ",
        "∫(f − f*)²",
        x_scale="log",
        y_scale="log",
    )
    return Figure("theorems", "Recovery with as many neurons as Theorem 1 asks for", (error, end))


_THEOREMS = {
    "delta": 0.1,
    "error": 0.01,
    "sharpness": 4e-3,
    "epsilon": 2e-5,
    "seed": 0,
    "width": 18,
    "even_sharpness": 1e-4,
    "tiny_epsilon": 1e-13,
}

THEOREMS = Experiment(
    "two_timescale/theorems",
    "What the theorems ask, and what comes true",
    "Theorems 1 and 2, Lemma 10, Propositions 1 and 4",
    {
        "quick": {**_THEOREMS, "samples": 300, "until": 100.0},
        "paper": {**_THEOREMS, "samples": 5000, "until": 2000.0},
    },
    run_theorems,
    cost={"quick": 2},
)
