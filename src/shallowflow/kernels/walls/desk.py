"""What tracing neurons works with: the neurons, a log of their events, a desk for one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.field import Field
from shallowflow.kernels.walls.series import ORDER, TERMS
from shallowflow.kernels.walls.settle import Meeting, new_meeting
from shallowflow.kernels.walls.sliding import Frame, extend, new_frame, project


class Neurons(NamedTuple):
    """inner (m, r), outer (m,), signs (m, W)."""

    inner: Floats
    outer: Floats
    signs: Ints


class Log(NamedTuple):
    """Changes of signs in a step: neurons, walls, before, after, kinds, shares, kinks (E,); used (1,)."""

    neurons: Ints
    walls: Ints
    before: Ints
    after: Ints
    kinds: Ints
    shares: Floats
    kinks: Floats
    used: Ints


class Desk(NamedTuple):
    """What tracing one neuron works with: w (r,), its signs (W,), z (W,); forces (q, r) over the step, flat
    (q·r,) the same numbers, and local (q, r) on a stretch, tails (q,): Σ_{p≥j} ‖D_p‖ on it; inner (ORDER + 1,
    r), outer, norms, passing (ORDER + 1,): series; padded, padded_outer: they after rows of zeros; products
    (k·r,): a w at the shares; poly (q,), bounds (q, r), pulls (r,): of multipliers.
    """

    w: Floats
    signs: Ints
    z: Floats
    forces: Floats
    flat: Floats
    local: Floats
    tails: Floats
    inner: Floats
    outer: Floats
    padded: Floats
    padded_outer: Floats
    norms: Floats
    passing: Floats
    products: Floats
    poly: Floats
    other: Floats
    multipliers: Floats
    pulls: Floats
    frame: Frame
    meeting: Meeting


def new_neurons(inner: Floats, outer: Floats, walls: int) -> Neurons:
    """Return neurons on no side."""
    return Neurons(inner.copy(), outer.copy(), np.zeros((len(outer), walls), np.int8))


def new_log(size: int) -> Log:
    """Return an empty log with room for `size` changes."""
    one, two, three, four, five = (np.zeros(size, np.int64) for _ in range(5))
    return Log(one, two, three, four, five, np.zeros(size), np.zeros(size), np.zeros(1, np.int64))


def new_desk(terms: int, shares: int, problem: Problem) -> Desk:
    """Return a desk for steps of `terms` nodes and at most `shares` shares."""
    walls, rank = problem.normals.shape
    padded, padded_outer = np.zeros((TERMS + ORDER, rank)), np.zeros(TERMS + ORDER)
    forces = np.zeros((terms, rank))
    return Desk(
        np.zeros(rank),
        np.zeros(walls, np.int8),
        np.zeros(walls),
        forces,
        forces.reshape(-1),
        np.zeros((terms, rank)),
        np.zeros(terms),
        padded[TERMS - 1 :],
        padded_outer[TERMS - 1 :],
        padded,
        padded_outer,
        np.zeros(ORDER + 1),
        np.zeros(ORDER + 1),
        np.zeros(shares * rank),
        np.zeros(terms),
        np.zeros(terms),
        np.zeros((terms, rank)),
        np.zeros(rank),
        new_frame(walls, rank),
        new_meeting(walls, rank),
    )


@njit(cache=True, **INTERNAL)
def take_up(signs: Ints, forces: Floats, frame: Frame, field: Field, normals: Floats, aligned: int) -> None:
    """Set the frame of the walls on which a neuron slides, and its forces (q·r,) over the step."""
    walls, rank = normals.shape
    frame.sizes[0], frame.sizes[1] = 0, 0
    if aligned:
        for w in range(walls):
            if signs[w] == 0:
                frame.walls[frame.sizes[0]] = w
                frame.sizes[0] += 1
            for p in range(field.means.shape[0]):
                forces[p * rank + w] = field.means[p, w] + signs[w] * field.jumps[p, w]
        return
    for i in range(forces.size):
        forces[i] = field.base[i]
    for w in range(walls):
        if signs[w] >= 0:
            factor = 1.0 if signs[w] > 0 else 0.5
            if signs[w] == 0:
                extend(frame, normals, w)
            for i in range(forces.size):
                forces[i] += factor * field.vectors[w, i]


@njit(cache=True, **INTERNAL)
def put_onto_walls(w: Floats, frame: Frame, aligned: int) -> None:
    """Move w (r,) exactly onto the walls on which the neuron slides."""
    if aligned:
        for k in range(frame.sizes[0]):
            w[frame.walls[k]] = 0.0
    elif frame.sizes[0] > 0:
        project(w, frame)
