"""The palette, checked with the colour-vision model of Machado, Oliveira & Fernandes (2009), severity 1."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from numpy.typing import NDArray

from shallowflow.experiments.figure import TONES, Panel, Series
from shallowflow.reporting.figures.panels import COLOURS, CYCLE, PAPER, STYLE
from shallowflow.reporting.figures.renderer import draw
from tests.reporting.samples import figure

BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> NDArray[np.float64]:
    channels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    t = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_tone_has_a_colour() -> None:
    assert set(COLOURS) == set(TONES) - {"auto"}
    assert set(CYCLE) <= set(COLOURS)


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_of_the_cycle_stay_apart_for_colour_blind_eyes(kind: str) -> None:
    seen = {tone: lab(np.array(BLINDNESS[kind]) @ linear(COLOURS[tone])) for tone in CYCLE}
    for first, second in combinations(CYCLE, 2):
        # A difference of 2.3 is just noticeable; lines in a talk need several times that.
        assert np.linalg.norm(seen[first] - seen[second]) > 9, (first, second)


def test_text_is_readable_on_paper() -> None:
    def luminance(colour: str) -> float:
        return float(TO_XYZ[1] @ linear(colour))

    for tone, least in (("ink", 12.0), ("muted", 3.0)):  # contrast ratios of WCAG 2
        assert (luminance(PAPER) + 0.05) / (luminance(COLOURS[tone]) + 0.05) > least


def test_matplotlib_knows_every_setting() -> None:
    assert [name for name in STYLE if name not in matplotlib.rcParams] == []


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
