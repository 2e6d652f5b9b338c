"""Activation cones: the faces of the central arrangement {⟨w, x_k⟩ = 0} in the space of one neuron.

A face is the set A⁻¹(u) of all w with one sign pattern u = A(w) ∈ {−1, 0, 1}ⁿ, [early_alignment] §2.1.
Faces of full dimension are cells; n hyperplanes of rank d have at most 2 Σ_{i<d} C(n−1, i) of them (Cover
1965), and Σ_k C(n, d−k)·Cover(n−d+k, k) faces in all, with equality exactly in general position.

`landscape.arrangement` enumerates the faces of distinct hyperplanes that span their space; here the data are
brought to that form (repeated, opposite and zero inputs, inputs of lower rank) and the faces back to R^d. If
the inputs do not span R^d, every face contains the lines orthogonal to all of them (`Cones.lineality`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, count
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.arrangement import SAME, Faces, Signs, faces_of, rays_and_patterns

LIMIT = 20_000
"""The default limit on the number of faces: 70 points in d = 3, 5,000 in the plane."""


@dataclass(frozen=True, eq=False, repr=False)
class Cone(FrozenArrays):
    """One face: pattern (n,); direction (d,), a unit vector inside; dimension; rays (r, d), its generators.

    The closure of the face is {Σ c_i rays_i, c ≥ 0} plus the lineality space of the arrangement.
    """

    pattern: Signs
    direction: Floats
    dimension: int
    rays: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Cones(FrozenArrays):
    """All faces but the origin: patterns (F, n), directions (F, d), dimensions (F,); a sequence of `Cone`.

    rays (R, d); face i has the generators rays[members[starts[i]:starts[i + 1]]]; lineality: the dimension
    of {w : ⟨w, x_k⟩ = 0 for all k}, which is a face of its own if it is not the origin; general: whether
    the data are in general position (any d of them, or all if fewer, are linearly independent).
    """

    patterns: Signs
    directions: Floats
    dimensions: Ints
    rays: Floats
    members: Ints
    starts: Ints
    lineality: int
    general: bool

    def __len__(self) -> int:
        return len(self.patterns)

    def __getitem__(self, face: int) -> Cone:
        face = range(len(self))[face]
        return Cone(
            self.patterns[face], self.directions[face], int(self.dimensions[face]), self.generators(face)
        )

    def __iter__(self) -> Iterator[Cone]:
        return (self[face] for face in range(len(self)))

    def generators(self, face: int) -> Floats:
        """Return the rays that generate a face, (r, d)."""
        return np.asarray(self.rays[self.members[self.starts[face] : self.starts[face + 1]]])

    @property
    def cells(self) -> int:
        """The number of faces of full dimension (0 if every input is zero)."""
        return int(np.sum(self.dimensions == self.rays.shape[1])) if len(self.rays) else 0


def cell_bound(size: int, rank: int) -> int:
    """Return Cover's 2 Σ_{i<rank} C(size − 1, i): the most cells that `size` central hyperplanes can make.

    Examples
    --------
    >>> cell_bound(3, 2), cell_bound(10, 3)
    (6, 92)
    """
    return 2 * sum(comb(size - 1, i) for i in range(rank)) if size else 1


def face_bound(size: int, rank: int) -> int:
    """Return Σ_{k=1}^{rank} C(size, rank − k)·Cover(size − rank + k, k): the most faces but the origin.

    Examples
    --------
    >>> face_bound(3, 2), face_bound(3, 3)
    (12, 26)
    """
    return sum(comb(size, rank - k) * cell_bound(size - rank + k, k) for k in range(1, rank + 1))


def cones(dataset: Dataset, *, limit: int = LIMIT) -> Cones:
    """Return all activation cones of the data, or refuse if there may be more than `limit` faces.

    Examples
    --------
    >>> found = cones(Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0]))
    >>> len(found), found.cells
    (8, 4)
    >>> found[0].pattern
    array([ 0, -1], dtype=int8)
    """
    return cones_of(dataset.inputs, limit=limit)


def cones_of(inputs: Floats, *, limit: int = LIMIT) -> Cones:
    """Return `cones` of inputs (n, d)."""
    coordinates, basis = _row_space(inputs)
    classes, orientations = _hyperplanes(coordinates)
    normals = _representatives(coordinates, classes)
    size, rank = normals.shape
    _check_limit(size, rank, count(limit, "limit"))
    small = faces_of(normals)
    patterns = np.zeros((len(small.patterns), len(inputs)), np.int8)
    patterns[:, classes >= 0] = small.patterns[:, classes[classes >= 0]] * orientations[classes >= 0]
    lineality = inputs.shape[1] - rank
    independent = size == len(inputs) and rank == min(size, inputs.shape[1])
    return _assembled(small, patterns, basis, lineality, independent)


def rays_of(inputs: Floats, *, limit: int = LIMIT) -> Floats:
    """Return the rays of `cones_of` alone, (R, d): at most 2 C(n, r − 1) for n hyperplanes of rank r."""
    coordinates, basis = _row_space(inputs)
    normals = _representatives(coordinates, _hyperplanes(coordinates)[0])
    size, rank = normals.shape
    if rank and 2 * comb(size, rank - 1) > limit:
        raise InvalidInputError(
            f"inputs: {size} hyperplanes of rank {rank} may have {2 * comb(size, rank - 1)} rays, "
            f"the limit is {limit}; use fewer points"
        )
    return np.asarray(rays_and_patterns(normals)[0] @ basis.T)


def _assembled(small: Faces, patterns: Signs, basis: Floats, lineality: int, independent: bool) -> Cones:
    """Return the faces in R^d: coordinates mapped back, generators listed face by face, lineality added."""
    size, rank = small.patterns.shape[1], basis.shape[1]
    incidence = small.incidence[np.lexsort((small.incidence[:, 1], small.incidence[:, 0]))]
    faces = len(patterns)
    starts = np.searchsorted(incidence[:, 0], np.arange(faces + 1))
    sums = np.zeros((faces, rank))
    np.add.at(sums, incidence[:, 0], small.rays[incidence[:, 1]])
    directions = sums @ basis.T
    general = independent and faces == face_bound(size, rank)
    dimensions = small.dimensions + lineality
    if lineality:
        patterns = np.vstack([patterns, np.zeros((1, patterns.shape[1]), np.int8)])
        directions = np.vstack([directions, _orthogonal_direction(basis)])
        dimensions, starts = np.append(dimensions, lineality), np.append(starts, starts[-1])
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    rays = small.rays @ basis.T
    return Cones(patterns, directions, dimensions, rays, incidence[:, 1], starts, lineality, general)


def _orthogonal_direction(basis: Floats) -> Floats:
    """Return a unit vector orthogonal to the columns of `basis` (d, r), r < d."""
    left = np.linalg.svd(basis, full_matrices=True)[0] if basis.size else np.eye(len(basis))
    return np.asarray(left[:, -1])


def _row_space(inputs: Floats) -> tuple[Floats, Floats]:
    """Return unit inputs in coordinates of their span (n, r), zero rows left zero, and its basis (d, r)."""
    norms = np.linalg.norm(inputs, axis=1, keepdims=True)
    units = np.divide(inputs, norms, out=np.zeros_like(inputs), where=norms > 0)
    _, singular, right = np.linalg.svd(units, full_matrices=False)
    rank = int(np.sum(singular > SAME))
    if rank == inputs.shape[1]:
        return units, np.eye(rank)
    basis = right[:rank].T
    return units @ basis, basis


def _hyperplanes(coordinates: Floats) -> tuple[Ints, Signs]:
    """Return the number of each point's hyperplane (−1 for a zero input) and its orientation ±1 there."""
    classes = np.full(len(coordinates), -1)
    orientations = np.ones(len(coordinates), np.int8)
    chosen: list[int] = []
    for k, unit in enumerate(coordinates):
        if not unit.any():
            continue
        others = coordinates[chosen]
        cosines = others @ unit
        near = np.flatnonzero(np.linalg.norm(unit - cosines[:, None] * others, axis=1) <= SAME)
        if near.size:
            classes[k], orientations[k] = near[0], np.sign(cosines[near[0]])
        else:
            classes[k] = len(chosen)
            chosen.append(k)
    return classes, orientations


def _representatives(coordinates: Floats, classes: Ints) -> Floats:
    """Return the unit normal of every hyperplane, (number of hyperplanes, r)."""
    return np.asarray(coordinates[np.unique(classes, return_index=True)[1][int(np.any(classes < 0)) :]])


def _check_limit(size: int, rank: int, limit: int) -> None:
    faces = face_bound(size, rank)
    if faces > limit:
        raise InvalidInputError(
            f"inputs: {size} hyperplanes of rank {rank} may have {faces} activation cones and faces "
            f"({cell_bound(size, rank)} cells, by Cover's bound 2·ΣC(n−1, i)), the limit is {limit}; "
            "raise `limit`, or use fewer points"
        )
