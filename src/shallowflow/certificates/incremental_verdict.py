"""The verdict of [incremental] on a data set: in which order a small network fits the points."""

from __future__ import annotations

import numpy as np

from shallowflow.certificates import incremental
from shallowflow.certificates.verdict import Question, Table, Verdict, failures
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.landscape.min_norm import min_squared_norm
from shallowflow.landscape.orthonormal import ORTHONORMAL, orthonormality
from shallowflow.models import initialize


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
    certificate = incremental.theorem_2(network, dataset, limit=limit)
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
