from pathlib import Path

import numpy as np
import pytest

from shallowflow.data import Dataset
from shallowflow.estimators import Pieces
from shallowflow.reporting.figures.runs import LARGEST_CLOUD, fit_figure, write_fit_figure

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
    write_fit_figure(ROOF, DATA, tmp_path / f"fit.{ending}")
    start = (tmp_path / f"fit.{ending}").read_bytes()[:500]
    assert start.startswith(b"\x89PNG") if ending == "png" else b"<svg" in start
    line = Pieces([], [1.0], [1.0], [0.0], low=1.0, high=1.0)
    write_fit_figure(line, Dataset([[1.0]], [1.0]), tmp_path / "point.png")
    assert (tmp_path / "point.png").is_file()
