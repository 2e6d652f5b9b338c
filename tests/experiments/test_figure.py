"""Figures are plain data: checked when they are made, not when they are drawn."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shallowflow.errors import InvalidInputError
from shallowflow.experiments.experiment import Claim
from shallowflow.experiments.figure import SCALES, STYLES, TONES, Figure, Panel, Series


def test_a_series_copies_and_freezes() -> None:
    x, y, low, high = (np.array([1.0, 2.0]) for _ in range(4))
    series = Series(x, y, "loss", style="points", tone="blue", size=2, band=(low, high))
    for array in (x, y, low, high):
        array[:] = 9.0
    for values in (series.x, series.y, series.low, series.high):
        assert values is not None
        assert values.tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.0
    assert (series.label, series.style, series.tone, series.size) == ("loss", "points", "blue", 2.0)
    with pytest.raises(AttributeError, match="cannot assign to field 'x'"):
        series.x = x  # type: ignore[misc]


def test_a_series_may_have_gaps_and_may_be_empty() -> None:
    series = Series([0, 1, 2], [1.0, np.nan, np.inf])
    np.testing.assert_array_equal(series.y, [1.0, np.nan, np.inf])
    assert (series.low, series.high) == (None, None)
    assert Series([], []).x.size == 0


def test_every_style_tone_and_scale_is_taken() -> None:
    for style in STYLES:
        assert Series([0], [1], style=style).style == style
    for tone in TONES:
        assert Series([0], [1], tone=tone).tone == tone
    for scale in SCALES:
        assert Panel((), x_scale=scale, y_scale=scale).x_scale == scale


BAD_SIZE: Any = "big"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Series([0, 1], [1]), r"^x, y: must have equal lengths, got 2 and 1$"),
        (lambda: Series([[0]], [1]), r"^x: must have 1 axis, got shape \(1, 1\)$"),
        (lambda: Series(["a"], [1]), r"^x: must be an array of numbers, got \['a'\]$"),
        (lambda: Series([0], 1.0), r"^y: must have 1 axis, got shape \(\)$"),
        (
            lambda: Series([0], [1], band=([0, 1], [1])),
            r"^x, band\[0\]: must have equal lengths, got 1 and 2$",
        ),
        (lambda: Series([0], [1], band=([0], [])), r"^x, band\[1\]: must have equal lengths, got 1 and 0$"),
        (lambda: Series([0], [1], style="dots"), r"^style: must be one of line, .*; got 'dots'$"),
        (lambda: Series([0], [1], tone="mauve"), r"^tone: must be one of auto, .*; got 'mauve'$"),
        (lambda: Series([0], [1], size=0), r"^size: must be > 0, got 0$"),
        (lambda: Series([0], [1], size=BAD_SIZE), r"^size: must be a number, got 'big'$"),
        (lambda: Panel((), x_scale="cubic"), r"^x_scale: must be one of linear, log, symlog; got 'cubic'$"),
        (
            lambda: Panel((), y_scale="logit"),
            r"^y_scale: must be one of linear, log, symlog; got 'logit'; did you mean log\?$",
        ),
        (lambda: Figure("f", "t", (), columns=0), r"^columns: must be >= 1, got 0$"),
    ],
)
def test_borders(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def figure(height: float) -> Figure:
    series = Series([0.0, 1.0], [0.0, height], "a", band=([0, 0], [1, 1]))
    return Figure(
        "name", "A title", (Panel((series,), marks=((0.5, "here"),)), Panel((), polar=True)), notes=("n",)
    )


def test_figures_are_values() -> None:
    assert figure(1.0) == figure(1.0)
    assert figure(1.0) != figure(2.0)
    for twin in (copy.deepcopy(figure(1.0)), pickle.loads(pickle.dumps(figure(1.0)))):
        assert twin == figure(1.0)
        assert not twin.panels[0].series[0].y.flags.writeable
    assert len(repr(Series(np.zeros(1000), np.zeros(1000), "loss"))) < 200


def test_a_claim_holds_as_a_plain_bool() -> None:
    """Reports count and write claims; a NumPy bool would add up to something JSON cannot hold."""
    claim = Claim("s", "p", "m", np.float64(1.0) < np.float64(2.0))  # type: ignore[arg-type]
    assert claim.holds is True
