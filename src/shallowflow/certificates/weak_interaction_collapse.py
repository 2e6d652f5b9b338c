"""Certificate of [weak_interaction] Prop. 3: two neurons collapse onto the larger label.

(77) prints its lower bound as √(max/y₁)·8/y₁; the proof ends with (85), √(8 max/y₁), which is used here. The
proof's (78) has ¼ where the flow at speed 2 has ½, and its constraint (82) cannot hold with 2δ, only with
some larger multiple; "δ small enough, y₁ large enough" therefore stays undecided, with the numbers shown.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import positive
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise
from shallowflow.certificates.curvature_watch import given_start
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.landscape.balance import check_relu
from shallowflow.landscape.orthonormal import ORTHONORMAL, orthonormality
from shallowflow.models.networks import ReLUNetwork


def prop_3(
    network: ReLUNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that two neurons on two orthonormal inputs with labels of either sign lose the smaller label.

    Promised: lim L ≥ y₂²/4 > 0, |y₂| the smaller label. accuracy: of the trajectory's loss, relative.
    """
    start = given_start(network, dataset)
    accuracy = positive(accuracy, "accuracy")
    two = dataset.size == dataset.dimension == start.width == 2
    small = Promise("the loss tends to at least y₂²/4")
    shape = Hypothesis("d = n = m = 2", two)
    if not two:
        return Certificate("weak_interaction/prop-3", (shape,), (small,))
    order = np.argsort(-np.abs(dataset.targets))
    labels, inputs = dataset.targets[order], dataset.inputs[order]
    z = start.preactivations(inputs)
    least, most = float(np.min(z)), float(np.max(z))
    ratio = float(np.abs(labels[1] / labels[0])) if labels[0] else 1.0
    lower = float(np.sqrt(8 * max(most, 0.0) / np.abs(labels[0]))) if labels[0] else np.inf
    upper = least / most if most > 0 else -np.inf
    error = orthonormality(inputs)
    delta = float(np.max(np.abs(start.outer)))
    hypotheses = (
        shape,
        Hypothesis("the inputs are orthonormal, up to", error <= ORTHONORMAL, error, ORTHONORMAL),
        Hypothesis("y₁y₂ < 0", labels[0] * labels[1] < 0, labels[0] * labels[1], 0),
        Hypothesis("both neurons are active on both inputs: the smallest ⟨w_j, x_i⟩", least > 0, least, 0),
        Hypothesis("λ = |y₂/y₁| is at least √(8 max ⟨w_j, x_i⟩/|y₁|) (85)", ratio >= lower, ratio, lower),
        Hypothesis("λ is at most min ⟨w_j, x_i⟩/max ⟨w_j, x_i⟩", ratio <= upper, ratio, upper),
        Hypothesis("δ = max |a_j| is small and y₁ large enough (no numbers in the paper): δ", None, delta),
    )
    floor = float(labels[1] ** 2 / 4)
    observed = None if trajectory is None else float(trajectory.losses[-1])
    kept = None
    if trajectory is not None and observed is not None:
        end = check_relu(trajectory.final, "trajectory")
        # A dead sample stays dead on orthogonal inputs, which decides the promise in finite time.
        dead = bool(np.all(end.preactivations(inputs)[:, 1] <= 0))
        kept = True if dead else (False if observed < floor * (1 - accuracy) else None)
    return Certificate(
        "weak_interaction/prop-3", hypotheses, (Promise(small.statement, floor, observed, kept),)
    )
