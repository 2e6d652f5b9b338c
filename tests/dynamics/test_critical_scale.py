"""The measured critical scale, against flows on both sides of it."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.critical_scale import CriticalScale, critical_scale

DATA = Dataset([[-0.95], [0.0], [0.95]], [1.0, 0.05, 1.0]).with_bias()
LINE = sf.landscape.least_squares(DATA).loss


@pytest.mark.parametrize("init", ["balanced", "dominated"])
def test_flows_below_end_in_the_line_and_above_fit(init: str) -> None:
    found = critical_scale(DATA, init, width=30, seed=1, halvings=4)
    assert found.found
    assert found.low < found.value < found.high
    assert found.high / found.low == pytest.approx(10 ** (7 / 16))
    for scale, line in ((0.2 * found.low, True), (5 * found.high, False)):
        start = getattr(sf.initialize, init)(30, 2, init_scale=scale, seed=1)
        loss = sf.gradient_flow(start, DATA, until=400.0).losses[-1]
        assert loss == pytest.approx(LINE, rel=1e-3) if line else loss < 0.1 * LINE


def test_a_change_outside_the_interval_is_said() -> None:
    above = critical_scale(DATA, width=30, smallest=1e-7, largest=1e-6, halvings=1)
    assert (above.low, above.high, above.found) == (1e-6, np.inf, False)
    assert str(above) == "above 1e-06"
    below = critical_scale(DATA, width=30, smallest=0.5, largest=1.0, halvings=1)
    assert (below.low, below.high) == (0.0, 0.5)
    assert str(below) == "below 0.5"
    assert below.value == 0.5
    assert str(CriticalScale(1e-4, 2e-4)) == "0.0001 to 0.0002"


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="smallest"):
        critical_scale(DATA, smallest=1.0, largest=0.5)
    with pytest.raises(sf.InvalidInputError, match="nothing to leave"):
        critical_scale(Dataset([[0.0, 1.0], [1.0, 1.0]], [1.0, 2.0]))
    with pytest.raises(sf.InvalidInputError, match="init"):
        critical_scale(DATA, "he_knots")
