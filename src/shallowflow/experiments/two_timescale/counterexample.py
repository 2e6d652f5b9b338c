"""The counter-example of App. D.1: neurons on the last of three pieces only, or on the outer two of four."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import PiecewiseConstant
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.two_timescale import two_timescale_limit
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import function_panel
from shallowflow.landscape import fate_of_last_piece
from shallowflow.landscape.two_timescale.step_classes import RECOVERS, SECOND_ONLY, STUCK
from shallowflow.models import StepNetwork

LEVELS = (1.0, -1.0, 0.0)
CASES = (("equal lengths", 0.3), ("first piece longer", 0.35), ("second piece longer", 0.25))
STILL = 1e-9
"""A move below this is rounding."""
OFTEN = 0.5
"""Share that "often" asks for."""
WHY = {
    STUCK: "",
    RECOVERS: "the bias is the mean M > 0 of the first two pieces, not 0: it pulls the leftmost neuron to "
    "the second jump and, as |−1 − M| > 1, past it to the first; the next neuron follows to the second",
    SECOND_ONLY: "the bias is the mean M ∈ (−1, 0) of the first two "
    "pieces and pulls the leftmost neuron to the second jump; left of that u' = ½[1 − (1 + M)²] > 0, so it "
    "stays",
}


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
    claims += random_claims([fate_of_last_piece(target) for target in targets], outcomes)
    claims.append(middle_claim(_middle(parameters, progress), parameters["targets"]))
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
            "Neurons on the third piece do not move (App. D.1)",
            "weights and bias are zero at once, positions do not move (lengths are not named)",
            f"positions move by {moved:.3f} at most",
            still,
            "" if still else WHY[outcome],
            f"if one moves by more than {STILL:g}",
            setting=words,
        ),
        Claim(
            "The target is not recovered (App. D.1)",
            "a local minimum",
            f"∫(f − f*)²: {2 * float(sharp.losses[0]):.3f} → {2 * float(sharp.losses[-1]):.3f}, {hits} of 2 "
            f"jumps covered at η = 0; {2 * float(smooth.losses[-1]):.3f} with η = {eta:g}",
            outcome != RECOVERS,
            WHY[outcome],
            "if both jumps are reached",
            setting=words,
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


def random_claims(foretold: list[str], outcomes: list[str]) -> list[Claim]:
    """Judge random targets: how many are not recovered, and whether that is foretold."""
    total, kept = len(outcomes), sum(outcome != RECOVERS for outcome in outcomes)
    right = sum(first == second for first, second in zip(foretold, outcomes, strict=True))
    return [
        Claim.that(
            "Two consecutive pieces without a neuron often mean a local minimum: the first two (App. D.1)",
            "often",
            Interval.of_share(kept, total),
            least=OFTEN,
            words=f"share {{}} of {total} random targets is not recovered: {outcomes.count(STUCK)} because "
            f"nothing moves, {outcomes.count(SECOND_ONLY)} because the first neuron stops at the second jump",
        ),
        Claim.that(
            "It is recovered if and only if |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|",
            "the paper gives one example; s₁, s₂: the jumps, ℓ₁, ℓ₂: the lengths of the empty pieces",
            Interval.exact(right),
            least=total,
            words=f"right for {{}} of {total} random targets",
            ours=True,
        ),
    ]


def _middle(parameters: Values, progress: Progress) -> int:
    """Return how many of some random targets of four pieces are not recovered if the middle two are empty."""
    rng, kept = np.random.default_rng(parameters["seed"] + 1), 0
    for done in range(parameters["targets"]):
        progress(done / parameters["targets"], "two empty pieces in the middle")
        jumps = np.sort(rng.uniform(0.1, 0.9, 3))
        target = PiecewiseConstant(jumps, rng.normal(size=4))
        places = np.concatenate(
            [jumps[0] * np.array([0.2, 0.5, 0.8]), jumps[2] + (1 - jumps[2]) * np.array([0.2, 0.5, 0.8])]
        )
        run = two_timescale_limit(StepNetwork(places, np.zeros(6)), target, until=parameters["long"])
        kept += bool(run.losses[-1] > STILL)
    return kept


def middle_claim(kept: int, total: int) -> Claim:
    """Judge "often" for two empty pieces between others."""
    return Claim.that(
        "Two consecutive pieces without a neuron often mean a local minimum: the middle ones (App. D.1)",
        "often",
        Interval.of_share(kept, total),
        least=OFTEN,
        words=f"share {{}} of {total} random targets is not recovered",
    )


def _fates_panel(targets: list[PiecewiseConstant], outcomes: list[str]) -> Panel:
    ratio = np.array([abs(t.jumps[1] / t.jumps[0]) for t in targets])
    share = np.array([t.breakpoints[0] / t.breakpoints[1] for t in targets])
    line = np.geomspace(1e-2, 1.0, 50)
    series = [Series(line, line, "|s₁| ℓ₁/(ℓ₁ + ℓ₂) = |s₂|", style="dashed", tone="muted")]
    for outcome, tone in ((RECOVERS, "green"), (SECOND_ONLY, "orange")):
        chosen = np.array([one == outcome for one in outcomes])
        series.append(Series(ratio[chosen], share[chosen], outcome, style="points", tone=tone, size=0.7))
    series.append(Series([0.5], [0.5], "paper, equal lengths", style="crosses", tone="red"))
    labels = "random levels and lengths", "|s₂| / |s₁|", "ℓ₁/(ℓ₁ + ℓ₂)"
    return Panel(tuple(series), *labels, x_scale="log", y_limits=(0.0, 1.0))


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
    cost={"quick": 6.6, "paper": 150},
)
