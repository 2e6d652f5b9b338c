"""Neurons that move between groups, and their keys: the groups' sums must be those of their neurons."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones import flow_step as keys
from shallowflow.kernels.cones.flow_state import Due, Groups, Neurons, new_moves
from tests.kernels.cones.test_flow_groups import random_state

ordinary = settings(deadline=None, derandomize=True, max_examples=30)


def groups_of(neurons: Neurons, cones: int) -> Ints:
    slots = neurons.slot.astype(np.int64)
    return np.where(slots < 2 * cones, slots // 2, slots - cones)


def expected_moments(neurons: Neurons, cones: int) -> Floats:
    products = np.einsum("ji,jk->jik", neurons.theta, neurons.theta)[:, *np.triu_indices(3)]
    moments = np.zeros((3 * cones + 2, 6))
    np.add.at(moments, groups_of(neurons, cones), products)
    return moments[: 3 * cones]


def sums_of(groups: Groups) -> Floats:
    return np.asarray(groups.moments[:, :6] + groups.moments[:, 6:])


@ordinary
@given(st.integers(0, 100_000))
def test_moves_keep_the_neurons_and_the_sums(seed: int) -> None:
    """A neuron keeps its θ = P θ̂ through a move, also through two; to rest (w = 0) θ̂ is θ."""
    (neurons, groups, _, _), problem, rng = random_state(seed)
    cones, moves = len(problem.rays), new_moves(30)
    before = groups_of(neurons, cones)
    movers = np.sort(rng.choice(len(before), 10, replace=False)).repeat(rng.integers(1, 3, 10))
    count, now = len(movers), dict[int, int]()
    for i, j in enumerate(movers.tolist()):
        moves.neuron[i], moves.left[i] = j, now.get(j, before[j])
        moves.entered[i] = now[j] = int(rng.integers(0, 3 * cones + 2))
        moves.theta[i] = rng.standard_normal(3)
    wanted = {j: moves.theta[i].copy() for i, j in enumerate(movers.tolist())}
    keys.make_moves(count, moves, neurons, groups)
    after = groups_of(neurons, cones)
    assert {j: after[j] for j in wanted} == now
    np.testing.assert_array_equal(groups.counts, np.bincount(after, minlength=3 * cones + 2))
    np.testing.assert_allclose(sums_of(groups), expected_moments(neurons, cones), atol=1e-10)
    present = np.empty_like(neurons.theta)
    keys.neurons_now(neurons.theta, neurons.slot, groups.propagators, present)
    for j, theta in wanted.items():
        np.testing.assert_allclose(present[j], theta, atol=1e-10)


def test_due_are_those_with_low_keys_and_all_of_a_slot_with_a_new_wall() -> None:
    (neurons, _, _, _), problem, rng = random_state(7)
    slots = 4 * len(problem.rays)
    neurons.key[:] = rng.uniform(0.0, 2.0, len(neurons.key))
    due = Due(
        np.ones(slots),
        rng.random(slots) < 0.3,
        rng.random(slots) < 0.6,
        np.full(slots, np.inf),
        np.zeros(slots // 2, np.int64),
    )
    number = keys.list_due(neurons, due)
    slot = neurons.slot
    listed = due.all_of[slot] | (due.some_of[slot] & (neurons.key < 1.0))
    np.testing.assert_array_equal(neurons.list[:number], np.flatnonzero(listed))
    for one in np.flatnonzero(due.some_of & ~due.all_of):
        others = neurons.key[(slot == one) & ~listed]
        assert due.rest[one] == others.min(initial=np.inf)


def test_keys_are_filed_beyond_the_clock_and_the_lowest_is_known() -> None:
    (neurons, groups, _, _), problem, _ = random_state(11)
    cones = len(problem.rays)
    of_all = groups_of(neurons, cones)
    groups.clocks[:] = 3.0
    groups.bits[:] = 3
    # Inside their cones, so that certificates are about the walls at hand.
    inside = np.flatnonzero(of_all < cones)
    first, last = problem.rays[of_all[inside]], problem.rays[(of_all[inside] + 1) % cones]
    middle = first + last if cones > 2 else np.column_stack([-first[:, 1], first[:, 0]])
    groups.propagators[:] = np.eye(3).ravel()
    neurons.theta[inside, :2] = middle
    everyone = np.arange(len(of_all), dtype=np.int32)
    keys.file(everyone, neurons, groups, problem)
    assert np.all(neurons.key[inside] > 3.0)
    for slot in np.unique(neurons.slot):
        assert groups.lowest[slot] == neurons.key[neurons.slot == slot].min()
