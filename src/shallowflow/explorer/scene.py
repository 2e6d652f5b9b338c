"""What a scene is, and what it shows.

A `Scene` declares its controls and the points that can be dragged, and computes a `Show` from a checked
`State`. A show is views made of layers of arrays over frames; the page draws any show and knows nothing of
networks. So a scene is one Python function on the library's own verbs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError

Progress = Callable[[float], None]
Point = tuple[float, float]
MOST_POINTS = 200


@dataclass(frozen=True)
class Control:
    """A number or a choice that the page offers: its label, what its letter means, its range, its value.

    log: the slider moves in powers of ten and the state holds the exponent. whole: integers only.
    choices: words instead of numbers.
    """

    name: str
    label: str
    help: str
    value: float | str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()

    def checked(self, given: object) -> float | int | str:
        """Return a value of this control, or say what is wrong with it."""
        if self.choices:
            if given not in self.choices:
                raise InvalidInputError(
                    f"{self.name}: must be one of {', '.join(self.choices)}, got {given!r}"
                )
            return str(given)
        number = _number(given, self.name)
        if not self.low <= number <= self.high:
            raise InvalidInputError(f"{self.name}: must lie in [{self.low:g}, {self.high:g}], got {number:g}")
        return round(number) if self.whole else number


@dataclass(frozen=True)
class Handles:
    """The points of a scene that can be dragged: in which view, within what limits, how many.

    vertical: only their heights move, and none can be added or deleted.
    """

    view: str
    label: str
    points: tuple[Point, ...]
    x_limits: Point
    y_limits: Point
    least: int = 1
    most: int = MOST_POINTS
    vertical: bool = False

    def checked(self, given: object) -> tuple[Point, ...]:
        """Return the points, or say what is wrong with them."""
        if not isinstance(given, list | tuple) or not self.least <= len(given) <= self.most:
            raise InvalidInputError(f"points: must be {self.least} to {self.most} pairs [x, y]")
        points = []
        for pair in given:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InvalidInputError(f"points: must be pairs [x, y], got {pair!r}"[:200])
            x, y = _number(pair[0], "points"), _number(pair[1], "points")
            if not (self.x_limits[0] <= x <= self.x_limits[1] and self.y_limits[0] <= y <= self.y_limits[1]):
                raise InvalidInputError(
                    f"points: must lie in {list(self.x_limits)} × {list(self.y_limits)}, got [{x:g}, {y:g}]"
                )
            points.append((x, y))
        return tuple(points)


def _number(given: object, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        raise InvalidInputError(f"{name}: must be a finite number, got {given!r}"[:200])
    return float(given)


@dataclass(frozen=True)
class State:
    """What the user has set: a value for every control, and the points."""

    values: Mapping[str, Any]
    points: tuple[Point, ...]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def x(self) -> Floats:
        """The first coordinates of the points."""
        return np.array([x for x, _ in self.points])

    @property
    def y(self) -> Floats:
        """The second coordinates of the points."""
        return np.array([y for _, y in self.points])


@dataclass(frozen=True)
class Layer:
    """Something drawn in a view.

    kind: "curve" (x, y), "dots" (x, y), "history" (a curve over the frames with a dot at the present one),
    "neurons" (angle, radius in [0, 1], sign), "rays" (angle), "levels" (y), "marks" (x), "cells" (value).
    An array whose first axis has the length of the frames belongs to the frames; a layer "of frames" says so.
    """

    kind: str
    label: str
    tone: str
    arrays: Mapping[str, NDArray[Any]]
    moving: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """A picture: its axes and its layers. square: equal units, no axes (neurons around a circle)."""

    name: str
    title: str
    layers: tuple[Layer, ...]
    x_label: str = ""
    y_label: str = ""
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_limits: Point | None = None
    y_limits: Point | None = None
    square: bool = False


@dataclass(frozen=True)
class Show:
    """What a scene computed: views over frames at `times`, events, sentences, the Python code of this run."""

    times: Floats
    views: tuple[View, ...]
    sentences: tuple[str, ...]
    code: str
    events: tuple[tuple[float, str], ...] = ()
    trajectory: Trajectory | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Scene:
    """A paper on one page: title, story, controls, points, and the function that runs it.

    cost: relative work of a state; while a point is dragged, a costly one is shown with fewer neurons.
    """

    name: str
    title: str
    story: str
    controls: tuple[Control, ...]
    handles: Handles
    run: Callable[[State, Progress], Show]

    def state(self, given: object) -> State:
        """Return the checked state; whatever is missing has its default, whatever is unknown is refused."""
        if not isinstance(given, dict):
            raise InvalidInputError(f"state: must be an object, got {type(given).__name__}")
        known = {control.name: control for control in self.controls}
        strange = [name for name in given if name not in known and name != "points"]
        if strange:
            raise InvalidInputError(f"state: {str(strange[0])[:40]!r} is not a control of {self.name}")
        values = {name: one.checked(given.get(name, one.value)) for name, one in known.items()}
        return State(values, self.handles.checked(given.get("points", self.handles.points)))

    def described(self) -> dict[str, Any]:
        """Return what the page needs to know before the first run."""
        controls = [asdict(control) for control in self.controls]
        said = {"name": self.name, "title": self.title, "story": self.story}
        return {**said, "controls": controls, "handles": asdict(self.handles)}


def packed(show: Show, header: Mapping[str, Any]) -> bytes:
    """Return a show as one message: length of the header, header (JSON, padded to 8), arrays one by one.

    Arrays are little-endian doubles; whole blocks of neurons are floats, which is enough to draw them.
    """
    arrays: list[NDArray[Any]] = []

    def listed(array: NDArray[Any]) -> int:
        arrays.append(np.ascontiguousarray(array))
        return len(arrays) - 1

    views = []
    for view in show.views:
        plain = {key: value for key, value in vars(view).items() if key != "layers"}
        layers = [
            {**vars(layer), "arrays": {role: listed(array) for role, array in layer.arrays.items()}}
            for layer in view.layers
        ]
        views.append({**plain, "layers": layers})
    said = {
        **header,
        "times": listed(np.asarray(show.times, dtype="<f8")),
        "views": views,
        "events": [list(event) for event in show.events],
        "sentences": list(show.sentences),
        "code": show.code,
        "keeps": show.trajectory is not None,
    }
    said["arrays"] = [{"shape": list(a.shape), "single": a.dtype.itemsize == 4} for a in arrays]
    text = json.dumps(said, allow_nan=False).encode()
    text += b" " * (-(len(text) + 4) % 8)
    blocks = [a.astype("<f4" if a.dtype.itemsize == 4 else "<f8").tobytes() for a in arrays]
    padded = [block + b"\0" * (-len(block) % 8) for block in blocks]
    return b"".join([struct.pack("<I", len(text)), text, *padded])
