"""Orthogonal inputs, and what [incremental] says about a network on them before it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from shallowflow.arrays import (
    Bools,
    Floats,
    FrozenArrays,
    Ints,
    count,
    matrix,
    numbers,
    public,
    shown,
    vector,
)
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Signs, activity, check_relu_problem
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

EXACT_UP_TO = 512
PROBES = 8
ORTHONORMAL = 1e-10
"""Inputs count as orthonormal if no inner product is wrong by more."""
ROUNDING = 1e-13
"""Cosine up to which two inputs count as orthogonal: what rounding makes of an orthogonal family."""
BALANCED = 1e-9
"""By how much ‖w_j‖ may exceed |a_j| where a flow goes by leaps: rounding."""


@public
def orthonormality(inputs: Floats) -> float:
    """Return how far the inputs are from orthonormal: max |⟨x_i, x_k⟩ − δ_ik|.

    Above 512 samples max |XXᵀv − v| over eight random sign vectors v is returned instead, which no
    deviation of this size escapes but by an unlikely cancellation.
    """
    if not isinstance(inputs, np.ndarray) or inputs.ndim != 2 or inputs.dtype != np.float64:
        inputs = matrix(inputs, "inputs")
    return _deviation(inputs, np.ones(len(inputs)))


def orthogonal(inputs: Floats) -> bool:
    """Return whether all inputs (n, d) are orthogonal to each other, up to rounding; zeros are."""
    size, dimension = inputs.shape
    if size > dimension:
        return False
    # By a power of two, so that nothing is rounded: squares of large inputs would overflow.
    inputs = np.ldexp(inputs, -int(np.frexp(np.abs(inputs).max())[1]))
    norms = np.linalg.norm(inputs, axis=1)
    if not norms.all():
        inputs, norms = inputs[norms > 0], norms[norms > 0]
    # The rounding of n products adds up in a probe.
    terms = 1 if len(inputs) <= EXACT_UP_TO else len(inputs)
    return not norms.size or _deviation(inputs, norms) <= ROUNDING * float(np.sqrt(terms))


def _deviation(inputs: Floats, lengths: Floats) -> float:
    """Return how far the inputs over these lengths are from orthonormal, see `orthonormality`."""
    lengths = lengths[:, None]
    if len(inputs) <= EXACT_UP_TO:
        unit = inputs / lengths
        return float(np.abs(unit @ unit.T - np.eye(len(unit))).max())
    probes = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), (len(inputs), PROBES))
    return float(np.abs(inputs @ (inputs.T @ (probes / lengths)) / lengths - probes).max())


def check_orthonormal(dataset: Dataset, needed_by: str) -> None:
    """Refuse inputs that are not orthonormal."""
    error = orthonormality(checked_dataset(dataset).inputs)
    if error > ORTHONORMAL:
        raise InvalidInputError(
            f"dataset: {needed_by} needs orthonormal inputs, got inner products wrong by {error:.2g}"
        )


def check_orthogonal(dataset: Dataset, needed_by: str) -> None:
    """Refuse inputs that are not orthogonal to each other; they may have any norms."""
    inputs = checked_dataset(dataset).inputs
    if not orthogonal(inputs) and orthonormality(inputs) > ORTHONORMAL:
        norms = np.linalg.norm(inputs, axis=1)
        worst = _deviation(inputs[norms > 0], norms[norms > 0])
        raise InvalidInputError(f"dataset: {needed_by} needs orthogonal inputs, got a cosine of {worst:.2g}")


def input_norms(inputs: Floats) -> Floats:
    """Return ‖x_k‖ (n,): exactly 1 for all if that is so up to `ORTHONORMAL`."""
    norms: Floats = np.linalg.norm(inputs, axis=1)
    return np.ones(len(norms)) if np.all(np.abs(norms - 1.0) <= ORTHONORMAL) else norms


def unit_inputs(inputs: Floats) -> tuple[Floats, Floats]:
    """Return x_k/‖x_k‖ (n, d), zeros where x_k = 0, and ‖x_k‖ (n,); see `input_norms`."""
    norms = input_norms(inputs)
    return inputs / np.where(norms > 0, norms, 1.0)[:, None], norms


def check_labels(dataset: Dataset) -> None:
    """Refuse labels that are zero: no neuron ever fits or misses them, [incremental] Assumption 4 (ii)."""
    zero = np.flatnonzero(dataset.targets == 0)
    if zero.size:
        raise InvalidInputError(
            f"dataset: labels must not be zero, got {zero.size} zero labels, the first at index {zero[0]}"
        )


def neuron_signs(network: ReLUNetwork | LogScaledNetwork) -> Floats:
    """Return the signs of the outer weights, refusing zeros: a neuron without a sign fits no label."""
    if np.any(network.outer == 0):
        j = int(np.argmax(network.outer == 0))
        raise InvalidInputError(f"network: outer weights must not be zero, got 0 at index {j}")
    return np.sign(network.outer)


@public
def mask_matrix(network: ReLUNetwork | LogScaledNetwork, dataset: Dataset) -> Bools:
    """Return the mask of [incremental] Assumption 4, (n, m): j is active on x_k, and a_j y_k > 0.

    Row k says which neurons can fit point k; column j which points neuron j can fit.

    Examples
    --------
    >>> net = ReLUNetwork([[1.0, 1.0], [1.0, -1.0]], [1.0, -1.0])
    >>> mask_matrix(net, Dataset([[1.0, 0.0], [0.0, 1.0]], [2.0, 3.0]))
    array([[ True, False],
           [ True, False]])
    """
    check_relu_problem(network, dataset, log_scaled=True)
    return mask_of(activity(network, dataset.inputs), neuron_signs(network), dataset.targets)


def checked_mask(mask: object, targets: object) -> Floats:
    """Return the labels (n,) after checking that they and a mask (n, m) fit each other."""
    if not isinstance(mask, np.ndarray) or mask.ndim != 2 or mask.dtype != np.bool_ or not mask.size:
        raise InvalidInputError(f"mask: must be a matrix of booleans, points × neurons, got {shown(mask)}")
    labels = vector(targets, "targets")  # type: ignore[arg-type]
    if len(labels) != len(mask):
        raise InvalidInputError(
            f"targets: must have one entry per row of the mask, got {len(labels)} for {len(mask)}"
        )
    return labels


def never_fitted(points: Ints) -> str:
    """Say which points are in no neuron's mask."""
    return (
        f"{len(points)} points can never be fitted, no neuron of their label's sign is active on them: "
        f"{shown(points.tolist())}."
    )


