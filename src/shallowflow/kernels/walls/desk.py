"""What tracing neurons works with: the neurons, a log of their events, a desk for one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.field import Field
from shallowflow.kernels.walls.series import ORDER
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
    """What tracing one neuron works with: w (r,), its signs (W,), z (W,); forces (q, r) over the step and
    local (q, r) on a stretch; inner (ORDER + 1, r), outer, norms, passing (ORDER + 1,): series; products
    (k, r): a w at the shares; poly (q,), bounds (q, r), pulls (r,): of multipliers.
    """

    w: Floats
    signs: Ints
    z: Floats
    forces: Floats
    local: Floats
    inner: Floats
    outer: Floats
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
    outer, norms, passing = (np.zeros(ORDER + 1) for _ in range(3))
    return Desk(
        np.zeros(rank),
        np.zeros(walls, np.int8),
        np.zeros(walls),
        np.zeros((terms, rank)),
        np.zeros((terms, rank)),
        np.zeros((ORDER + 1, rank)),
        outer,
        norms,
        passing,
        np.zeros((shares, rank)),
        np.zeros(terms),
        np.zeros(terms),
        np.zeros((terms, rank)),
        np.zeros(rank),
        new_frame(walls, rank),
        new_meeting(walls, rank),
    )


@njit(cache=True, **INTERNAL)
def take_up(desk: Desk, field: Field, problem: Problem) -> None:
    """Set the frame of the walls on which the neuron slides, and its forces over the step, by its signs."""
    normals, frame = problem.normals, desk.frame
    walls, rank = normals.shape
    terms = desk.forces.shape[0]
    frame.sizes[0], frame.sizes[1] = 0, 0
    if problem.aligned:
        for w in range(walls):
            if desk.signs[w] == 0:
                frame.walls[frame.sizes[0]] = w
                frame.sizes[0] += 1
            for p in range(terms):
                desk.forces[p, w] = field.means[p, w] + desk.signs[w] * field.jumps[p, w]
        return
    for p in range(terms):
        for i in range(rank):
            desk.forces[p, i] = field.base[p * rank + i]
    for w in range(walls):
        if desk.signs[w] >= 0:
            factor = 1.0 if desk.signs[w] > 0 else 0.5
            if desk.signs[w] == 0:
                extend(frame, normals, w)
            for p in range(terms):
                for i in range(rank):
                    desk.forces[p, i] += factor * field.vectors[w, p * rank + i]


@njit(cache=True, **INTERNAL)
def put_onto_walls(desk: Desk, problem: Problem) -> None:
    """Move w exactly onto the walls on which the neuron slides."""
    if problem.aligned:
        for k in range(desk.frame.sizes[0]):
            desk.w[desk.frame.walls[k]] = 0.0
    elif desk.frame.sizes[0] > 0:
        project(desk.w, desk.frame)
