"""Space for vector registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shallowflow.kernels.shared.vectors import BYTES, aligned


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("count", [1, 7, 1000])
def test_space_is_zero_and_begins_where_a_register_may(count: int, kind: type[Any]) -> None:
    held = [aligned(count, np.ones(1, kind)) for _ in range(5)]
    for space in held:
        assert space.shape == (count,)
        assert space.dtype == kind
        assert not space.any()
        assert space.ctypes.data % BYTES == 0
