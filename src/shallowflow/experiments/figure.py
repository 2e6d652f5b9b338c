"""`Figure`: a plot as plain data. Drawing it is the business of `reporting`.

Panels that several experiments have are here too: a network's function on the line, its neurons by angle and
norm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
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
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.ends import least_squares
from shallowflow.models import Network, ReLUNetwork

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


INNER = 1.0
"""Radius of the circle at which norm 0 lies."""
RIM = INNER + 1.12
"""Radius of the frame; the largest norm lies at INNER + 1."""
DIRECTIONS = RIM - 0.05
INSET = 0.07
"""Neurons with a_j < 0 are drawn this much further in: else they would hide the others."""
MOST_NUMBERS = 20_000_000
"""Neurons times points that are evaluated at once."""
MOST_BORDERS = 12
"""Borders of cones and directions of data are left out if there are more data points: they hide the rest."""


def on_a_line(dataset: Dataset) -> bool:
    """Whether the inputs have one coordinate, perhaps with a 1 appended."""
    return dataset.dimension == 1 or (dataset.dimension == 2 and bool(np.all(dataset.inputs[:, 1] == 1)))


def line_grid(dataset: Dataset, points: int = 401) -> Floats:
    """Return positions x (k,) that cover the data with a margin."""
    x = dataset.inputs[:, 0]
    low, high = float(x.min()), float(x.max())
    margin = 0.05 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, points)


def as_inputs(x: Floats, dataset: Dataset) -> Floats:
    """Return positions on the line as inputs of the data's dimension: a 1 appended where it has one."""
    return np.column_stack([x, np.ones((len(x), dataset.dimension - 1))])


def function_on_line(network: Network, x: Floats, dataset: Dataset) -> Floats:
    """Return the network's function at positions x (k,), in pieces that fit into memory at any width."""
    pieces = np.array_split(x, max(1, min(len(x), network.width * len(x) // MOST_NUMBERS)))
    return np.concatenate([network(as_inputs(piece, dataset)) for piece in pieces])


def data_series(dataset: Dataset, size: float = 1.0) -> Series:
    """Return the data on the line as points."""
    return Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink", size=size)


def least_squares_line(dataset: Dataset, points: int = 401) -> Series:
    """Return the least-squares line, to be drawn behind a network."""
    x = line_grid(dataset, points)
    values = as_inputs(x, dataset) @ least_squares(dataset).coefficients
    return Series(x, values, "least squares", style="dashed", tone="muted")


def function_panel(
    network: Network,
    dataset: Dataset,
    *,
    points: int = 401,
    title: str = "",
    y_limits: tuple[float, float] | None = None,
    behind: tuple[Series, ...] = (),
) -> Panel:
    """Return the network's function at so many points, with the data; `behind` is drawn first."""
    x = line_grid(dataset, points)
    function = Series(x, function_on_line(network, x, dataset), "network", tone="blue")
    limits = y_limits or value_limits(dataset)
    return Panel((*behind, function, data_series(dataset, 0.9)), title, "x", "h(x)", y_limits=limits)


def value_limits(dataset: Dataset) -> tuple[float, float]:
    """Return limits of the vertical axis that hold the targets and zero, with a margin."""
    low, high = min(float(dataset.targets.min()), 0.0), max(float(dataset.targets.max()), 0.0)
    margin = 0.25 * (high - low) or 1.0
    return low - margin, high + margin


class NeuronPanels:
    """Panels of the neurons of networks of one width, all with the same radial scale.

    A neuron is a point at the angle of w_j = (slope, bias) and at the radius 1 + ‖w_j‖/top: norm 0 is the
    inner circle, so that directions can be seen at tiny norms. Blue: a_j > 0; orange: a_j < 0, a little
    further in. At most `most` neurons are shown, evenly chosen.
    """

    def __init__(self, dataset: Dataset | None, top: float, width: int, *, most: int = 200_000) -> None:
        self.inputs, self.top = np.empty((0, 2)) if dataset is None else dataset.inputs, max(top, 1e-300)
        self.chosen = np.unique(np.linspace(0, width - 1, min(width, most)).astype(np.int64))

    def __call__(self, network: ReLUNetwork, title: str = "") -> Panel:
        """Return the panel of one network."""
        inner, outer = network.inner[self.chosen], network.outer[self.chosen]
        angle = np.arctan2(inner[:, 1], inner[:, 0])
        radius = INNER + np.linalg.norm(inner, axis=1) / self.top
        clouds = [
            Series(angle[sign], radius[sign] - inset, label, style="points", tone=tone, size=0.5)
            for sign, label, tone, inset in (
                (outer > 0, "a > 0", "blue", 0.0),
                (outer < 0, "a < 0", "orange", INSET),
            )
        ]
        borders, directions = self._of_data()
        words = title or f"neurons; radius 1 = norm {self.top:.1e}"
        return Panel((*borders, *clouds, *directions), words, polar=True, inner=INNER, y_limits=(0.0, RIM))

    def _of_data(self) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
        """Return the borders of the activation cones, and the directions of the data."""
        x = self.inputs
        if len(x) > MOST_BORDERS:
            return (), ()
        border, angle = np.arctan2(x[:, 0], -x[:, 1]), np.arctan2(x[:, 1], x[:, 0])
        rays = tuple(
            Series([ray, ray], [INNER, RIM], "⊥ data x_k", style="dashed", tone="green", size=0.5)
            for ray in np.concatenate([border, border + np.pi]).tolist()
        )
        rim = np.full(len(x), DIRECTIONS)
        return rays, (Series(angle, rim, "data x_k", style="crosses", tone="ink", size=0.8),)


def largest_norm(networks: list[ReLUNetwork]) -> float:
    """Return the largest ‖w_j‖ of several networks."""
    return max(float(np.max(np.linalg.norm(network.inner, axis=1))) for network in networks)
