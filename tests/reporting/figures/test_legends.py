import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend

from shallowflow.arrays import Floats
from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.figures.renderer import draw
from tests.reporting.samples import figure


def drawn(*panels: Panel) -> Canvas:
    canvas = draw(figure(*panels))
    canvas.draw_without_rendering()
    return canvas


def labels(legend: Legend | None) -> list[str]:
    return [text.get_text().strip() for text in legend.get_texts()] if legend else []


def square(n: int) -> tuple[Floats, Floats]:
    """A grid of n × n points that fills the panel."""
    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n))
    return x.ravel(), y.ravel()


def corner_left_free(corner: tuple[bool, bool]) -> Series:
    x, y = square(40)
    free = ((x > 0.55) == corner[0]) & ((y > 0.6) == corner[1])
    return Series(x[~free], y[~free], "points", style="points")


CORNERS = ((True, True), (True, False), (False, True), (False, False))
CLOUDS = {f"free corner {corner}": corner_left_free(corner) for corner in CORNERS}
CLOUDS["nothing free"] = Series(*square(40), "points", style="points")


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("scale", ["linear", "symlog"])
def test_a_legend_hides_no_point(cloud: str, scale: str) -> None:
    series = CLOUDS[cloud]
    canvas = drawn(Panel((series,), y_scale=scale))
    (axes,) = canvas.axes
    legend = canvas.legends[0] if cloud == "nothing free" else axes.get_legend()
    assert labels(legend) == ["points"]
    assert legend is not None
    box = legend.get_window_extent()
    x, y = axes.transData.transform(np.column_stack([series.x, series.y])).T
    assert not np.any((box.x0 < x) & (x < box.x1) & (box.y0 < y) & (y < box.y1))
    assert axes.get_window_extent().fully_containsx(box.x0)


def test_a_legend_avoids_lines_between_their_points() -> None:
    # Two vertices only: the diagonals of the panel leave the four corners taken and the middles free.
    diagonals = (Series([0, 1], [0, 1], "up"), Series([0, 1], [1, 0], "down"))
    (axes,) = drawn(Panel(diagonals, x_limits=(0, 1), y_limits=(0, 1))).axes
    legend = axes.get_legend()
    assert legend is not None
    box = legend.get_window_extent().transformed(axes.transAxes.inverted())
    share = np.linspace(0, 1, 2001)
    for x, y in ((share, share), (share, 1 - share)):
        assert not np.any((box.x0 < x) & (x < box.x1) & (box.y0 < y) & (y < box.y1))


def test_fixed_limits_are_kept_and_the_legend_goes_below() -> None:
    panel = Panel((CLOUDS["nothing free"],), x_limits=(0, 1), y_limits=(0, 1))
    canvas = drawn(panel)
    assert canvas.axes[0].get_ylim() == (0, 1)
    assert canvas.axes[0].get_legend() is None
    assert labels(canvas.legends[0]) == ["points"]
    assert canvas.legends[0].get_window_extent().y1 < canvas.axes[0].get_window_extent().y0


def test_shared_labels_get_one_legend_below() -> None:
    panel = Panel((Series([1, 2], [1, 2], "flow"), Series([1, 2], [2, 1], "limit", style="dashed")))
    canvas = drawn(panel, panel)
    assert [labels(legend) for legend in canvas.legends] == [["flow", "limit"]]
    assert all(axes.get_legend() is None for axes in canvas.axes)


def test_one_look_with_two_meanings_gets_a_legend_in_each_panel() -> None:
    canvas = drawn(Panel((Series([1, 2], [1, 2], "loss"),)), Panel((Series([1, 2], [1, 2], "norm"),)))
    assert [labels(axes.get_legend()) for axes in canvas.axes] == [["loss"], ["norm"]]
    assert canvas.legends == []


def test_series_without_label_or_data_have_no_entry() -> None:
    panel = Panel((Series([1, 2], [1, 2]), Series([], [], "empty"), Series([1, 2], [0, 1], "_kept")))
    assert labels(drawn(panel).axes[0].get_legend()) == ["_kept"]
    assert drawn(Panel((Series([1, 2], [1, 2]),))).axes[0].get_legend() is None


def test_polar_legends_stay_outside_the_circle() -> None:
    around = np.linspace(0, 2 * np.pi, 50)
    polar = Panel((Series(around, np.ones(50), "neurons"),), polar=True)
    canvas = drawn(polar, Panel((Series([1, 2], [1, 2], "loss"),)))
    legend = canvas.axes[0].get_legend()
    assert legend is not None
    assert legend.get_window_extent().y1 <= canvas.axes[0].get_window_extent().y0


def test_marks_are_named_in_the_legend() -> None:
    panel = Panel((Series([1, 2], [1, 2], "loss"),), marks=((1.5, ""),), marks_label="jump")
    assert labels(drawn(panel).axes[0].get_legend()) == ["loss", "jump"]
