"""Subspaces of walls: orthonormal bases, and the force of least norm on a neuron that lies on walls.

On walls L a neuron may be pulled by any D = D_rest + Σ_{w∈L} x_w e_w, |x_w| ≤ |C_w|. Where all of them
attract it, it follows the shortest of these (the minimal-norm subgradient, [early_alignment] (2)): x_w =
±C_w where it leaves to that side, and strictly between where it goes on along the wall.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, SUMS
from shallowflow.kernels.walls.series import dot

DEPENDENT = 1e-9
"""A unit normal with a smaller part outside the span of others depends on them."""
MOST_ROUNDS = 400
SOLVE_EVERY = 8
SMALL_CHANGE = 1e-14


class Frame(NamedTuple):
    """Walls and an orthonormal basis of the span of their normals.

    rows (r, r): the basis; triangle (r, r): normals in it, of those that are independent; walls (W,): their
    numbers; independent (r,): positions in `walls` of the independent ones; sizes (2,): how many walls, and
    the rank.
    """

    rows: Floats
    triangle: Floats
    walls: Ints
    independent: Ints
    sizes: Ints


class Box(NamedTuple):
    """The problem of least norm: walls (W,), bounds |C_w| (W,) and x (W,) of those that hold, D (r,); a
    frame, an order (W,) and a solution (r,) to work with.
    """

    walls: Ints
    bounds: Floats
    x: Floats
    force: Floats
    frame: Frame
    order: Ints
    solution: Floats


def new_frame(walls: int, rank: int) -> Frame:
    """Return an empty frame."""
    square, whole = (rank, rank), np.zeros(2, np.int64)
    positions = np.zeros(max(walls, 1), np.int64), np.zeros(rank, np.int64)
    return Frame(np.zeros(square), np.zeros(square), *positions, whole)


def new_box(walls: int, rank: int) -> Box:
    """Return an empty box."""
    many = max(walls, 1)
    lists = np.zeros(many, np.int64), np.zeros(many), np.zeros(many), np.zeros(rank)
    return Box(*lists, new_frame(walls, rank), np.zeros(many, np.int64), np.zeros(rank))


@njit(cache=True, **SUMS)
def extend(frame: Frame, normals: Floats, wall: int) -> bool:
    """Add a wall; return whether its normal was independent of those before (Gram–Schmidt, twice)."""
    size, rank = normals.shape[1], frame.sizes[1]
    frame.walls[frame.sizes[0]] = wall
    frame.sizes[0] += 1
    if rank == size:
        return False
    new = frame.rows[rank]
    for i in range(size):
        new[i] = normals[wall, i]
    for k in range(rank):
        frame.triangle[rank, k] = 0.0
    for _ in range(2):
        for k in range(rank):
            part = 0.0
            for i in range(size):
                part += frame.rows[k, i] * new[i]
            frame.triangle[rank, k] += part
            for i in range(size):
                new[i] -= part * frame.rows[k, i]
    square = 0.0
    for i in range(size):
        square += new[i] * new[i]
    length = sqrt(square)
    if length < DEPENDENT:
        return False
    for i in range(size):
        new[i] /= length
    frame.triangle[rank, rank] = length
    frame.independent[rank] = frame.sizes[0] - 1
    frame.sizes[1] += 1
    return True


@njit(cache=True, **SUMS)
def project(vector: Floats, frame: Frame) -> None:
    """Take out of a vector (r,) its part in the span of the frame; exactly zero if that is everything."""
    size, rank = vector.size, frame.sizes[1]
    if rank == size:
        for i in range(size):
            vector[i] = 0.0
        return
    for k in range(rank):
        part = 0.0
        for i in range(size):
            part += frame.rows[k, i] * vector[i]
        for i in range(size):
            vector[i] -= part * frame.rows[k, i]


@njit(cache=True, **SUMS)
def multipliers(force: Floats, frame: Frame, solution: Floats) -> None:
    """Write what the independent normals of the frame must add to D (r,) so that nothing of it is left in
    their span: Lᵀ μ = −Q D, (rank,).
    """
    rank = frame.sizes[1]
    for k in range(rank - 1, -1, -1):
        part = 0.0
        for i in range(force.size):
            part -= frame.rows[k, i] * force[i]
        for later in range(k + 1, rank):
            part -= frame.triangle[later, k] * solution[later]
        solution[k] = part / frame.triangle[k, k]


@njit(cache=True, **ONCE)
def _solve_inside(box: Box, count: int, normals: Floats) -> bool:
    """Move all x strictly inside their bounds to where D has no part along them; return whether that fits."""
    frame = box.frame
    frame.sizes[0], frame.sizes[1] = 0, 0
    inside = 0
    for k in range(count):
        if abs(box.x[k]) < box.bounds[k]:
            if not extend(frame, normals, box.walls[k]):
                return False
            box.order[inside] = k
            inside += 1
    multipliers(box.force, frame, box.solution)
    for place in range(inside):
        k = box.order[place]
        if abs(box.x[k] + box.solution[place]) >= box.bounds[k]:
            return False
    for place in range(inside):
        k = box.order[place]
        box.x[k] += box.solution[place]
        for i in range(box.force.size):
            box.force[i] += box.solution[place] * normals[box.walls[k], i]
    return True


@njit(cache=True, **INTERNAL)
def shorten(box: Box, count: int, normals: Floats) -> None:
    """Make D = D_rest + Σ x_k e_k as short as possible with |x_k| ≤ bounds_k, from the present x.

    Coordinate by coordinate, with now and then a solution on those strictly inside their bounds.
    """
    size, largest = box.force.size, 0.0
    for k in range(count):
        largest = max(largest, box.bounds[k])
    for turn in range(MOST_ROUNDS):
        moved = 0.0
        for k in range(count):
            wall = box.walls[k]
            new = min(max(box.x[k] - dot(box.force, normals, wall), -box.bounds[k]), box.bounds[k])
            change = new - box.x[k]
            if change != 0.0:
                box.x[k] = new
                for i in range(size):
                    box.force[i] += change * normals[wall, i]
                moved = max(moved, abs(change))
        if moved <= SMALL_CHANGE * largest or count == 1:
            return
        if turn % SOLVE_EVERY == SOLVE_EVERY - 1:
            _solve_inside(box, count, normals)
