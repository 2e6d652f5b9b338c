"""Certificates of [incremental]: Theorem 2 (the limit is a jump process) and Theorem 3 (the norm of its end).

Both take the network at the start and the data; what was observed comes as a limit process
(`saddle_to_saddle`) and as trajectories (a flow, a descent, a recording). Both theorems are asymptotic.
Theorem 2 promises a distance that tends to zero with α, so one trajectory only measures it; from two on the
promise is kept if the distances fall to `accuracy`, broken if they do not fall, open if they fall less far.
Theorem 3's constant is not legible; the one used here is ours (`landscape.incremental`), with its
probability: a start that breaks the promise is one of the share δ that may.

The verdict on a data set says in which order a small network fits the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats, positive, probability, public, shown
from shallowflow.certificates.certificate import (
    Certificate,
    Hypothesis,
    Promise,
    Question,
    Table,
    Verdict,
    failures,
)
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import ORTHONORMAL, mask_matrix, mask_report, orthonormality
from shallowflow.landscape.incremental import (
    fitted_shares,
    min_squared_norm,
    norm_bound,
    norm_constant,
    points_left,
)
from shallowflow.models import initialize
from shallowflow.models.networks import LogScaledNetwork, Network, ReLUNetwork

BALANCED = 1e-9
ACCURATE = 1e-6
"""The accuracy of an integrator: a distance at it cannot fall further."""
FALL = 1e-3
"""Relative difference of two distances from which on the second counts as smaller."""
MOMENTS = 20
"""Times per plateau at which the distance is measured."""


@public
def theorem_2(
    network: ReLUNetwork | LogScaledNetwork,
    dataset: Dataset,
    trajectories: Trajectory | Sequence[Trajectory] | None = None,
    *,
    limit: SaddleToSaddle | None = None,
    margin: float = 0.05,
    accuracy: float = 1e-3,
) -> Certificate:
    """Certify that the accelerated flow tends to the jump process, uniformly off its jumps, as α → 0.

    trajectories: one flow or several, from different scales; limit: the process they are compared with;
    margin: accelerated time left out on both sides of a jump; accuracy: the distance that counts as zero.
    Distances are those of all parameters, Euclidean.
    """
    margin, accuracy = positive(margin, "margin"), positive(accuracy, "accuracy")
    hypotheses = [*_start_hypotheses(network, dataset), *_mask_hypotheses(network, dataset)]
    limit = _checked_limit(limit, dataset)
    ties = None if limit is None else len(limit.process.ties)
    hypotheses.append(Hypothesis.that("Assumption 4 (ii): jumps without a unique neuron", ties, "<=", 0))
    runs = _checked_runs(trajectories)
    if limit is None or not runs:
        promises = [Promise("off the jumps the flow's distance from the limit process falls to 0 with α")]
    else:
        promises = _distance_promises(runs, limit, margin, accuracy)
    return Certificate("incremental/theorem-2", tuple(hypotheses), tuple(promises))


def _checked_limit(limit: object, dataset: Dataset) -> SaddleToSaddle | None:
    """Return the limit process if it is one of these data."""
    if limit is None:
        return None
    if not isinstance(limit, SaddleToSaddle):
        raise InvalidInputError(f"limit: must be what saddle_to_saddle returns, got {shown(limit)}")
    own = limit.dataset
    if not (np.array_equal(own.inputs, dataset.inputs) and np.array_equal(own.targets, dataset.targets)):
        raise InvalidInputError("limit: must be a process of the data set given, got one of other data")
    return limit


def _checked_runs(trajectories: object) -> list[Trajectory]:
    """Return the trajectories as a list."""
    if trajectories is None:
        return []
    if isinstance(trajectories, Trajectory):
        return [trajectories]
    if not isinstance(trajectories, Sequence) or isinstance(trajectories, str):
        raise InvalidInputError(
            f"trajectories: must be a Trajectory or a sequence of them, got {shown(trajectories)}"
        )
    return [checked_trajectory(one) for one in trajectories]


def _distance_promises(
    runs: list[Trajectory], limit: SaddleToSaddle, margin: float, accuracy: float
) -> list[Promise]:
    """Return the distance of every run, from large to small α, and whether they fall to the accuracy."""
    ordered = sorted(runs, key=lambda run: acceleration(run.initial))
    distances = [distance_off_jumps(run, limit, margin) for run in ordered]
    promises = [
        Promise(f"distance off the jumps at ln(1/α) = {acceleration(run.initial):.6g}", 0.0, distance)
        for run, distance in zip(ordered, distances, strict=True)
    ]
    statement = "these distances fall with α, the last one to at most"
    return [*promises, Promise(statement, accuracy, distances[-1], fall(distances, accuracy))]


def fall(distances: Sequence[float], accuracy: float) -> bool | None:
    """Return whether distances fall to `accuracy`: False if one does not fall, None if they fall less far."""
    steps = [after < (1 - FALL) * before or after <= ACCURATE for before, after in pairwise(distances)]
    if not all(steps):
        return False
    return True if steps and distances[-1] <= accuracy else None


def distance_off_jumps(trajectory: Trajectory, limit: SaddleToSaddle, margin: float) -> float:
    """Return the largest ‖θ(τ ln 1/α) − θ_limit(τ)‖ over the plateaus, `margin` away from the jumps."""
    factor = acceleration(trajectory.initial)
    last = float(trajectory.times[-1]) / factor
    edges = np.concatenate([[-margin], limit.jump_times[limit.jump_times < last], [last + margin]])
    worst = 0.0
    for jumps, (start, end) in enumerate(pairwise(edges)):
        if end - start > 2 * margin:
            resting = _parameters(limit.saddle(jumps))
            for time in np.linspace(start + margin, end - margin, MOMENTS):
                moved = _parameters(trajectory(min(float(time), last) * factor))
                worst = max(worst, float(np.linalg.norm(moved - resting)))
    return worst


def decay_exponent(limit: SaddleToSaddle, margin: float) -> float:
    """Return p in distance_off_jumps ~ α^p, ours: min(gap, margin·γ) over the jumps, γ the jumping neuron's.

    At a margin from its jump the neuron on its way up has the size α^(margin·γ); the next one that shares a
    point with it moves the saddle by α^gap.
    """
    process = limit.process
    rates = process.rates[np.arange(len(process.neurons)), process.neurons]
    return float(min(np.min(process.gaps, initial=np.inf), margin * np.min(rates, initial=np.inf)))


def acceleration(network: Network) -> float:
    """Return ln(1/α) > 0 of a network at the start, α its largest |a_j|: time is accelerated by it."""
    if isinstance(network, LogScaledNetwork):
        logarithm = network.acceleration
    else:
        with np.errstate(divide="ignore"):
            logarithm = float(-np.log(np.abs(_plain(network).outer).max()))
    if not 0 < logarithm < np.inf:
        raise InvalidInputError(
            "trajectory: must start with 0 < α = max|a_j| < 1, for time is measured in units of ln(1/α); "
            f"got ln(1/α) = {logarithm:g}"
        )
    return logarithm


def _plain(network: Network) -> ReLUNetwork:
    plain = network.to_relu() if isinstance(network, LogScaledNetwork) else network
    if not isinstance(plain, ReLUNetwork):
        raise InvalidInputError(
            f"trajectory: must be that of a ReLU network, got one of a {type(network).__name__}"
        )
    return plain


def _parameters(network: Network) -> Floats:
    plain = _plain(network)
    return np.concatenate([plain.inner.ravel(), plain.outer])


@public
def theorem_3(
    network: ReLUNetwork | LogScaledNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    limit: SaddleToSaddle | None = None,
    delta: float = 0.05,
) -> Certificate:
    """Certify that the end of Algorithm 1 has ‖θ_∞‖² ≤ C·max|y|·√n, with probability 1 − δ over the start.

    The end is that of the trajectory, or else of the limit; with a limit, what every jump leaves is compared
    with Cor. 1 too.
    """
    hypotheses = _start_hypotheses(network, dataset)
    delta = probability(delta, "delta")
    limit, norm = _checked_limit(limit, dataset), None
    if trajectory is not None:
        norm = float(np.sum(_parameters(checked_trajectory(trajectory).final) ** 2))
    elif limit is not None:
        norm = limit.process.squared_norm
    least = min_squared_norm(dataset.targets)
    sure = f"with probability {1 - delta:g}"
    constant = f"‖θ_∞‖²/(max|y|·√n) is at most, {sure}"
    ratio = f"‖θ_∞‖² over the minimum (1 + √2 for equal labels and many points) is at most, {sure}"
    left = f"each jump halves what is left (Cor. 1): points left over those allowed {sure}, at most"
    if least == 0:
        return Certificate(
            "incremental/theorem-3", tuple(hypotheses), (Promise(constant), Promise(ratio), Promise(left, 1))
        )
    bound = norm_bound(dataset.targets, network.width, delta)
    unit = norm_constant(1.0, dataset.targets)
    promises = (
        Promise.that(constant, None if norm is None else norm * unit, "<=", bound * unit),
        Promise.that(ratio, None if norm is None else norm / least, "<=", bound / least),
        Promise.that(left, None if limit is None else _left_over(limit, delta), "<=", 1),
    )
    return Certificate("incremental/theorem-3", tuple(hypotheses), promises)


def _left_over(limit: SaddleToSaddle, delta: float) -> float:
    """Return the largest quotient of the points left after a jump and those that Cor. 1 allows."""
    process, y = limit.process, limit.dataset.targets
    shares, before = fitted_shares(process, y)
    worst, jumps = 0.0, {1.0: 0, -1.0: 0}
    signs = [float(np.sign(y[points[0]])) for points in process.fitted]
    for sign, share, number in zip(signs, shares, before, strict=True):
        jumps[sign] += 1
        allowed = points_left(int(np.sum(sign * y > 0)), len(limit.signs), delta)[1][jumps[sign]]
        left = round(float(number * (1.0 - share)))
        if left:
            worst = max(worst, left / allowed if allowed else np.inf)
    return worst


def _start_hypotheses(network: ReLUNetwork | LogScaledNetwork, dataset: Dataset) -> list[Hypothesis]:
    """Return Assumptions 1 to 3."""
    if not isinstance(network, ReLUNetwork | LogScaledNetwork):
        raise InvalidInputError(f"network: must be a ReLU network, got a {type(network).__name__}")
    check_problem(network, dataset, log_scaled=True)
    norms, outer = np.linalg.norm(network.inner, axis=1), np.abs(network.outer)
    off = float(np.max(np.abs(outer - norms) / np.maximum(outer, norms).clip(1e-300)))
    wrong = orthonormality(dataset.inputs)
    return [
        Hypothesis.that("Assumption 1: inputs are orthonormal, up to", wrong, "<=", ORTHONORMAL),
        Hypothesis.that("Assumption 2: ReLU with ReLU'(0) = 0; the leaky slope is", network.slope, "<=", 0),
        Hypothesis.that("Assumption 3: |a_j| = ‖w_j‖, up to (relative)", off, "<=", BALANCED),
    ]


def _mask_hypotheses(network: ReLUNetwork | LogScaledNetwork, dataset: Dataset) -> list[Hypothesis]:
    """Return Assumption 4 (i) and the labels' part of (ii)."""
    report = mask_report(mask_matrix(network, dataset), dataset.targets)
    zeros = int(np.sum(dataset.targets == 0))
    counted = (
        ("Assumption 4 (i): points on which no neuron of their sign is active", len(report.lonely_points)),
        ("Assumption 4 (i): neurons that can fit no point", len(report.idle_neurons)),
        ("Assumption 4 (i): neurons with another one's mask", len(report.twins)),
        ("Assumption 4 (ii): labels that are zero", zeros),
    )
    return [Hypothesis.that(name, number, "<=", 0) for name, number in counted]


