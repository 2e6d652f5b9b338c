"""Any moment of a step that has been made: its pulls are known, one sweep finds neurons and losses again."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.desk import Neurons, new_desk, new_log, new_neurons
from shallowflow.kernels.walls.field import Sums, new_field, new_sums
from shallowflow.kernels.walls.step import attempt, new_trial, radau_nodes
from shallowflow.kernels.walls.stiff import no_newton
from shallowflow.kernels.walls.trace import FULL

PACKED = 31
"""Signs in a word: two bits each."""


def replay(
    step: float, rest: float, neurons: Neurons, pulls: Floats, shares: Floats, problem: Problem
) -> tuple[Neurons, Sums]:
    """Return the neurons at the last of the shares of a step, and the sums at all of them.

    neurons: at its beginning; pulls (q, n): at its nodes.
    """
    terms, nodes = len(pulls), radau_nodes(len(pulls))
    field, sums = new_field(nodes, problem), new_sums(len(shares), problem)
    trial = new_trial(nodes, shares, field.powers, problem)
    trial.pulls[:] = pulls
    then = new_neurons(neurons.inner, neurons.outer, len(problem.normals))
    desk, size = new_desk(terms, len(shares), problem), 8 * len(neurons.outer) + 1024
    while True:
        tools = desk, field, sums, new_log(size)
        status = attempt(step, (rest, 1.0), 0, (neurons, then), tools, trial, no_newton(terms), problem)
        if status != FULL:
            return then, sums
        size *= 2


def pack(signs: Ints) -> Ints:
    """Return signs −1, 0, 1 (m, W) in words (m, ⌈W/31⌉)."""
    size, walls = signs.shape
    words = -(-walls // PACKED)
    codes = np.zeros((size, words * PACKED), np.int64)
    codes[:, :walls] = signs + 1
    return np.asarray(codes.reshape(size, words, PACKED) @ (1 << 2 * np.arange(PACKED, dtype=np.int64)))


def unpack(words: Ints, walls: int) -> Ints:
    """Return the signs (m, W) of words."""
    codes = words[:, :, None] >> (2 * np.arange(PACKED, dtype=np.int64)) & 3
    return np.ascontiguousarray(codes.reshape(len(words), -1)[:, :walls] - 1).astype(np.int8)
