from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data import Dataset
from shallowflow.data.generators import curve, orthonormal, sphere, three_points
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
from shallowflow.estimators import Pieces
from shallowflow.models import KnotNetwork, Network, ReLUNetwork, SquareLoss
from shallowflow.reporting.figures.renderer import write_figure
from shallowflow.reporting.figures.runs import (
    FRAMES,
    LARGEST_CLOUD,
    animate_run,
    eventful_times,
    fit_figure,
    plot_run,
    run_animation,
    run_figure,
)


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


def test_in_space_the_neurons_are_shown_beside_the_loss() -> None:
    space = ReLUNetwork([[1.0, 0.0, 2.0], [0.0, np.exp(1.0), 0.0], [0.0, 0.0, 0.0]], [1.0, -1.0, 1.0])
    figure = run_figure(trajectory(space, space, [0.0, 1.0]), Dataset([[1.0, 2.0, 1.0]], [1.0]))
    assert [panel.title for panel in figure.panels] == ["Loss", "Neurons at the end"]
    positive, negative = figure.panels[1].series
    np.testing.assert_allclose(positive.x, [0.5 * np.log(5), -np.inf])
    np.testing.assert_allclose([negative.x, negative.y], [[1.0], [0.0]])


@pytest.mark.parametrize(
    ("times", "scale"), [([0.0, 1.0, 2.0, 3.0], "linear"), ([0.0, 1e-3, 1.0, 10.0], "log")]
)
def test_long_runs_have_a_logarithmic_time_axis(times: list[float], scale: str) -> None:
    assert run_figure(trajectory(*KNOTS, times=times), Dataset([[1.0]], [1.0])).panels[0].x_scale == scale


