import numpy as np
from matplotlib.projections.polar import PolarAxes

from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.figures.renderer import draw
from tests.reporting.samples import figure

ANGLES = np.linspace(0.0, np.pi, 40)
NORMS = np.linspace(0.0, 0.8, 40)


def drawn(**changes: object) -> PolarAxes:
    cloud = Series(ANGLES, 1.0 + NORMS, "neurons", style="points")
    canvas = draw(figure(Panel((cloud,), polar=True, inner=1.0, **changes)))  # type: ignore[arg-type]
    canvas.draw_without_rendering()
    axes = canvas.axes[0]
    assert isinstance(axes, PolarAxes)
    return axes


def test_points_lie_at_their_angle_and_radius() -> None:
    line = drawn().get_lines()[0]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([ANGLES, 1.0 + NORMS]))


def test_the_inner_circle_is_drawn_at_norm_zero() -> None:
    circles = [line for line in drawn().get_lines() if np.all(np.asarray(line.get_ydata()) == 1.0)]
    assert len(circles) == 1
    angles = np.asarray(circles[0].get_xdata())
    assert angles[0] == 0
    assert angles[-1] == 2 * np.pi


def test_radial_labels_say_norms_and_stand_where_no_points_are() -> None:
    axes = drawn(marks=((4.0, "x₁"),))
    norms = {float(t.get_text()): t.get_position() for t in axes.texts if t.get_text() != "x₁"}
    assert len(norms) >= 2
    for norm, (angle, radius) in norms.items():
        assert np.isclose(radius, 1.0 + norm)
        assert angle % (2 * np.pi) > np.pi  # the points fill the upper half
        assert abs(angle % (2 * np.pi) - 4.0) > np.pi / 16


def test_everything_fits_inside_the_outer_circle() -> None:
    assert drawn().get_ylim() == (0.0, 1.06 * 1.8)
    assert drawn(y_limits=(0.0, 5.0)).get_ylim() == (0.0, 5.0)


def test_marks_are_rays_from_the_inner_circle_outwards() -> None:
    axes = drawn(marks=((0.5, "x₁"), (2.0, ""), (np.nan, "nowhere")))
    rays = [line.get_xydata() for line in axes.get_lines() if len(np.asarray(line.get_xdata())) == 2]
    high = axes.get_ylim()[1]
    np.testing.assert_array_equal(rays, [[[0.5, 1.0], [0.5, high]], [[2.0, 1.0], [2.0, high]]])
    assert "x₁" in [text.get_text() for text in axes.texts]
    assert "nowhere" not in [text.get_text() for text in axes.texts]
