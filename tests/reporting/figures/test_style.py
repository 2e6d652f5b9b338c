"""The palette, checked with the colour-vision model of Machado, Oliveira & Fernandes (2009), severity 1."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray

from shallowflow.experiments.figure import TONES
from shallowflow.reporting.figures.style import COLOURS, CYCLE, PAPER, STYLE

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
