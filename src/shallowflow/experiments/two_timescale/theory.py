"""What the theorems ask of the paper's own example, and what of their promises a run shows.

The counter-example of App. D.1: for equal and unequal pieces, and for random levels and lengths.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.certificates import Certificate, Hypothesis, certify
from shallowflow.data import PiecewiseConstant
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.population import population_flow
from shallowflow.dynamics.two_timescale import two_timescale_limit
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import PRINTED, function_panel
from shallowflow.landscape import fate_of_last_piece, step_class
from shallowflow.landscape.two_timescale.step_classes import RECOVERS, SECOND_ONLY, STUCK
from shallowflow.models import StepNetwork, initialize

LEVELS = (1.0, -1.0, 0.0)
CASES = (("equal lengths", 0.3), ("first piece longer", 0.35), ("second piece longer", 0.25))
STILL = 1e-9
"""A move below this is rounding."""
WHY = {
    STUCK: "",
    RECOVERS: "the bias is the mean M > 0 of the first two pieces, not 0: it pulls the leftmost neuron to "
    "the second jump and, as |−1 − M| > 1, past it to the first; the next neuron follows to the second",
    SECOND_ONLY: "the bias is the mean M ∈ (−1, 0) of the first two "
    "pieces and pulls the leftmost neuron to the second jump; left of that u' = ½[1 − (1 + M)²] > 0, so it "
    "stays",
}


def run_theorems(parameters: Values, progress: Progress) -> Findings:
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


def _theorem_claims(parameters: Values, wide: StepNetwork, limit: Trajectory) -> list[Claim]:
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


def _position_claims(parameters: Values, wide: StepNetwork) -> list[Claim]:
    """Judge Lemma 10 by draws and Proposition 1 on even positions."""
    delta, samples = parameters["delta"], parameters["samples"]
    lemma = certify(
        "two_timescale/lemma-10", wide, PRINTED.target, delta=delta, samples=samples, seed=parameters["seed"]
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


def _tracking_claim(parameters: Values) -> Claim:
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


def _even(parameters: Values) -> StepNetwork:
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
    curve = Series(limit.times[1:], 2 * limit.losses[1:], tone="green")
    error = Panel((curve,), f"two-timescale limit, m = {width}", "τ", "∫(f − f*)²", "log", "log")
    return Figure("theorems", "Recovery with as many neurons as Theorem 1 asks for", (error, end))


def _outcome(run: Trajectory) -> str:
    """Return what became of the neurons in a run with η = 0."""
    reached = {event.point for event in run.events if event.kind == "hit"}
    return RECOVERS if reached == {0, 1} else SECOND_ONLY if reached == {1} else STUCK


def run_counterexample(parameters: Values, progress: Progress) -> Findings:
    """Follow the limit from neurons on the third piece: three pairs of lengths, then random targets."""
    panels, claims = list[Panel](), list[Claim]()
    (low, high), until = parameters["between"], parameters["until"]
    positions = np.linspace(low, high, parameters["width"])
    still = StepNetwork(positions, np.zeros(len(positions)))
    smooth = StepNetwork(positions, np.zeros(len(positions)), 0.0, parameters["sharpness"])
    for words, first in CASES:
        progress(0.0, words)
        target = PiecewiseConstant([first, parameters["second"]], LEVELS)
        sharp_run = two_timescale_limit(still, target, until=until)
        smooth_run = two_timescale_limit(smooth, target, until=until, stiff=True, tolerance=1e-6)
        panels.append(function_panel(sharp_run.final, target, f"{words}: at the end", "limit, η = 0"))
        claims += _lengths_claims(words, sharp_run, smooth_run)
    targets = _random_targets(parameters)
    outcomes = []
    for done, target in enumerate(targets):
        progress(done / len(targets), "random targets")
        outcomes.append(_outcome(two_timescale_limit(still, target, until=parameters["long"])))
    claims += _random_claims(targets, outcomes)
    caption = "Values 1, −1, 0; all neurons start on the last piece."
    lengths = Figure("counterexample", "Neurons on one piece only", tuple(panels), caption, columns=3)
    fates = Figure(
        "counterexample-levels",
        "Neurons on the last piece only, random levels and lengths",
        (_fates_panel(targets, outcomes),),
        "Above the line the target is recovered, below it the first neuron stops at the second jump.",
        columns=1,
    )
    return Findings((lengths, fates), tuple(claims))


def _lengths_claims(words: str, sharp: Trajectory, smooth: Trajectory) -> list[Claim]:
    """Judge both halves of App. D.1 apart: that nothing moves, and that recovery fails."""
    outcome, moved = _outcome(sharp), np.abs(_positions(sharp.final) - _positions(sharp.initial)).max()
    hits = len({event.point for event in sharp.events if event.kind == "hit"})
    eta = getattr(smooth.final, "sharpness", 0.0)
    still = outcome == STUCK and moved < STILL
    return [
        Claim(
            f"{words}: neurons on the third piece do not move (App. D.1)",
            "weights and bias are zero at once, positions do not move (lengths are not named)",
            f"positions move by {moved:.3f} at most",
            still,
            "" if still else WHY[outcome],
        ),
        Claim(
            f"{words}: the target is not recovered (App. D.1)",
            "a local minimum",
            f"∫(f − f*)²: {2 * float(sharp.losses[0]):.3f} → {2 * float(sharp.losses[-1]):.3f}, {hits} of 2 "
            f"jumps covered at η = 0; {2 * float(smooth.losses[-1]):.3f} with η = {eta:g}",
            outcome != RECOVERS,
            WHY[outcome],
        ),
    ]


def _positions(network: object) -> Floats:
    assert isinstance(network, StepNetwork)
    return network.positions


def _random_targets(parameters: Values) -> list[PiecewiseConstant]:
    """Return targets of three pieces with normal levels and uniform jumps left of the neurons."""
    rng = np.random.default_rng(parameters["seed"])
    return [
        PiecewiseConstant(np.sort(rng.uniform(0.0, parameters["second"], 2)), rng.normal(size=3))
        for _ in range(parameters["targets"])
    ]


def _random_claims(targets: list[PiecewiseConstant], outcomes: list[str]) -> list[Claim]:
    total, kept = len(targets), sum(outcome != RECOVERS for outcome in outcomes)
    right = sum(fate_of_last_piece(t) == o for t, o in zip(targets, outcomes, strict=True))
    return [
        Claim(
            "Two consecutive pieces without a neuron often mean a local minimum (App. D.1)",
            "often",
            f"{kept} of {total} random targets are not recovered: {outcomes.count(STUCK)} because nothing "
            f"moves, {outcomes.count(SECOND_ONLY)} because the first neuron stops at the second jump",
            kept > 0.2 * total,
        ),
        Claim(
            "(derived here) It is recovered if and only if |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|",
            "the paper gives one example; s₁, s₂: the jumps, ℓ₁, ℓ₂: the lengths of the empty pieces",
            f"right for {right} of {total} random targets",
            right == total,
        ),
    ]


def _fates_panel(targets: list[PiecewiseConstant], outcomes: list[str]) -> Panel:
    ratio = np.array([abs(t.jumps[1] / t.jumps[0]) for t in targets])
    share = np.array([t.breakpoints[0] / t.breakpoints[1] for t in targets])
    series = [Series([0.0, 1.0], [0.0, 1.0], "|s₁| ℓ₁/(ℓ₁ + ℓ₂) = |s₂|", style="dashed", tone="muted")]
    for outcome, tone in ((RECOVERS, "green"), (SECOND_ONLY, "orange")):
        chosen = np.array([one == outcome for one in outcomes])
        series.append(Series(ratio[chosen], share[chosen], outcome, style="points", tone=tone, size=0.7))
    series.append(Series([0.5], [0.5], "paper, equal lengths", style="crosses", tone="red"))
    labels = "random levels and lengths", "|s₂| / |s₁|", "ℓ₁/(ℓ₁ + ℓ₂)"
    return Panel(tuple(series), *labels, x_limits=(0.0, 2.0), y_limits=(0.0, 1.0))


THEOREMS = Experiment(
    "two_timescale/theorems",
    "What the theorems ask, and what comes true",
    "Theorems 1 and 2, Lemma 10, Propositions 1 and 4",
    scales(
        {
            "delta": 0.1,
            "error": 0.01,
            "sharpness": 4e-3,
            "epsilon": 2e-5,
            "seed": 0,
            "width": 18,
            "even_sharpness": 1e-4,
            "tiny_epsilon": 1e-13,
        },
        quick={"samples": 300, "until": 100.0},
        paper={"samples": 5000, "until": 2000.0},
    ),
    run_theorems,
    cost={"quick": 0.2, "paper": 3.2},
)
COUNTEREXAMPLE = Experiment(
    "two_timescale/counterexample",
    "Neurons on one piece only: stuck, or not",
    "App. D.1",
    scales(
        {
            "width": 6,
            "between": (0.65, 0.95),
            "second": 0.6,
            "sharpness": 4e-3,
            "until": 3000.0,
            "long": 1e9,
            "seed": 0,
        },
        quick={"targets": 20},
        paper={"targets": 200},
    ),
    run_counterexample,
    cost={"quick": 1.9, "paper": 103},
)
