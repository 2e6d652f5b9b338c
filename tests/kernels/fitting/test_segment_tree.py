from __future__ import annotations

import numpy as np
import pytest

from shallowflow.kernels.fitting import anls as st
from tests.kernels.entry import entry


@pytest.mark.parametrize("leaves", [1, 2, 5, 64, 100])
def test_local_refreshes_give_the_sum_and_the_first_maximum(leaves: int) -> None:
    rng = np.random.default_rng(leaves)
    sums, maxima = st.new_tree(leaves, 0.0), st.new_tree(leaves, -np.inf)
    values = np.zeros(leaves)
    lo, hi = 0, leaves - 1
    for _ in range(50):
        values[lo : hi + 1] = rng.integers(-5, 5, hi + 1 - lo)
        for tree in (sums, maxima):
            tree[tree.size // 2 + lo : tree.size // 2 + hi + 1] = values[lo : hi + 1]
        entry(st.refresh_sums)(sums, lo, hi)
        entry(st.refresh_maxima)(maxima, lo, hi)
        assert sums[1] == values.sum()
        assert maxima[1] == values.max()
        for threshold in (values.max(), values.max() - 2.0):
            assert entry(st.first_at_least)(maxima, threshold) == int(np.argmax(values >= threshold))
        lo, hi = sorted(rng.integers(0, leaves, 2).tolist())


def test_the_sum_depends_on_the_leaves_alone() -> None:
    values = np.random.default_rng(0).uniform(0.0, 1.0, 37)
    fresh, used = st.new_tree(37, 0.0), st.new_tree(37, 0.0)
    for content in (np.full(37, 1e16), values):
        used[used.size // 2 :][:37] = content
        entry(st.refresh_sums)(used, 0, 36)
    fresh[fresh.size // 2 :][:37] = values
    for leaf in range(37):
        entry(st.refresh_sums)(fresh, leaf, leaf)
    assert used[1] == fresh[1]
