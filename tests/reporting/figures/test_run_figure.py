from pathlib import Path

import numpy as np
import pytest

from shallowflow.data import Dataset
from shallowflow.dynamics.clock.paths import Snapshots, flatten
from shallowflow.dynamics.outcome import Outcome
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.models import KnotNetwork, Network, ReLUNetwork
from shallowflow.reporting.figures.runs import run_figure, write_run_figure


def trajectory(start: Network, end: Network, times: list[float]) -> Trajectory:
    path = Snapshots(start, np.array([0.0, times[-1]]), np.array([flatten(start), flatten(end)]))
    return Trajectory(np.array(times), np.linspace(1, 0.1, len(times)), path, (), Outcome("completed", ""))


KNOTS = (KnotNetwork([0.0], [1.0]), KnotNetwork([1.0], [3.0]))
PLANE = (ReLUNetwork([[1.0, 0.0]], [1.0]), ReLUNetwork([[3.0, -3.0]], [1.0]))


@pytest.mark.parametrize("networks", [KNOTS, PLANE])
def test_on_a_line_the_function_is_shown_before_and_after(networks: tuple[Network, Network]) -> None:
    data = Dataset([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0], name="three")
    data = data.with_bias() if networks is PLANE else data
    figure = run_figure(trajectory(*networks, times=[0.0, 1.0, 2.0]), data)
    loss, function = figure.panels
    np.testing.assert_array_equal(loss.series[0].y, [1.0, 0.55, 0.1])
    start, end, points = function.series
    np.testing.assert_allclose(start.y, np.maximum(start.x, 0))
    np.testing.assert_allclose(end.y, 3 * np.maximum(end.x - 1, 0))
    np.testing.assert_array_equal(points.y, data.targets)
    assert start.x.min() < 0
    assert start.x.max() > 2


def test_in_space_only_the_loss_is_shown() -> None:
    space = ReLUNetwork([[1.0, 0.0, 2.0]], [1.0])
    figure = run_figure(trajectory(space, space, [0.0, 1.0]), Dataset([[1.0, 2.0, 1.0]], [1.0]))
    assert [panel.title for panel in figure.panels] == ["Loss"]


@pytest.mark.parametrize(
    ("times", "scale"), [([0.0, 1.0, 2.0, 3.0], "linear"), ([0.0, 1e-3, 1.0, 10.0], "log")]
)
def test_long_runs_have_a_logarithmic_time_axis(times: list[float], scale: str) -> None:
    assert run_figure(trajectory(*KNOTS, times=times), Dataset([[1.0]], [1.0])).panels[0].x_scale == scale


def test_the_file_has_the_format_of_its_ending(tmp_path: Path) -> None:
    run = trajectory(*KNOTS, times=[0.0, 1.0])
    for name, start in (("run.PNG", b"\x89PNG"), ("run.svg", b"<?xml")):
        write_run_figure(run, Dataset([[1.0]], [1.0]), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
