"""Extremal vectors: where the neurons of a small network turn to, [early_alignment] Def. 1; how far they are.

D ∈ 𝔇_u is extremal if D ≠ 0 and A(D) = ±u; it is then D_u, the element of least norm (17), and w* = ±D/‖D‖ in
A⁻¹(u) is a critical point of G on the sphere. There is at most one per activation cone.

Near w*, with K the zeros of u and v a unit vector orthogonal to w*, G is exactly

    G(cos δ w* + sin δ v) = cos δ G(w*) + sin δ φ(v),   φ(v) = ⟨D̃_u, v⟩ + Σ_{k∈K} g_k σ(⟨v, x_k⟩),

for small δ ≥ 0, so the signs of φ decide, and where φ(v) = 0 (along the face) the sign of G(w*). φ depends
on the part of v in span(x_K) only and is linear on every cone of the arrangement of the x_K: its signs at
the rays of that arrangement tell all. In general position this is the rule by kinks: φ > 0 across k
if g_k > 0. Def. 1 leaves the gates of every point free. Where several points share a hyperplane and pull in
opposite ways, that is more than G knows (their kinks may cancel), and an extremal vector need not be a
critical point; it is then listed as a "saddle". Assumption 2 excludes such data.

Where there are too many cones to list, a search follows neurons to their end (`ascend`). While the output is
negligible, the direction of a neuron with outer weight of sign s moves along the great circle towards s·D_u,
as long as it stays in A⁻¹(u), [early_alignment] (31) at θ = 0. At a data hyperplane the velocities ⟨s·D, x_k⟩
on its two sides decide: it crosses, or it is held (both point to the hyperplane) and slides with the
minimal-norm D until a gate reaches the end of [γ, 1]. The path ends where s·D_u lies in the neuron's own
cone, or opposite to it on a ray (extremal vectors), or D_u = 0 (nothing moves).

**Alignment**: how far the neurons of a network are aligned, and the few that they then amount to.

`neuron_alignment` sets each neuron beside the extremal vector of its cone, [early_alignment] Thm 1. Neurons
with one direction e act as one, Σ_j a_j σ(⟨w_j, x⟩) = (Σ_j a_j‖w_j‖) σ(⟨e, x⟩); App. B counts a trained
network in such neurons (`merged_neurons`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from shallowflow.arrays import (
    Bools,
    Floats,
    FrozenArrays,
    Ints,
    Seed,
    count,
    generator,
    members,
    positive,
    public,
    real,
)
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.pulls import ON, ZERO, Pull, is_extremal, pull
from shallowflow.landscape.geometry.activity import (
    Resting,
    Signs,
    activity,
    check_relu,
    check_relu_problem,
    signs_of,
)
from shallowflow.landscape.geometry.cones import LIMIT, Cones, Span, cones, rays_of, span_of
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork

MOST_CONES = 100
"""The path is given up after this many cones per data point: it runs into a degenerate corner."""


def ascend(found: Pull, direction: Floats, sign: int) -> Signs | None:
    """Return the pattern of the cone in which the flow of sign·G from `direction` (d,) ends, or None.

    None: the flow ends at D_u = 0, or it was given up.
    """
    point = direction / np.linalg.norm(direction)
    pattern = found.pattern(point)
    gradient, gates = found.minimal(pattern)
    for _ in range(MOST_CONES * len(found.inputs)):
        pattern = _released(found, pattern, gates)
        if not gradient.any():
            return None
        target = sign * gradient / np.linalg.norm(gradient)
        # Opposed to its target a neuron shrinks without turning: on a face that is a ray, that is an end too.
        if np.array_equal(found.pattern(target), pattern) or point @ target < ON - 1.0:
            return pattern
        point, hit = _advance(found, point, pattern, target)
        if hit < 0:
            return None
        pattern, (gradient, gates) = _passed(found, pattern, hit, sign)
    return None


def _released(found: Pull, pattern: Signs, gates: Floats) -> Signs:
    """Return the pattern without the hyperplanes whose gate is at the end of [γ, 1]."""
    pattern = pattern.copy()
    on = np.flatnonzero(pattern == 0)
    ends = np.where(gates >= 1.0, 1, np.where(gates <= found.slope, -1, 0))
    pattern[on] = np.where(found.inputs[on].any(axis=1), ends, 0)
    return pattern


def _advance(found: Pull, point: Floats, pattern: Signs, target: Floats) -> tuple[Floats, int]:
    """Move towards the target up to the first hyperplane; return the new point and that (−1: none)."""
    room, goal = np.maximum(pattern * (found.inputs @ point), 0.0), pattern * (found.inputs @ target)
    leaving = np.flatnonzero(goal < 0)
    if not leaving.size:
        return point, -1
    shares = room[leaving] / (room[leaving] - goal[leaving])
    first = int(np.argmin(shares))
    moved = (1.0 - shares[first]) * point + shares[first] * target
    return moved / np.linalg.norm(moved), int(leaving[first])


def _passed(found: Pull, pattern: Signs, hit: int, sign: int) -> tuple[Signs, tuple[Floats, Floats]]:
    """Return the pattern after meeting hyperplane `hit`, with its gradient and gates.

    The hyperplane is crossed, or held if the other side pushes back.
    """
    beyond = pattern.copy()
    beyond[hit] = -pattern[hit]
    pulled = found.minimal(beyond)
    if sign * float(pulled[0] @ found.inputs[hit]) * beyond[hit] > 0:
        return beyond, pulled
    beyond[hit] = 0
    return beyond, found.minimal(beyond)


KINDS = ("maximum", "minimum", "saddle")


@dataclass(frozen=True, eq=False, repr=False)
class ExtremalVector(FrozenArrays):
    """One extremal vector.

    direction (d,): w*, the critical point of G on the sphere; vector (d,): D = ±norm·direction; pattern (n,):
    A(w*); kind: of the critical point, "maximum", "minimum" or "saddle"; norm: ‖D‖ = |G(w*)|. stability: ε_M
    of its activation manifold M = A⁻¹(u), with ε_M ⟨v, D_{u(v)}⟩ ≤ 0 for all v ⊥ M ([early_alignment] Lemma
    12): 1, the pulls around M point towards it; −1, away from it; 0: some do, some don't.
    """

    direction: Floats
    vector: Floats
    pattern: Signs
    kind: str
    norm: float
    stability: int = 0

    @property
    def value(self) -> float:
        """G(w*) = ⟨w*, D⟩ = ±‖D‖."""
        return float(self.direction @ self.vector)

    @property
    def opposed(self) -> bool:
        """Whether D = −‖D‖ w*: a neuron with a > 0 that stays there shrinks ([early_alignment] Lemma 14)."""
        return self.value < 0


class ExtremalVectors(tuple[ExtremalVector, ...]):
    """The extremal vectors of a data set, largest norm first; `complete`: whether these are all of them."""

    complete: bool

    def __new__(cls, found: Iterable[ExtremalVector] = (), *, complete: bool = True) -> Self:
        """Return the vectors in order of their norm."""
        vectors = members(found, "found", "ExtremalVector", ExtremalVector)
        self = super().__new__(cls, sorted(vectors, key=lambda vector: -vector.norm))
        self.complete = complete
        return self

    def __repr__(self) -> str:
        title = "all" if self.complete else "found by search, maybe not all"
        return f"ExtremalVectors({list(self)!r}, {title})"

    def of_kind(self, kind: str) -> tuple[ExtremalVector, ...]:
        """Return those of one kind."""
        return tuple(vector for vector in self if vector.kind == kind)


@public
def extremal_vectors(
    dataset: Dataset,
    loss: Loss | None = None,
    slope: float = 0.0,
    *,
    limit: int = LIMIT,
    starts: int = 0,
    seed: Seed = 0,
    progress: Callable[[float], None] | None = None,
) -> ExtremalVectors:
    """Return the extremal vectors of the data: all of them, or with `starts` > 0 those that a search finds.

    All: every face of the arrangement is looked at; data with more than `limit` faces are refused. Search:
    neurons start in `starts` random directions and follow the alignment flow with outer weight +1 and −1
    exactly, cone by cone, to its end. What is found is certain, but the result is not complete (and says so):
    saddles, and extrema with a small basin, are missed.

    loss: ½·mean of squares by default; slope: of the leaky ReLU; progress: called with the share of the
    search that is done.

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> only, = extremal_vectors(three_points())
    >>> only.kind, only.vector.round(6)
    ('maximum', array([-0.258333,  0.666667]))
    """
    space = span_of(dataset)
    found = pull(space.dataset, loss, slope)
    if count(starts, "starts", 0):
        return lifted(_searched(found, starts, generator(seed), progress), space)
    arrangement = cones(space.dataset, limit=limit)
    return lifted(extremal_vectors_of(found, arrangement, found.minimal_all(arrangement.patterns)), space)


def extremal_vectors_of(found: Pull, arrangement: Cones, shortest: Floats) -> ExtremalVectors:
    """Return all extremal vectors, given all activation cones and their D_u (F, d)."""
    patterns = arrangement.patterns
    faces = [face for face in range(len(patterns)) if is_extremal(found, patterns[face], shortest[face])]
    return ExtremalVectors(extremal_vector(found, patterns[face], shortest[face]) for face in faces)


def lifted(vectors: ExtremalVectors, space: Span) -> ExtremalVectors:
    """Return extremal vectors found in the coordinates of `space` in those of the data."""
    if space.basis is None:
        return vectors
    directions = ((space.lifted(one.direction), space.lifted(one.vector)) for one in vectors)
    moved = (replace(one, direction=w, vector=d) for one, (w, d) in zip(vectors, directions, strict=True))
    return ExtremalVectors(moved, complete=vectors.complete)


def _searched(
    found: Pull, starts: int, rng: np.random.Generator, progress: Callable[[float], None] | None
) -> ExtremalVectors:
    """Return the extremal vectors at which the alignment flow ends from random directions."""
    distinct: dict[bytes, ExtremalVector] = {}
    for number, direction in enumerate(rng.standard_normal((starts, found.inputs.shape[1]))):
        if progress:
            progress(number / starts)
        for sign in (1, -1):
            pattern = ascend(found, direction, sign)
            if pattern is None or pattern.tobytes() in distinct:
                continue
            shortest = found.minimal(pattern)[0]
            if is_extremal(found, pattern, shortest):
                distinct[pattern.tobytes()] = extremal_vector(found, pattern, shortest)
    return ExtremalVectors(distinct.values(), complete=False)


def extremal_vector(found: Pull, pattern: Signs, gradient: Floats) -> ExtremalVector:
    """Return the extremal vector D_u = `gradient` (d,) of a pattern u (n,) for which `is_extremal` holds."""
    norm = float(np.linalg.norm(gradient))
    sign = 1.0 if np.array_equal(found.pattern(gradient), pattern) else -1.0
    rates = _rates_and_rays(found, pattern)[0]
    kind = _kind(rates, sign, face_dimension(found.inputs, pattern))
    # Where nothing lies across M (an open cone) both signs would do: a maximum of G is stable under ascent.
    if len(rates) == 0:
        stability = 1 if kind == "maximum" else -1
    else:
        stability = int(np.all(rates <= 0)) - int(np.all(rates >= 0))
    return ExtremalVector(sign * gradient / norm, gradient, pattern.copy(), kind, norm, stability)


def face_dimension(inputs: Floats, pattern: Signs) -> int:
    """Return the dimension of A⁻¹(u): d less the rank of the inputs at the zeros of u."""
    on = inputs[pattern == 0]
    sizes = np.linalg.norm(on, axis=1)
    units = on[sizes > 0] / sizes[sizes > 0, None]
    return int(inputs.shape[1] - (np.linalg.matrix_rank(units, tol=ON) if len(units) else 0))


def _rates_and_rays(found: Pull, pattern: Signs) -> tuple[Floats, Floats]:
    """Return φ(v) at the rays v of the arrangement of {x_k : u_k = 0}, zero where it is rounding, and v."""
    on = pattern == 0
    if not found.inputs[on].any():
        return np.zeros(0), np.zeros((0, found.inputs.shape[1]))
    rays = rays_of(found.inputs[on])
    z = rays @ found.inputs[on].T
    rates = rays @ found.known(pattern) + np.maximum(z, found.slope * z) @ found.strengths[on]
    return np.where(np.abs(rates) <= ZERO * found.scale, 0.0, rates), rays


def steepest(found: Pull, pattern: Signs, sign: int) -> tuple[float, Floats]:
    """Return the largest directional derivative found of sign·G at a point of A⁻¹(u), and its direction (d,).

    It is positive iff sign·G grows in some direction (the derivative is linear in the component orthogonal to
    the x_K, and its signs in their span are those at the rays); it need not be the largest of all.
    """
    known, on = found.known(pattern), found.inputs[pattern == 0]
    free = known - np.linalg.pinv(on, rcond=ON) @ (on @ known) if on.any() else known
    rate, direction = float(np.linalg.norm(free)), sign * free
    rates, rays = _rates_and_rays(found, pattern)
    if len(rates) and (best := int(np.argmax(sign * rates))) >= 0 and sign * rates[best] > rate:
        rate, direction = float(sign * rates[best]), rays[best]
    size = np.linalg.norm(direction)
    return (rate, direction / size) if rate > ZERO * found.scale else (0.0, np.zeros_like(known))


def _kind(rates: Floats, sign: float, dimension: int) -> str:
    """Return the kind of a critical point with G(w*) of this sign, from φ at the rays across its face."""
    along, against = ("maximum", "minimum") if sign > 0 else ("minimum", "maximum")
    if np.all(sign * rates <= 0):
        return along
    return against if dimension == 1 and np.all(sign * rates > 0) else "saddle"


NOT_EXTREMAL, STILL = -2, -1
"""States of a neuron whose D(w_j, 0) is not extremal, or zero; the others index `KINDS`."""


@dataclass(frozen=True, eq=False, repr=False)
class NeuronAlignment(FrozenArrays):
    """The neurons of a network against D_j = D(w_j, 0), the pull of the data at output zero.

    norms (m,): ‖D_j‖; alignments (m,): ⟨D_j, w_j/a_j⟩, which the flow raises towards ‖D_j‖ (0 where a_j = 0);
    cosines (m,): of the angle between D_j and w_j/a_j (0 where one vanishes); states (m,): the number in
    `KINDS` of the critical point of G in the neuron's cone, `STILL` where D_j = 0 (a dead neuron), or
    `NOT_EXTREMAL`.
    """

    norms: Floats
    alignments: Floats
    cosines: Floats
    states: Signs

    @property
    def misalignments(self) -> Floats:
        """‖D_j‖ − ⟨D_j, w_j/a_j⟩ (m,), between 0 and 2‖D_j‖ if |a_j| ≥ ‖w_j‖."""
        return self.norms - self.alignments

    def opposed(self, tolerance: float = ON) -> Bools:
        """Return which neurons point exactly away from where they are pulled, (m,)."""
        return np.asarray(self.cosines <= tolerance - 1.0)

    def of_kind(self, kind: str) -> Bools:
        """Return which neurons lie in the cone of an extremal vector of this kind, (m,)."""
        return np.asarray(self.states == KINDS.index(kind))


@public
def neuron_alignment(
    network: ReLUNetwork, dataset: Dataset, *, loss: Loss | None = None, tolerance: float = ON
) -> NeuronAlignment:
    """Return how the neurons of a network are aligned with what pulls at them.

    loss: ½·mean of squares by default; tolerance: a neuron this close to a data hyperplane (cosine) lies on
    it.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> found = neuron_alignment(ReLUNetwork([[2.0, 2.0], [-1.0, -1.0]], [3.0, 1.0]), data)
    >>> found.cosines.round(6), found.states
    (array([1., 0.]), array([ 0, -1], dtype=int8))
    """
    check_relu(network)
    found, tolerance = pull(dataset, loss, network.slope), positive(tolerance, "tolerance")
    lengths = np.linalg.norm(network.inner, axis=1)
    signs = signs_of(network.preactivations(dataset.inputs), np.outer(lengths, found.lengths), tolerance)
    patterns, which = np.unique(signs, axis=0, return_inverse=True)
    shortest = found.minimal_all(patterns)
    states = np.full(len(patterns), NOT_EXTREMAL, np.int8)
    for i, (pattern, gradient) in enumerate(zip(patterns, shortest, strict=True)):
        if not gradient.any():
            states[i] = STILL
        elif is_extremal(found, pattern, gradient):
            states[i] = KINDS.index(extremal_vector(found, pattern, gradient).kind)
    pulls = shortest[which.ravel()]
    norms, products = np.linalg.norm(pulls, axis=1), np.einsum("jd,jd->j", pulls, network.inner)
    alignments = np.divide(products, network.outer, out=np.zeros_like(products), where=network.outer != 0)
    sizes = norms * lengths
    cosines = np.divide(np.sign(network.outer) * products, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    return NeuronAlignment(norms, alignments, cosines, states[which.ravel()])


@public
def alignment_time(norm: float, start: float, end: float) -> float:
    """Return how long ⟨D, w/a⟩ takes from `start` to `end` under f' = ‖D‖² − f², [early_alignment] (8).

    norm: ‖D‖; start, end in (−‖D‖, ‖D‖): (artanh(end/‖D‖) − artanh(start/‖D‖))/‖D‖. A neuron that starts
    almost opposed, f = −‖D‖√(1 − α₀²), is late by about ln(2/α₀)/‖D‖ beside one at f = 0 (Remark 1).

    Examples
    --------
    >>> round(alignment_time(2.0, 0.0, 1.0), 6)
    0.274653
    """
    norm = positive(norm, "norm")
    for name, value in (("start", start), ("end", end)):
        if not abs(real(value, name)) < norm:
            raise InvalidInputError(f"{name}: must lie between -norm and norm = {norm:g}, got {value:g}")
    return float((np.arctanh(end / norm) - np.arctanh(start / norm)) / norm)


def largest_misalignments(
    first: NeuronAlignment, last: NeuronAlignment, norms: Floats, alpha_0: float, tolerance: float = ON
) -> tuple[Floats, int]:
    """Return the largest ‖D‖ − ⟨D, w_j/a_j⟩ at each extremal vector, and the number of neurons elsewhere.

    first, last: the neurons of one network at the start and at τ; norms (v,): ‖D‖ of the extremal vectors.
    Counted are the neurons of Condition 1 of [early_alignment] Thm 1, ⟨D_j, w_j/a_j⟩ > −√(1 − α₀²) ‖D_j‖ at
    the start; at a vector are those whose pull at τ is extremal and as long, and does not oppose them (NaN if
    there are none).
    """
    chosen = first.alignments > -np.sqrt(1 - alpha_0**2) * first.norms
    arrived = chosen & (last.states >= 0) & ~last.opposed(tolerance)
    errors = np.full(len(norms), np.nan)
    for v, norm in enumerate(norms):
        here = arrived & np.isclose(last.norms, norm, rtol=1e-9)
        if here.any():
            errors[v] = float(np.max(last.misalignments[here]))
    return errors, int(np.sum(chosen & (last.states < 0) & (last.norms > 0)))


def mean_turn(before: ReLUNetwork, after: ReLUNetwork) -> float:
    """Return the angle between the mean directions Σ_{a_j > 0} a_j w_j of two networks, in radians."""
    first, second = (
        np.where(network.outer > 0, network.outer, 0.0) @ network.inner for network in (before, after)
    )
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.arccos(np.clip(cosine, -1.0, 1.0)))


@dataclass(frozen=True, eq=False, repr=False)
class MergedNeurons(FrozenArrays):
    """directions (g, d): unit vectors; weights (g,): Σ a_j‖w_j‖ of each group; counts (g,): its neurons.

    Heaviest group first.
    """

    directions: Floats
    weights: Floats
    counts: Ints

    def __len__(self) -> int:
        return len(self.weights)


@public
def merged_neurons(
    network: ReLUNetwork,
    dataset: Dataset,
    *,
    tolerance: float = 1e-2,
    share: float = 1e-2,
    resting: Resting | None = None,
) -> MergedNeurons:
    """Return the groups of neurons with one direction that make up the network on the data.

    Neurons that no data point activates are left out (unless the activation is leaky). tolerance: directions
    this close to that of a group's heaviest neuron belong to it; share: groups whose |weight| is below this
    share of the heaviest one's are left out; resting: as for `activity`.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> found = merged_neurons(ReLUNetwork([[1.0, 0.0], [2.0, 0.0], [-1.0, -1.0]], [1.0, -1.0, 5.0]), data)
    >>> found.weights, found.counts
    (array([-1.]), array([2]))
    """
    tolerance, share = positive(tolerance, "tolerance"), positive(share, "share")
    check_relu_problem(network, dataset)
    lengths = np.linalg.norm(network.inner, axis=1)
    alive = np.any(activity(network, dataset.inputs, resting=resting) > 0, axis=1) | (network.slope > 0)
    used = np.flatnonzero(alive & (lengths > 0) & (network.outer != 0))
    sizes = network.scale * network.outer[used] * lengths[used]
    units = network.inner[used] / lengths[used, None]
    groups: list[tuple[Floats, float, int]] = []
    heaviest = 0.0
    remaining = np.arange(len(used))
    while remaining.size and np.sum(np.abs(sizes[remaining])) > share * heaviest:
        first = remaining[np.argmax(np.abs(sizes[remaining]))]
        near = np.linalg.norm(units[remaining] - units[first], axis=1) <= tolerance
        members = remaining[near]
        weight = float(np.sum(sizes[members]))
        groups.append((units[first], weight, int(members.size)))
        heaviest = max(heaviest, abs(weight))
        remaining = remaining[~near]
    groups = sorted((g for g in groups if abs(g[1]) > share * heaviest), key=lambda g: -abs(g[1]))
    directions = np.array([g[0] for g in groups]).reshape(len(groups), dataset.dimension)
    return MergedNeurons(directions, np.array([g[1] for g in groups]), np.array([g[2] for g in groups], int))
