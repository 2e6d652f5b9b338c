import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.projections.polar import PolarAxes
from matplotlib.text import Text

from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.figures.renderer import draw
from tests.reporting.samples import figure, panel


def drawn(panel: Panel) -> Axes:
    canvas = draw(figure(panel))
    canvas.draw_without_rendering()
    return canvas.axes[0]


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_curves_are_drawn_where_the_data_are() -> None:
    x, y = np.array([1.0, 2.0, 4.0]), np.array([3.0, -1.0, 2.0])
    line = drawn(Panel((Series(x, y),))).get_lines()[0]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([x, y]))


def test_what_a_log_axis_cannot_show_leaves_a_gap() -> None:
    axes = drawn(
        Panel((Series([0.0, 1.0, 10.0, 100.0], [1.0, 0.0, 0.5, -2.0]),), x_scale="log", y_scale="log")
    )
    x, y = np.asarray(axes.get_lines()[0].get_xydata()).T
    np.testing.assert_array_equal(x, [np.nan, 1.0, 10.0, 100.0])
    np.testing.assert_array_equal(y, [1.0, np.nan, 0.5, np.nan])
    assert axes.get_xlim()[0] > 0
    assert axes.get_ylim()[0] > 0


def test_axes_say_when_there_is_nothing_to_show() -> None:
    assert "no data to show" in texts(drawn(Panel((Series([], [], "empty"),))))
    assert "no data to show" in texts(drawn(Panel((Series([1, 2], [0, -1]),), y_scale="log")))
    assert "no data to show" not in texts(drawn(panel()))


def test_bands_lie_between_their_edges() -> None:
    x = np.linspace(0.0, 1.0, 5)
    axes = drawn(Panel((Series(x, x, band=(x - 1, x + 2)),)))
    (band,) = (c for c in axes.collections if isinstance(c, PolyCollection))
    vertices = np.asarray(band.get_paths()[0].vertices)
    for point in x:
        assert set(vertices[vertices[:, 0] == point, 1]) == {point - 1, point + 2}


def test_a_band_down_to_zero_keeps_a_log_axis_on_its_data() -> None:
    x = np.array([1.0, 2.0, 3.0])
    axes = drawn(Panel((Series(x, x, band=(np.zeros(3), 2 * x)),), y_scale="log"))
    low, high = axes.get_ylim()
    assert 0.1 < low < 1
    assert 6 <= high < 60


def test_marks_are_lines_with_flags_in_rows_that_do_not_overlap() -> None:
    axes = drawn(panel(marks=((2.0, "a long label"), (2.2, "another label"), (9.0, "far"))))
    ends = [tuple(np.asarray(line.get_xdata())) for line in axes.get_lines()]
    assert [(x, x) in ends for x in (2.0, 2.2, 9.0, 3.0)] == [True, True, True, False]
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # of the text alone, without its pole
    assert len(boxes) == 3
    for i, first in enumerate(boxes):
        assert not any(first.overlaps(second) for second in boxes[:i])
        assert first.y0 >= axes.get_window_extent().y1


@pytest.mark.parametrize(
    "changes",
    [
        {"marks": ((0.0, "zero"), (-1.0, "negative"), (np.nan, "nan")), "x_scale": "log"},
        {"marks": ((7.0, "outside"),), "x_limits": (0.0, 5.0)},
    ],
)
def test_marks_that_cannot_be_shown_are_left_out(changes: dict[str, object]) -> None:
    assert texts(drawn(panel(**changes))) == []


def test_limits_are_kept_and_a_log_axis_ignores_a_bound_below_zero() -> None:
    axes = drawn(panel(x_limits=(0.0, 5.0), y_limits=(-1.0, 3.0)))
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 5.0), (-1.0, 3.0))
    low, high = drawn(panel(x_limits=(0.0, 5.0), x_scale="log")).get_xlim()
    assert low > 0
    assert high == 5.0


def test_texts_are_taken_literally() -> None:
    axes = drawn(Panel((Series([1, 2], [1, 2]),), title="costs $5 or $\\frac", x_label="_x"))
    # matplotlib draws "\$" as a dollar sign; an unescaped pair would be a formula, and this one would raise.
    assert axes.get_title(loc="left") == "costs \\$5 or \\$\\frac"
    assert axes.get_xlabel().strip() == "_x"


def test_a_single_point_of_a_line_is_visible() -> None:
    assert drawn(Panel((Series([1.0], [1.0]),))).get_lines()[0].get_marker() == "o"
    assert drawn(Panel((Series([1.0, 2.0], [1.0, 1.0]),))).get_lines()[0].get_marker() == "None"


