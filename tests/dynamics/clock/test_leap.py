"""Small starts by the clock: the same run as by the flow, at any scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.errors import InvalidInputError

G = sf.data.GENERATORS
SQUARE = sf.SquareLoss()


@pytest.mark.parametrize("name", ["three_points", "stewart"])
@pytest.mark.parametrize("engine", ["cones", "walls"])
def test_times_are_those_of_the_whole_flow(name: str, engine: str) -> None:
    data = G[name]()
    start = sf.initialize.balanced(20, 2, init_scale=1e-4, seed=0)
    whole = sf.gradient_flow(start, data, until=25.0, engine="cones")
    found = sf.gradient_flow(start, data, until=25.0, engine=engine, leap=1e-3)
    assert found.times[0] > 5.0
    assert found.times[-1] == 25.0
    for fall in (0.9, 0.5):
        level = fall * whole.losses[0]
        grid = np.linspace(found.times[0], 25.0, 3001)
        moments = [
            next(t for t in grid.tolist() if SQUARE.value(run(t)(data.inputs), data.targets) <= level)
            for run in (whole, found)
        ]
        assert moments[1] == pytest.approx(moments[0], rel=1e-3)
    events = [event.time for event in found.events]
    assert min(events, default=25.0) >= found.times[0]


def test_scales_that_no_flow_would_wait_for_in_many_dimensions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = sf.Dataset(rng.standard_normal((12, 6)), rng.standard_normal(12))
    ends = []
    for scale in (1e-5, 1e-140):
        start = sf.initialize.balanced(8, 6, init_scale=scale, seed=0)
        clock = sf.landscape.exit_time(start, data, fall=0.01).time
        run = sf.gradient_flow(start, data, until=1.05 * clock, leap=1e-3)
        reached = float(np.interp(-0.99 * run.losses[0], -run.losses, run.times))
        assert reached == pytest.approx(clock, rel=0.01)
        ends.append(run.losses[0])
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)
    run.save(tmp_path / "run")
    again = sf.Trajectory.load(tmp_path / "run")
    assert again.times[0] == run.times[0]
    np.testing.assert_array_equal(again(float(run.times[-1])).outer, run.final.outer)


def test_the_speed_divides_the_leap() -> None:
    data = G["three_points"]()
    start = sf.initialize.balanced(20, 2, init_scale=1e-4, seed=0)
    runs = [
        sf.gradient_flow(start, data, until=20.0 / v, speed=v, leap=1e-3, engine="cones") for v in (1.0, 4.0)
    ]
    assert runs[1].times[0] == pytest.approx(runs[0].times[0] / 4)
    assert runs[1].losses[-1] == pytest.approx(runs[0].losses[-1], rel=1e-6)


def test_what_a_leap_refuses() -> None:
    data = G["three_points"]()
    start = sf.initialize.balanced(20, 2, init_scale=1e-4, seed=0)
    with pytest.raises(InvalidInputError, match="is for a balanced ReLUNetwork"):
        sf.gradient_flow(sf.initialize.dominated(5, 2, init_scale=0.1), data, until=1.0, leap=1e-3)
    with pytest.raises(InvalidInputError, match="must lie beyond the leap"):
        sf.gradient_flow(start, data, until=1.0, leap=1e-3)
    with pytest.raises(InvalidInputError, match="needs epsilon = 1"):
        sf.gradient_flow(start, data, until=30.0, leap=1e-3, epsilon=0.5)
    dead = sf.ReLUNetwork([[-1.0, -5.0]], [np.sqrt(26.0)])
    with pytest.raises(InvalidInputError, match="never falls"):
        sf.gradient_flow(dead, data, until=30.0, leap=1e-3)
