"""Gradient descent of a ReLU network on inputs of any dimension, by sign patterns.

Model and step as in `descent`, for d ≥ 1: all neurons of one sign pattern make the same linear map
(`pattern_table`). At the start every neuron is stepped individually with its pattern's force, at O(d).
Neurons that will not cross a border for a while are grouped (`pattern_groups`): then a
step costs O(patterns · points · dimension), whatever the width. Either way the iterates are those of plain
descent up to rounding, and neurons cross in the same steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import Indices
from shallowflow.kernels.cones.geometry import SQUARE, Loss
from shallowflow.kernels.cones.pattern_groups import (
    Groups,
    group_quiet,
    make_steps,
    new_groups,
    present,
)
from shallowflow.kernels.cones.pattern_table import (
    NEXT_LOOK,
    PAUSE,
    STEPPED,
    STEPS,
    Points,
    Steppers,
    Table,
    distribute,
    new_steppers,
    new_table,
)
from shallowflow.kernels.shared.compilation import LEAN, Signed

SHORTEST, LONGEST = 64, 1024
"""Steps between two looks for neurons to group; the pause doubles while there are none."""


class State(NamedTuple):
    """All between two calls."""

    groups: Groups
    steppers: Steppers
    counters: Ints
    table: Table


def begin(inner: Floats, outer: Floats, points: Points) -> State:
    """Return the state at the start, from inner (m, d) and outer (m,) weights."""
    width, dimension = inner.shape
    size = len(points.targets)
    state = State(
        new_groups(width, size, dimension),
        new_steppers(width, size, dimension),
        np.zeros(7, np.int64),
        new_table(width + 1, size, dimension),
    )
    state.counters[[NEXT_LOOK, PAUSE]] = SHORTEST
    distribute(np.column_stack([inner, outer]), *state[1:], points)
    return state


def advance(state: State, points: Points, loss: Loss, steps: int) -> int:
    """Make up to `steps` steps in place; return how many could be made with finite forces.

    loss: `SQUARE` or `LOGISTIC`, the output factor c, and step × c × weight of the loss (1/n for a mean).
    """
    counters = state.counters
    end = counters[STEPS] + steps
    while counters[STEPS] < end:
        asked = int(min(end, counters[NEXT_LOOK]) - counters[STEPS])
        if make_steps(*state, points, loss, asked) < asked:
            break
        if counters[STEPS] == counters[NEXT_LOOK]:
            found = group_quiet(*state, points)
            counters[PAUSE] = SHORTEST if found else min(2 * counters[PAUSE], LONGEST)
            counters[NEXT_LOOK] += counters[PAUSE]
    return int(steps - (end - counters[STEPS]))


def neurons_now(state: State) -> Floats:
    """Return (w, a) of all neurons in the caller's order, (m, d + 1)."""
    groups, steppers = state.groups, state.steppers
    now = np.empty_like(groups.theta)
    _write_groups(groups.theta, groups.heap, groups.propagators, now)
    alone = slice(state.counters[STEPPED])
    now[steppers.neuron[alone]] = steppers.theta[alone]
    return now


@njit(cache=True, **LEAN)
def _write_groups(theta: Floats, heaps: Indices, propagators: Floats, now: Floats) -> None:
    """Set `now` to P θ̂ for all grouped neurons."""
    for j in range(heaps.size):
        heap = Signed(heaps[j])
        if heap >= 0:
            present(propagators[heap // 2], theta[j], now[j])


def loss_now(state: State, points: Points, loss: Loss) -> float:
    """Return the loss of the present state, without its weight and the points at the origin.

    O(patterns · points · dimension); nothing is written.
    """
    groups, table, (kind, scale, _) = state.groups, state.table, loss
    used = table.used[: table.size[0]]
    moments, grouped = table.moments[used], groups.counts[used] > 0
    p, upper = groups.propagators[used[grouped]], np.triu(groups.sums[used[grouped]])
    seconds = upper + np.triu(upper, 1).transpose(0, 2, 1)
    moments[grouped] += (p[:, :-1] @ (seconds @ p[:, -1, :, None]))[:, :, 0]
    gates = np.where(table.active[used], 1.0, points.slope[0])
    predictions = scale * np.sum(gates * (moments @ points.inputs.T), axis=0)
    if kind == SQUARE:
        return 0.5 * float(np.sum((predictions - points.targets) ** 2))
    return float(np.sum(np.logaddexp(0.0, -predictions * points.targets)))
