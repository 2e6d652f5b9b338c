"""The hyperplanes of a data set as walls, and coordinates in the span of the inputs.

Samples on one line through the origin share a wall with unit normal e_w: x_k = s_k ρ_k e_w, s_k = ±1.
Repeated, collinear and opposite inputs are thereby one wall, and normals are pairwise not parallel. An input
at the origin has no wall: it adds a constant to the loss.

Inner weights are kept in an orthonormal basis of the span of the normals; what lies outside never moves. If
the normals are orthogonal to each other they are the basis themselves, whatever the norms of the inputs:
then each coordinate has a wall of its own, and what is frozen stays frozen to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, Ints

PARALLEL = 1e-14
"""Unit vectors that differ by less in every coordinate are one."""
ORTHOGONAL = 1e-13
"""Cosine up to which normals count as orthogonal: what rounding makes of an orthogonal family."""
SQUARE, LOGISTIC, NORM = 0, 1, 2
"""Losses: weight·½Σ(h_k − y_k)², weight·Σ ln(1 + e^{−h_k y_k}), weight·‖h − y‖."""


class Samples(NamedTuple):
    """The n samples off the origin: walls (n,), sides s (n,), lengths ρ (n,), targets (n,)."""

    walls: Ints
    sides: Floats
    lengths: Floats
    targets: Floats


class Problem(NamedTuple):
    """normals (W, r) in the coordinates of the span; aligned: whether they are the coordinate axes.

    scale, slope: of the network; weight: of the loss, times the speed; loss: `SQUARE`, `LOGISTIC` or `NORM`;
    constant: what inputs at the origin add to the loss, of `NORM` to the square of the norm.
    """

    normals: Floats
    samples: Samples
    aligned: int
    scale: float
    slope: float
    weight: float
    loss: int
    constant: float


def arrange(inputs: Floats, targets: Floats) -> tuple[Floats, Samples, Ints]:
    """Return the unit normals (W, d), the samples off the origin, and their indices in the data set (n,)."""
    lengths = np.sqrt(np.einsum("kd,kd->k", inputs, inputs))
    kept = np.flatnonzero(lengths > 0)
    directions = inputs[kept] / lengths[kept, None]
    # One representative per line: the first coordinate that is not small is positive.
    leading = np.argmax(np.abs(directions) > 0.5 / np.sqrt(inputs.shape[1]), axis=1)
    sides = np.where(directions[np.arange(len(kept)), leading] < 0, -1.0, 1.0)
    walls, normals = np.empty(len(kept), np.int64), np.empty((0, inputs.shape[1]))
    for k, direction in enumerate(directions):
        apart = np.minimum(
            np.abs(normals - direction).max(axis=1, initial=0.0),
            np.abs(normals + direction).max(axis=1, initial=0.0),
        )
        same = np.flatnonzero(apart < PARALLEL)
        walls[k] = same[0] if same.size else len(normals)
        if same.size:
            sides[k] = 1.0 if normals[walls[k]] @ direction > 0 else -1.0
        else:
            normals = np.concatenate([normals, sides[k] * direction[None]])
    return normals, Samples(walls, sides, lengths[kept], np.array(targets[kept])), kept


def basis_of(normals: Floats) -> tuple[Floats, bool]:
    """Return an orthonormal basis (d, r) of the span of the normals (W, d), and whether it is they."""
    size, dimension = normals.shape
    if size <= dimension and np.abs(normals @ normals.T - np.eye(size)).max(initial=0.0) <= ORTHOGONAL:
        return normals.T.copy(), True
    _, values, directions = np.linalg.svd(normals, full_matrices=False)
    rank = int(np.sum(values > 1e-13 * values[0] * max(size, dimension)))
    if rank == dimension:
        return np.eye(dimension), False
    return directions[:rank].T.copy(), False


def span_of(inputs: Floats, targets: Floats) -> tuple[Floats, Samples, Ints, Floats, bool]:
    """Return normals in the coordinates of the span (W, r), samples, their indices, a basis (d, r), and
    whether the normals are the basis.
    """
    normals, samples, kept = arrange(inputs, targets)
    basis, aligned = basis_of(normals)
    inside = np.eye(len(normals)) if aligned else np.ascontiguousarray(normals @ basis)
    return inside, samples, kept, basis, aligned