@public
def mask_of(preactivations: Floats | Signs, signs: Floats, targets: Floats) -> Bools:
    """Return the mask (n, m) from preactivations or `activity` (m, n): for inputs too large to hold.

    On the standard basis the preactivations are the inner weights themselves.
    """
    values, signs = numbers(preactivations, "preactivations", 2), numbers(signs, "signs", 1)
    targets = numbers(targets, "targets", 1)
    if values.shape != (len(signs), len(targets)):
        shape = (len(signs), len(targets))
        raise InvalidInputError(
            f"preactivations: must have shape {shape} (signs, targets), got {values.shape}"
        )
    mask: Bools = (values.T > 0) & (np.sign(signs) * np.sign(targets)[:, None] > 0)
    return mask


@dataclass(frozen=True, eq=False, repr=False)
class MaskReport(FrozenArrays):
    """[incremental] Assumption 4 (i) for data and network at hand.

    lonely_points: rows of zeros, points that no neuron can ever fit; idle_neurons: columns of zeros, neurons
    that never grow; twins: (pairs, 2) neurons with equal columns (each with the first of its kind),
    which act as one; failure_bound: the probability, over the directions and signs of Assumption 3, that
    (i) fails for these labels and this width, at most.
    """

    lonely_points: Ints
    idle_neurons: Ints
    twins: Ints
    failure_bound: float

    @property
    def holds(self) -> bool:
        """Whether every row and column is non-zero and no two columns are equal."""
        return not (self.lonely_points.size or self.idle_neurons.size or self.twins.size)


@public
def mask_report(mask: Bools, targets: Floats) -> MaskReport:
    """Return what Assumption 4 (i) finds in a mask matrix (n, m).

    Examples
    --------
    >>> mask_report(np.array([[True, True], [False, False]]), np.array([1.0, 1.0])).lonely_points
    array([1])
    """
    targets = checked_mask(mask, targets)
    first = first_of_kind(mask)
    twin = np.flatnonzero(first != np.arange(mask.shape[1]))
    positives = int(np.sum(targets > 0))
    return MaskReport(
        np.flatnonzero(~mask.any(axis=1)),
        np.flatnonzero(~mask.any(axis=0)),
        np.column_stack([first[twin], twin]),
        mask_failure_bound(mask.shape[1], positives, len(targets) - positives),
    )


def first_of_kind(mask: Bools) -> Ints:
    """Return for every neuron the first neuron with the same, non-zero column (itself if there is none)."""
    seen: dict[bytes, int] = {}
    return np.array(
        [
            seen.setdefault(column.tobytes(), j) if column.any() else j
            for j, column in enumerate(np.packbits(mask, axis=0).T)
        ],
        dtype=np.int64,
    )


@public
def mask_failure_bound(width: int, positives: int, negatives: int) -> float:
    """Return a bound on the probability that Assumption 4 (i) fails: Prop. 2's union bound, ours in full.

    Under Assumption 3 an entry of the mask is non-zero with probability 1/4, and given its sign s a column
    is uniform on the n_s points with that label sign:

        n (3/4)^m + m (2^{−n₊} + 2^{−n₋})/2 + C(m, 2) (2^{−n₊} + 2^{−n₋})/4 ,

    a row of zeros, a column of zeros, two equal columns (of equal sign; of unequal sign only if both vanish).
    With labels of one sign, columns of the other vanish, and the bound says so.

    Examples
    --------
    >>> round(mask_failure_bound(40, 32, 32), 6)
    0.000644
    """
    width = count(width, "width")
    positives, negatives = count(positives, "positives", 0), count(negatives, "negatives", 0)
    column = 0.5**positives + 0.5**negatives
    rows = (positives + negatives) * 0.75**width
    return float(min(1.0, rows + width * column / 2 + comb(width, 2) * column / 4))