def test_named_ticks_and_headings_take_the_place_of_numbers() -> None:
    series = (Series([0, 1], [-1, 2]),)
    axes = drawn(
        Panel(series, headings=((0.5, "middle"),), y_ticks=((-1.0, "data"), (2.0, "two")), x_ticks=())
    )
    assert [text.get_text() for text in axes.get_yticklabels()] == ["data", "two"]
    assert list(axes.get_xticks()) == []
    assert [text.get_text() for text in axes.texts] == ["middle"]


ANGLES = np.linspace(0.0, np.pi, 40)
NORMS = np.linspace(0.0, 0.8, 40)


def drawn_polar(**changes: object) -> PolarAxes:
    cloud = Series(ANGLES, 1.0 + NORMS, "neurons", style="points")
    canvas = draw(figure(Panel((cloud,), polar=True, inner=1.0, **changes)))  # type: ignore[arg-type]
    canvas.draw_without_rendering()
    axes = canvas.axes[0]
    assert isinstance(axes, PolarAxes)
    return axes


def test_points_lie_at_their_angle_and_radius() -> None:
    line = drawn_polar().get_lines()[0]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([ANGLES, 1.0 + NORMS]))


def test_the_inner_circle_is_drawn_at_norm_zero() -> None:
    circles = [line for line in drawn_polar().get_lines() if np.all(np.asarray(line.get_ydata()) == 1.0)]
    assert len(circles) == 1
    angles = np.asarray(circles[0].get_xdata())
    assert angles[0] == 0
    assert angles[-1] == 2 * np.pi


def test_radial_labels_say_norms_and_stand_where_no_points_are() -> None:
    axes = drawn_polar(marks=((4.0, "x₁"),))
    norms = {float(t.get_text()): t.get_position() for t in axes.texts if t.get_text() != "x₁"}
    assert len(norms) >= 2
    for norm, (angle, radius) in norms.items():
        assert np.isclose(radius, 1.0 + norm)
        assert angle % (2 * np.pi) > np.pi  # the points fill the upper half
        assert abs(angle % (2 * np.pi) - 4.0) > np.pi / 16


def test_everything_fits_inside_the_outer_circle() -> None:
    assert drawn_polar().get_ylim() == (0.0, 1.06 * 1.8)
    assert drawn_polar(y_limits=(0.0, 5.0)).get_ylim() == (0.0, 5.0)


def test_marks_are_rays_from_the_inner_circle_outwards() -> None:
    axes = drawn_polar(marks=((0.5, "x₁"), (2.0, ""), (np.nan, "nowhere")))
    rays = [line.get_xydata() for line in axes.get_lines() if len(np.asarray(line.get_xdata())) == 2]
    high = axes.get_ylim()[1]
    np.testing.assert_array_equal(rays, [[[0.5, 1.0], [0.5, high]], [[2.0, 1.0], [2.0, high]]])
    assert "x₁" in [text.get_text() for text in axes.texts]
    assert "nowhere" not in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_boxes_are_the_quartiles_of_what_shares_an_x(scale: str) -> None:
    values = np.arange(1.0, 10.0)
    x, y = np.repeat([0.01, 1.0], 9), np.concatenate([values, 10 * values])
    axes = drawn(Panel((Series(x, y, "spread", style="boxes"),), x_scale=scale))
    flat = [np.unique(np.asarray(line.get_ydata())) for line in axes.get_lines()]
    medians = {float(one[0]) for one in flat if len(one) == 1}
    assert {5.0, 50.0} <= medians
    boxes = {tuple(one) for one in flat if len(one) == 2}
    assert {(3.0, 7.0), (30.0, 70.0)} <= boxes


def test_points_have_bars() -> None:
    axes = drawn(Panel((Series([1.0, 2.0], [3.0, 4.0], style="points", band=([2.0, 3.5], [5.0, 4.5])),)))
    (bars,) = axes.collections
    ends = [np.asarray(path.vertices).tolist() for path in bars.get_paths()]
    assert ends == [[[1.0, 2.0], [1.0, 5.0]], [[2.0, 3.5], [2.0, 4.5]]]


def test_a_square_panel_is_square() -> None:
    box = drawn(Panel((Series([0.0, 9.0], [0.0, 1.0]),), square=True)).get_window_extent()
    assert box.width == pytest.approx(box.height)
