import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.figure import SCALES, Panel, Series
from shallowflow.reporting.figures.panels import COLOURS, CYCLE
from shallowflow.reporting.figures.renderer import draw, render, render_all
from tests.reporting.samples import HOSTILE, figure, panel

PNG = b"\x89PNG\r\n\x1a\n"
GAPS = Series([0, 1, np.nan, 3], [np.inf, 1, 2, -np.inf], band=([0, np.nan, 0, 0], [1, 2, np.inf, 4]))
KINDS = {
    **{scale: panel(x_scale=scale, y_scale=scale) for scale in SCALES},
    "polar with an inner circle": panel(polar=True, inner=1.0, marks=((0.3, "x₁"), (2.0, ""))),
    "polar on a logarithmic radius": panel(polar=True, y_scale="log", marks=((0.3, "x₁"),)),
    "polar without data": Panel((Series([], []),), polar=True, inner=1.0),
    "marked": panel(marks=((2.0, "first"), (2.1, "second"), (9.0, ""))),
    "limited on log axes": panel(x_limits=(0, 5), y_limits=(-1, 3), x_scale="log", y_scale="log"),
    "without series": Panel(()),
    "with an empty series": Panel((Series([], [], "empty"), Series([1, 2], [3, 4], "full"))),
    "with zeros on a log axis": Panel((Series([0, 1, 2], [0, -1, 3]),), x_scale="log", y_scale="log"),
    "with nothing positive on a log axis": Panel((Series([1, 2], [0, -1], "none"),), y_scale="log"),
    "all zero on a symlog axis": Panel((Series([1, 2], [0, 0]),), y_scale="symlog"),
    "with NaN and infinities": Panel((GAPS,)),
    "of one point": Panel((Series([1.0], [2.0], "one"),)),
    "constant": Panel((Series([1, 2, 3], [5, 5, 5], "flat"),), y_scale="log"),
    "hostile": Panel(
        (Series([1, 2], [1, 2], HOSTILE), Series([1, 2], [2, 1], "_hidden")),
        title=HOSTILE,
        x_label=HOSTILE,
        y_label=HOSTILE,
        marks=((1.5, HOSTILE),),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_panel_is_drawn_in_both_formats(kind: str) -> None:
    svg, png = render_all(figure(KINDS[kind]))
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert png.startswith(PNG)
    assert len(png) > 3_000


def test_a_figure_without_panels_is_drawn() -> None:
    assert render(figure(panels=()), "png").startswith(PNG)


def test_equal_figures_give_equal_bytes() -> None:
    assert render_all(figure()) == render_all(figure())


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"format: must be one of svg, png; got 'pdf'"):
        render(figure(), "pdf")


def test_settings_are_given_back_and_the_users_own_do_not_matter() -> None:
    small = figure(KINDS["constant"])
    expected = render(small)
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30}):
        before = dict(matplotlib.rcParams)
        assert render(small) == expected
        assert dict(matplotlib.rcParams) == before


def test_no_window_and_no_pyplot() -> None:
    code = (
        "import sys; from shallowflow.experiments.figure import Figure, Panel;"
        "from shallowflow.reporting.figures.renderer import render; render(Figure('', '', (Panel(()),)));"
        "assert 'matplotlib.pyplot' not in sys.modules and 'tkinter' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_panels_fill_rows() -> None:
    axes = draw(figure(*[panel() for _ in range(5)], columns=3)).axes
    places = [pair.get_subplotspec() for pair in axes]
    assert [(p.rowspan.start, p.colspan.start) for p in places if p] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    ]


def test_automatic_tones_are_distinct_and_leave_out_the_named_ones() -> None:
    named = Series([1, 2], [1, 2], tone=CYCLE[0])
    automatic = [Series([1, 2], [k, k]) for k in range(len(CYCLE) - 1)]
    lines = draw(figure(Panel((automatic[0], named, *automatic[1:])))).axes[0].get_lines()
    assert sorted(to_hex(line.get_color()) for line in lines) == sorted(COLOURS[tone] for tone in CYCLE)


def test_more_series_than_tones_are_drawn_in_a_cycle() -> None:
    lines = draw(figure(Panel(tuple(Series([1, 2], [k, k]) for k in range(8))))).axes[0].get_lines()
    assert lines[0].get_color() == lines[len(CYCLE)].get_color()


def test_equal_labels_share_a_tone_across_panels() -> None:
    first = Panel((Series([1, 2], [1, 2], "flow"), Series([1, 2], [2, 1], "descent")))
    second = Panel((Series([1, 2], [2, 1], "descent"), Series([1, 2], [1, 2], "flow")))
    one, two = (axes.get_lines() for axes in draw(figure(first, second)).axes)
    assert [line.get_color() for line in one] == [line.get_color() for line in reversed(two)]


def test_large_clouds_become_pixels_and_small_ones_stay_shapes() -> None:
    rng = np.random.default_rng(0)
    cloud, few = rng.standard_normal((2, 200_000)), rng.standard_normal((2, 50))
    large = render(figure(Panel((Series(cloud[0], cloud[1], "cloud", style="points"),))))
    assert b"<image" in large
    assert len(large) < 1_000_000
    assert b"<image" not in render(figure(Panel((Series(few[0], few[1], style="points"),))))


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
