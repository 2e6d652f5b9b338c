"""`Figure`: a plot as plain data. Drawing it is the business of `reporting`."""

from __future__ import annotations

from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    FrozenArrays,
    count,
    members,
    numbers,
    one_of,
    positive,
    same_length,
    shown,
)
from shallowflow.errors import InvalidInputError

STYLES = ("line", "dashed", "points", "steps", "crosses", "boxes")
SCALES = ("linear", "log", "symlog")
TONES = ("auto", "ink", "muted", "blue", "orange", "green", "pink", "sky", "red")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Series(FrozenArrays):
    """A curve or a cloud of points: x (k,), y (k,), how to draw it, and its legend label ("" for none).

    `low`/`high` (k,) draw a band around y, or a bar at each of its points; "boxes" shows the spread of the
    values y that share an x: quartiles and median, whiskers to 1.5 times the box, the rest as points. `tone`
    names a colour of the house palette, "auto" takes the next one; `size` scales line width or marker size.
    """

    x: Floats
    y: Floats
    label: str
    style: str
    tone: str
    size: float
    low: Floats | None
    high: Floats | None

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        label: str = "",
        *,
        style: str = "line",
        tone: str = "auto",
        size: float = 1.0,
        band: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        fields = self.__dict__
        fields["x"] = _column(x, "x")
        fields["y"] = _column(y, "y")
        fields["label"] = label
        fields["style"] = one_of(style, "style", STYLES)
        fields["tone"] = one_of(tone, "tone", TONES)
        fields["size"] = positive(size, "size")
        if band is not None and not (isinstance(band, tuple | list) and len(band) == 2):
            raise InvalidInputError(f"band: must be a pair (low, high), got {shown(band)}")
        fields["low"] = None if band is None else _column(band[0], "band[0]")
        fields["high"] = None if band is None else _column(band[1], "band[1]")
        same_length(self.x, self.y, "x, y")
        if self.low is not None and self.high is not None:
            same_length(self.x, self.low, "x, band[0]")
            same_length(self.x, self.high, "x, band[1]")


def _column(value: ArrayLike, name: str) -> Floats:
    """Return a vector in which NaN may mark gaps and infinity what lies beyond the axes."""
    return numbers(value, name, 1, allow_empty=True, finite=False)


@dataclass(frozen=True)
class Panel:
    """One pair of axes: series, titles, scales, and marked positions (value, label) on the x axis.

    `marks_label` names the marks in the legend; `headings` are texts (x, text) centred above the frame.
    `x_ticks` and `y_ticks` (value, text) replace the numbers of an axis: () leaves it without any.

    A square panel has axes of one length, and equal units where the limits are.

    A polar panel reads x as the angle in radians and y as the radius; `inner` is the radius of the inner
    circle at which norm 0 lies.
    """

    series: tuple[Series, ...]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    marks: tuple[tuple[float, str], ...] = ()
    marks_label: str = ""
    headings: tuple[tuple[float, str], ...] = ()
    x_ticks: tuple[tuple[float, str], ...] | None = None
    y_ticks: tuple[tuple[float, str], ...] | None = None
    polar: bool = False
    inner: float = 0.0
    square: bool = False

    def __post_init__(self) -> None:
        one_of(self.x_scale, "x_scale", SCALES)
        one_of(self.y_scale, "y_scale", SCALES)


@dataclass(frozen=True)
class Figure:
    """Panels laid out in rows of `columns`, with a name (used for files), a title and a caption."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
    columns: int = 2
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        count(self.columns, "columns")


@dataclass(frozen=True)
class Animation:
    """Figures of one layout shown one after the other; `labels` says what each is, such as its time."""

    name: str
    title: str
    frames: tuple[Figure, ...]
    labels: tuple[str, ...]
    caption: str = ""

    def __post_init__(self) -> None:
        members(self.frames, "frames", "figures", Figure)
        members(self.labels, "labels", "texts", str)
        layouts = {(frame.columns, tuple(panel.polar for panel in frame.panels)) for frame in self.frames}
        if len(layouts) != 1:
            raise InvalidInputError(f"frames: must be figures of one layout, got {len(layouts)} layouts")
        if len(self.labels) != len(self.frames):
            raise InvalidInputError(
                f"labels: must be one per frame ({len(self.frames)}), got {len(self.labels)}"
            )
