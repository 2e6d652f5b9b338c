"""The measured critical scale, against flows on both sides of it."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.critical_scale import (
    CriticalScale,
    Transition,
    critical_scale,
    line_test,
    transition_in_epsilon,
)

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


def test_progress_counts_flows() -> None:
    done = list[float]()
    stays = line_test(DATA, "balanced", width=10, seed=0, until=50.0, progress=done.append)
    assert stays(1e-7)
    assert done == sorted(done)
    assert done[-1] == 1.0
    stays(1.0)
    assert 1.0 <= min(done[done.index(1.0) + 1 :]) < done[-1] == 2.0


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


def test_a_transition_in_epsilon_lies_between_a_flow_that_follows_and_one_that_does_not() -> None:
    """Four knots on a sine from four starts; the verdicts at the ends are worked out again here."""
    curve = sf.data.GENERATORS["curve"]("sin_pi", 20)
    starts = [
        sf.KnotNetwork(np.sort(np.random.default_rng(seed).uniform(-1.5, 1, 4)), np.zeros(4))
        for seed in range(4)
    ]
    found = transition_in_epsilon(starts, curve, until=1.0, halvings=4)
    assert any(one.found for one in found.starts)
    for network, one in zip(starts, found.starts, strict=True):
        limit = sf.two_timescale_limit(network, curve, until=1.0)
        late = 10 * sf.landscape.timescales(network, curve).fast_time
        for epsilon, follows in ((one.low, True), (one.high, False)):
            if 0 < epsilon < np.inf:
                until = 1.0 / epsilon + late
                loss = sf.gradient_flow(network, curve, until=until, epsilon=epsilon).losses[-1]
                assert (loss <= limit.losses[-1] + 0.05 * limit.losses[0]) == follows
        if one.found:
            assert one.high / one.low == pytest.approx(10 ** (4 / 16))
    assert all(
        ratio <= one.high or one.low == 0 for ratio, one in zip(found.suggested, found.starts, strict=True)
    )


def test_steps_follow_the_limit_if_they_find_its_jumps() -> None:
    target = sf.PiecewiseConstant([0.3, 0.6], [0.0, 2.0, 1.0])
    starts = [sf.initialize.uniform_positions(8, sharpness=0.02, seed=seed) for seed in range(2)]
    found = transition_in_epsilon(starts, target, until=2.0, smallest=1e-3, largest=0.1, halvings=1)
    assert found.share(1e-3) == (1.0, 1.0)
    for network in starts:
        flow = sf.population_flow(network, target, until=2e3, epsilon=1e-3)
        assert isinstance(flow.final, sf.StepNetwork)
        assert np.all(sf.landscape.jump_distances(flow.final, target) <= 0.02)


def test_shares_of_starts_are_enclosed() -> None:
    ends = (CriticalScale(0.1, 0.2), CriticalScale(1.0, np.inf), CriticalScale(0.0, 1e-3))
    found = Transition(ends, (0.01, 0.02, 1e-4))
    assert found.share(0.15) == (1 / 3, 2 / 3)
    assert found.share(1e-3) == (2 / 3, 2 / 3)
    assert (found.median.low, found.median.high) == (0.1, 0.2)
    assert found.text().splitlines()[0] == "half of 3 starts follow the limit up to ε = 0.1 to 0.2"
    with pytest.raises(sf.InvalidInputError, match="starts: must be at least one network"):
        transition_in_epsilon([], DATA, until=1.0)
    with pytest.raises(sf.InvalidInputError, match="smallest: must be below largest"):
        transition_in_epsilon([sf.KnotNetwork([0.0], [0.0])], DATA, until=1.0, smallest=1.0, largest=0.5)