@public
def verdict(question: Question) -> Verdict:
    """Return the jumps of Algorithm 1 for a balanced start, or why the data are not of the paper's kind."""
    dataset = question.dataset
    error = orthonormality(dataset.inputs)
    if error > ORTHONORMAL:
        found = f"inner products of these inputs are off by {error:.3g}"
        return Verdict("incremental", None, (f"Does not apply: it is about orthonormal inputs, {found}.",))
    if np.any(dataset.targets == 0):
        zero = int(np.argmax(dataset.targets == 0))
        return Verdict(
            "incremental", None, (f"Does not apply: the label of point {zero} is zero, nothing fits it.",)
        )
    network = initialize.balanced(
        question.width, dataset.dimension, init_scale=question.init_scale, seed=question.seed
    )
    limit = saddle_to_saddle(network, dataset)
    certificate = theorem_2(network, dataset, limit=limit)
    words = [_ending(limit, question)]
    if not certificate.holds:
        words.append(f"Theorem 2 does not apply to this start: {failures(certificate)}.")
    numbers = {
        "‖θ‖² at the end": limit.process.squared_norm,
        "minimal ‖θ‖² of an interpolator": min_squared_norm(dataset.targets),
    }
    return Verdict("incremental", certificate.holds, tuple(words), numbers, (_jumps(limit),), (certificate,))


def _ending(limit: SaddleToSaddle, question: Question) -> str:
    jumps, left = len(limit.neurons), limit.process.unfitted
    start = f"{question.width} neurons (balanced, seed {question.seed})"
    if not left.size:
        return f"A vanishing start of {start} fits all {limit.dataset.size} points in {jumps} jumps."
    return (
        f"A vanishing start of {start} makes {jumps} jumps and never fits {left.size} of "
        f"{limit.dataset.size} points, the first at index {int(left[0])}: the loss ends at "
        f"{limit.losses[-1]:.4g}."
    )


def _jumps(limit: SaddleToSaddle) -> Table:
    rows = tuple(
        (float(time), int(neuron), len(points), float(loss))
        for time, neuron, points, loss in zip(
            limit.jump_times, limit.neurons, limit.process.fitted, limit.losses[1:], strict=True
        )
    )
    return Table("jumps (time in units of ln 1/α)", ("time", "neuron", "points fitted", "loss after"), rows)
