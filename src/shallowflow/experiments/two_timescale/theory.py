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
from shallowflow.experiments.two_timescale.training import PRINTED, function_panel
from shallowflow.landscape import step_class
from shallowflow.models import StepNetwork, initialize


def run_theorems(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """State what the theorems ask of the printed example, and what a run shows of their promises."""
    known = step_class(PRINTED.target)
    width = int(np.ceil(known.neurons(parameters["delta"])))
    wide = initialize.uniform_positions(width, sharpness=parameters["sharpness"], seed=parameters["seed"])
    progress(0.1, "Lemma 10")
    positions = _position_claims(parameters, wide)
    progress(0.3, "Proposition 4")
    tracking = _tracking_claim(parameters)
    progress(0.7, "recovery")
    heaviside = StepNetwork(wide.positions, wide.outer)
    limit = two_timescale_limit(heaviside, PRINTED.target, until=known.slow_time)
    theorems = _theorem_claims(parameters, wide, limit)
    return Findings((_recovery_figure(limit, width),), (*theorems, *positions, tracking))


def _theorem_claims(parameters: Mapping[str, Any], wide: StepNetwork, limit: Trajectory) -> list[Claim]:
    """Judge Theorems 1 and 2: what they ask, and what comes true in the limit."""
    width, chosen = wide.width, {"delta": parameters["delta"], "error": parameters["error"]}
    epsilon = parameters["epsilon"]
    asked = certify("two_timescale/theorem-1", wide, PRINTED.target, epsilon=epsilon, **chosen)
    recovered = certify("two_timescale/theorem-2", wide, PRINTED.target, limit, **chosen)
    sharp, slow, flat = (_small_enough(*one) for one in ((asked, "η"), (asked, "ε"), (recovered, "η")))
    end, error = recovered.promises
    return [
        Claim(
            "Theorem 1 covers the paper's own example",
            f"m = 20, η = {parameters['sharpness']:g}, ε = {epsilon:g}",
            f"it asks for m ≥ {width} (20 misses it by {width / 20:.1f}), then η ≤ {_miss(sharp)} and "
            f"ε ≤ {_miss(slow)}",
            asked.holds,
            "the proof does not aim at good constants (2⁻²¹, 2⁻³⁶) nor at small powers of m",
        ),
        Claim(
            "Theorem 2 covers the paper's own example in the limit ε → 0",
            f"m = 20, η = {parameters['sharpness']:g}",
            f"it asks for η ≤ {_miss(flat)} at m = {width}",
            recovered.holds,
            "as for Theorem 1",
        ),
        Claim(
            "What Theorem 2 promises comes true, in the limit η → 0",
            f"∫(f − f*)² ≤ ξ = {parameters['error']:g} at τ = 6/(Δf)²",
            f"{error.observed:.2g} at τ = {end.bound:g} with m = {width}",
            bool(error.kept),
        ),
    ]


def _position_claims(parameters: Mapping[str, Any], wide: StepNetwork) -> list[Claim]:
    """Judge Lemma 10 by draws and Proposition 1 on even positions."""
    delta, samples = parameters["delta"], parameters["samples"]
    lemma = certify(
        "two_timescale/lemma-10",
        wide,
        PRINTED.target,
        delta=delta,
        samples=samples,
        seed=parameters["seed"],
    )
    curvature = certify("two_timescale/prop-1", _even(parameters), PRINTED.target)
    return [
        Claim(
            f"Lemma 10: uniform positions are D-good with probability 1 − δ, δ = {delta:g}",
            f"≥ {lemma.promises[0].bound:.2f}",
            f"{lemma.promises[0].observed:.3f} of {samples} draws, m = {wide.width}",
            bool(lemma.kept) and lemma.holds,
        ),
        Claim(
            "Proposition 1: the least eigenvalue of H(u) is at least Δ(u)/8",
            f"≥ {curvature.promises[0].bound:.2e}",
            f"{curvature.promises[0].observed:.2e} for {parameters['width']} even positions",
            bool(curvature.kept) and curvature.holds,
        ),
    ]


def _tracking_claim(parameters: Mapping[str, Any]) -> Claim:
    """Judge Proposition 4 on a run so slow that its hypotheses hold."""
    even, epsilon = _even(parameters), parameters["tiny_epsilon"]
    flow = population_flow(even, PRINTED.target, until=parameters["until"], epsilon=epsilon)
    tracking = certify("two_timescale/prop-4", even, PRINTED.target, flow, epsilon=epsilon)
    return Claim(
        "Proposition 4: the weights follow a*(u) within its bound",
        f"‖a − a*‖ ≤ {tracking.promises[0].bound:.3g} where it is tightest",
        f"{tracking.promises[0].observed:.3g} at ε = {epsilon:g}",
        bool(tracking.kept) and tracking.holds,
        "" if tracking.holds else "a hypothesis fails",
    )


def _even(parameters: Mapping[str, Any]) -> StepNetwork:
    width = parameters["width"]
    return StepNetwork((np.arange(width) + 0.3) / width, np.zeros(width), 0.0, parameters["even_sharpness"])


def _small_enough(certificate: Certificate, symbol: str) -> Hypothesis:
    """Return the hypothesis that a symbol is small enough."""
    (found,) = (one for one in certificate.hypotheses if one.name.startswith(f"{symbol} is small enough"))
    return found


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
    cost={"quick": 0.2, "paper": 3.2},
)