def test_the_file_has_the_format_of_its_ending(tmp_path: Path) -> None:
    run = trajectory(*KNOTS, times=[0.0, 1.0])
    for name, start in (("run.PNG", b"\x89PNG"), ("run.svg", b"<?xml")):
        plot_run(run, Dataset([[1.0]], [1.0]), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(sf.InvalidInputError, match="format: must be one of svg, png; got 'pdf'"):
        plot_run(run, path=tmp_path / "run.pdf")
    assert isinstance(plot_run(run), matplotlib.figure.Figure)


ALL_KINDS: dict[str, tuple[Network, Dataset | sf.PiecewiseConstant]] = {
    "in the plane": (sf.initialize.balanced(5, 2, seed=0), sphere(4, 2)),
    "in space": (sf.initialize.balanced(5, 3, seed=0), sphere(4, 3)),
    "log-scaled": (sf.initialize.log_scaled(4, 6, log_scale=-800.0, seed=0), orthonormal(6)),
    "knots": (sf.initialize.he_knots(4, seed=0), curve(size=9)),
    "steps": (
        sf.initialize.uniform_positions(4, sharpness=0.05, seed=0),
        sf.PiecewiseConstant([0.5], [0.0, 1.0]),
    ),
    "cuboids": (sf.initialize.uniform_cuboids(3, 2, sharpness=0.1, seed=0), sphere(4, 2)),
}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_run_of_any_network_can_be_shown_without_its_data(kind: str, tmp_path: Path) -> None:
    network, data = ALL_KINDS[kind]
    if isinstance(data, Dataset):
        run = sf.gradient_descent(network, data, step=0.01, steps=5)
    else:
        assert isinstance(network, sf.StepNetwork)
        run = sf.population_flow(network, data, until=0.1)
    loss, neurons = run_figure(run).panels
    assert loss.series[0].y.tolist() == run.losses.tolist()
    assert sum(len(series.x) for series in neurons.series if series.style == "points") == network.outer.size
    assert isinstance(plot_run(run), matplotlib.figure.Figure)
    frames = run_animation(run).frames
    assert [panel.polar for panel in frames[0].panels] == [False, kind == "in the plane"]
    limits = {(frame.panels[1].x_limits, frame.panels[1].y_limits) for frame in frames}
    assert len(limits) == 1
    animate_run(run, path=tmp_path / "run.gif")
    assert (tmp_path / "run.gif").read_bytes().startswith(b"GIF")


def test_a_film_shows_itself_in_a_notebook() -> None:
    network, data = ALL_KINDS["knots"]
    assert isinstance(data, Dataset)
    film = animate_run(sf.gradient_descent(network, data, step=0.01, steps=3), data)
    assert film is not None
    assert len(film.pictures) == 4
    shown = film._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown  # escaped: it runs in the frame only


def test_what_is_no_run_is_refused() -> None:
    run = trajectory(*KNOTS, times=[0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match="trajectory: must be a Trajectory"):
        plot_run(KNOTS[0])  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="dataset: must be a Dataset"):
        animate_run(run, [1.0])  # type: ignore[arg-type]


def test_frames_are_where_the_run_changes() -> None:
    network = sf.initialize.balanced(6, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(network, three_points(), until=2000.0)
    times = eventful_times(run, 30)
    assert times[0] == 0
    assert times[-1] == 2000
    # The last nine tenths of the run are spent at its limit: few frames show them.
    assert 10 < len(times) <= 30
    assert np.sum(times > 200) <= 5


def test_the_loss_is_sampled_between_recorded_times() -> None:
    data = curve(size=9)
    run = sf.gradient_flow(sf.initialize.he_knots(4, seed=0), data, until=1.0)
    drawn = run_figure(run, data, SquareLoss()).panels[0].series[0]
    assert len(drawn.x) > 100
    assert np.all(np.diff(drawn.x) >= 0)
    k = len(drawn.x) // 2
    residual = run(float(drawn.x[k]))(data.inputs) - data.targets
    np.testing.assert_allclose(drawn.y[k], 0.5 * np.mean(residual**2), rtol=1e-9)


def test_a_run_in_the_plane_shows_function_and_neurons() -> None:
    network = sf.initialize.balanced(6, 2, init_scale=0.1, seed=0)
    flow = run_animation(sf.gradient_flow(network, three_points(), until=3.0), three_points())
    assert [panel.polar for panel in flow.frames[0].panels] == [False, True]
    assert flow.labels[0] == "t = 0"
    assert flow.labels[-1] == "t = 3"
    assert 10 < len(flow.frames) <= FRAMES
    radii = [
        max(
            float(series.y.max())
            for series in frame.panels[1].series
            if series.style == "points" and len(series.y)
        )
        for frame in flow.frames
    ]
    assert max(radii) == pytest.approx(2.0)  # one radial scale: the largest norm of all times
    assert radii[0] < 1.5
    descent = sf.gradient_descent(network, three_points(), step=0.1, steps=5)
    assert len(run_animation(descent, three_points()).frames) == 6


def test_a_run_on_the_line_shows_its_function_and_one_in_space_loss_and_neurons() -> None:
    knots = sf.gradient_flow(sf.initialize.he_knots(4, seed=0), curve(size=9), until=0.1)
    assert [panel.polar for panel in run_animation(knots, curve(size=9)).frames[0].panels] == [False]
    off_line = sphere(4, 2)
    plane = sf.gradient_flow(sf.initialize.balanced(3, 2, seed=0), off_line, until=0.1)
    assert [panel.polar for panel in run_animation(plane, off_line).frames[0].panels] == [True]
    space = sphere(4, 3)
    run = sf.gradient_flow(sf.initialize.balanced(3, 3, seed=0), space, until=0.1)
    frames = run_animation(run, space).frames
    assert [panel.title for panel in frames[-1].panels] == ["t = 0.1", "Neurons"]
    now = frames[-1].panels[0].series[1]
    assert (now.x[0], now.y[0]) == (0.1, run.losses[-1])


X = np.linspace(0, 2, 21)
DATA = Dataset(X[:, None], 1 - np.abs(X - 1) + 0.5 * (X == 1), name="roof")
ROOF = Pieces([1.0], [0.5, 1.5], [0.5, 0.5], [1.0, -1.0], low=0.0, high=2.0)


def test_the_figure_shows_data_corners_and_residuals() -> None:
    figure = fit_figure(ROOF, DATA)
    fit, rest = figure.panels
    data, line, knots = fit.series
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_allclose(line.x, [-0.06, 1.0, 2.06])
    np.testing.assert_allclose(line.y, [-0.06, 1.0, -0.06])
    assert (knots.x.tolist(), knots.y.tolist(), knots.label) == ([1.0], [1.0], "1 knot")
    residuals, _ = rest.series
    np.testing.assert_allclose(residuals.y, 0.5 * (X == 1), atol=1e-12)
    assert "roof" in figure.title


def test_knots_beyond_the_data_are_not_shown() -> None:
    far = Pieces([-9.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], low=0.0, high=2.0)
    _, line, knots = fit_figure(far, DATA).panels[0].series
    assert knots.x.tolist() == [1.0]
    assert line.x.min() > -1


def test_of_many_points_some_are_drawn() -> None:
    x = np.linspace(0, 2, 3 * LARGEST_CLOUD)
    figure = fit_figure(ROOF, Dataset(x[:, None], x))
    assert len(figure.panels[0].series[0].x) == LARGEST_CLOUD


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_is_written(ending: str, tmp_path: Path) -> None:
    write_figure(fit_figure(ROOF, DATA), tmp_path / f"fit.{ending}")
    start = (tmp_path / f"fit.{ending}").read_bytes()[:500]
    assert start.startswith(b"\x89PNG") if ending == "png" else b"<svg" in start
    line = Pieces([], [1.0], [1.0], [0.0], low=1.0, high=1.0)
    write_figure(fit_figure(line, Dataset([[1.0]], [1.0])), tmp_path / "point.png")
    assert (tmp_path / "point.png").is_file()
