"""Pairing heaps against the standard library's heap, several in the same arrays."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.cones.exits import NONE, list_members, new_heaps, popped, pushed

ACTIONS = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 20)), max_size=200)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(ACTIONS)
def test_heaps_behave_like_heapq(actions: list[tuple[int, int]]) -> None:
    heaps = new_heaps(len(actions))
    roots = [NONE] * 3
    expected: list[list[tuple[float, int]]] = [[], [], []]
    members = np.empty(len(actions), np.int32)
    for neuron, (heap, key) in enumerate(actions):
        if key >= 0:
            roots[heap] = pushed(roots[heap], neuron, float(key), heaps)
            heapq.heappush(expected[heap], (float(key), neuron))
        elif expected[heap]:
            smallest = roots[heap]
            assert heaps.key[smallest] == expected[heap][0][0]
            expected[heap].remove((heaps.key[smallest], smallest))
            heapq.heapify(expected[heap])
            roots[heap] = popped(smallest, heaps)
        else:
            assert roots[heap] == NONE
        number = list_members(roots[heap], heaps, members)
        assert sorted(members[:number]) == sorted(j for _, j in expected[heap])
