import numpy as np
import pytest
from matplotlib.axes import Axes

from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.figures.renderer import draw
from tests.reporting.samples import figure


def drawn(y: list[float], scale: str) -> Axes:
    canvas = draw(figure(Panel((Series(np.arange(1.0, len(y) + 1), y),), y_scale=scale)))
    canvas.draw_without_rendering()
    return canvas.axes[0]


def labels(axes: Axes) -> list[str]:
    low, high = axes.get_ylim()
    return [text.get_text() for text in axes.get_yticklabels() if low <= text.get_position()[1] <= high]


def test_short_log_axes_are_labelled_in_plain_numbers() -> None:
    assert labels(drawn([0.02, 0.5], "log")) == ["0.02", "0.05", "0.1", "0.2", "0.5"]
    assert labels(drawn([0.09, 0.31], "log")) == ["0.1", "0.2", "0.3"]


@pytest.mark.parametrize("y", [[1.0, 1.05], [3.0, 3.3], [5.0, 5.0]])
def test_very_short_log_axes_have_at_least_two_labels(y: list[float]) -> None:
    assert len(labels(drawn(y, "log"))) >= 2


def test_long_log_axes_are_labelled_at_powers_of_ten_only() -> None:
    axes = drawn([1e-9, 1.0], "log")
    assert all("10^" in text and "times" not in text for text in labels(axes))
    assert len(axes.yaxis.get_minorticklocs()) == 0


def test_symlog_axes_show_zero_and_a_few_decades_of_both_signs() -> None:
    axes = drawn([-1e3, -1e-2, 0.0, 1e-3, 1e2], "symlog")
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 0.0 in ticks
    assert 4 <= len(ticks) <= 7
    assert any(tick > 0 for tick in ticks)
    assert any(tick < 0 for tick in ticks)
    positions = np.sort(axes.transData.transform([(1.0, tick) for tick in ticks])[:, 1])
    assert np.diff(positions).min() > 14  # pixels at 100 dots per inch: labels don't touch


def test_a_symlog_axis_resolves_its_smallest_value() -> None:
    axes = drawn([0.0, 1e-3, 1.0], "symlog")
    zero, small, one = axes.transData.transform([(1.0, y) for y in (0.0, 1e-3, 1.0)])[:, 1]
    assert (small - zero) / (one - zero) > 0.1
