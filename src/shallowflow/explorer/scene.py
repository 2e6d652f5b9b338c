"""What a scene is, and what it shows.

A `Scene` declares its controls, handles that can be dragged, buttons and letters, and computes a `Show` from
a checked `State`. A show is views made of layers of arrays over frames; the page draws any show and knows
nothing of networks. So a scene is one Python function on the library's own verbs.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError

Point = tuple[float, float]
MOST_POINTS = 200
MOST_FRAMES = 3_600
PAUSE = 0.3
"""Seconds at least between two parts of a run that is still being computed."""


class Watch:
    """Follows a run: called with the share that is done, and shown what there is of it until now.

    A verb that takes `progress` calls `look` with a function that makes the trajectory so far; a scene says
    by `parts` how that is drawn. Parts come seldom enough to take no more than a quarter of the time.
    """

    def __init__(
        self,
        progress: Callable[[float], None] = lambda share: None,
        send: Callable[[Show], None] | None = None,
    ) -> None:
        self._progress, self._send = progress, send
        self._draw: Callable[[Trajectory], Show] | None = None
        self._next = time.monotonic() + PAUSE

    def __call__(self, share: float) -> None:
        """Report the share that is done; whoever follows may end the run here."""
        self._progress(share)

    def parts(self, draw: Callable[[Trajectory], Show]) -> Watch:
        """Draw trajectories so far by this function."""
        self._draw = draw
        return self

    def show(self, show: Show) -> None:
        """Send something that can be seen before the whole is there."""
        if self._send is not None:
            self._send(show)

    def look(self, reached: Callable[[], Trajectory]) -> None:
        """Draw and send what has been reached, if it is time."""
        begun = time.monotonic()
        if self._draw is None or self._send is None or begun < self._next:
            return
        self._send(self._draw(reached()))
        now = time.monotonic()
        self._next = now + max(PAUSE, 3.0 * (now - begun))


@dataclass(frozen=True)
class Control:
    """A number or a choice that the page offers: its label, what its letter means, its range, its value.

    log: the slider moves in powers of ten and the state holds the exponent. whole: integers only.
    bend: the slider's place is the root of this degree, for ranges over many powers. choices: words instead
    of numbers.
    """

    name: str
    label: str
    help: str
    value: float | str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    bend: int = 1
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
    """Places of a scene that can be dragged: in which view, within what limits, how many.

    name: their key in the state. vertical: only their heights move. horizontal: they sit on the lower edge.
    stroke: what a line drawn by hand becomes, "points" or "steps". drawn_by: controls that draw them anew
    (no points: they are where these put them); counted_by: the control that holds their number.
    """

    view: str
    label: str
    points: tuple[Point, ...]
    x_limits: Point
    y_limits: Point
    least: int = 1
    most: int = MOST_POINTS
    name: str = "points"
    vertical: bool = False
    horizontal: bool = False
    stroke: str = "points"
    drawn_by: tuple[str, ...] = ()
    counted_by: str = ""

    def checked(self, given: object) -> tuple[Point, ...]:
        """Return the points, or say what is wrong with them."""
        if not isinstance(given, list | tuple) or not self.least <= len(given) <= self.most:
            raise InvalidInputError(f"{self.name}: must be {self.least} to {self.most} pairs [x, y]")
        points = []
        for pair in given:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InvalidInputError(f"{self.name}: must be pairs [x, y], got {pair!r}"[:200])
            x, y = _number(pair[0], self.name), _number(pair[1], self.name)
            if not (self.x_limits[0] <= x <= self.x_limits[1] and self.y_limits[0] <= y <= self.y_limits[1]):
                limits = f"{list(self.x_limits)} × {list(self.y_limits)}"
                raise InvalidInputError(f"{self.name}: must lie in {limits}, got [{x:g}, {y:g}]")
            points.append((x, y))
        return tuple(points)


@dataclass(frozen=True)
class Action:
    """A button of a scene: what it sets and adds, from the moment shown (`now`: the control of time).

    then: whether the page goes to the "end" of the new run, or stays at the "moment" and plays on.
    """

    label: str
    help: str
    now: str = ""
    sets: Mapping[str, float] = field(default_factory=dict)
    adds: Mapping[str, float] = field(default_factory=dict)
    then: str = "moment"


def _number(given: object, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        raise InvalidInputError(f"{name}: must be a finite number, got {given!r}"[:200])
    return float(given)


@dataclass(frozen=True)
class State:
    """What the user has set: a value for every control, the points, and further places by their names."""

    values: Mapping[str, Any]
    points: tuple[Point, ...]
    places: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)

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

    def plain(self) -> dict[str, Any]:
        """Return everything as the page sends and keeps it."""
        return {**self.values, "points": self.points, **self.places}


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
    """A picture: its axes and its layers. square: equal units, no axes (neurons around a circle).

    timed: x is the time of the frames, so that the page's clock may change its scale.
    """

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
    timed: bool = False


@dataclass(frozen=True)
class Show:
    """What a scene computed: views over frames at `times`, events, sentences, the Python code of this run.

    end: the time at which the whole run ends (None: this is all of it); stage: "whole", "preview" (coarse) or
    "part" (its first frames); places: where handles are that the state leaves to chance; clock: time of the
    trajectory per time of the page.
    """

    times: Floats
    views: tuple[View, ...]
    sentences: tuple[str, ...]
    code: str
    events: tuple[tuple[float, str], ...] = ()
    trajectory: Trajectory | None = field(default=None, compare=False)
    end: float | None = None
    stage: str = "whole"
    places: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    clock: float = 1.0


@dataclass(frozen=True)
class Scene:
    """A paper on one page: title, story, controls, handles, and the function that runs it.

    letters: what each letter means; preview: a coarse run for states that take long (None: none needed).
    """

    name: str
    title: str
    story: str
    controls: tuple[Control, ...]
    handles: tuple[Handles, ...]
    run: Callable[[State, Watch], Show]
    letters: Mapping[str, str]
    actions: tuple[Action, ...] = ()
    preview: Callable[[State], Show | None] = lambda state: None

    def state(self, given: object) -> State:
        """Return the checked state; whatever is missing has its default, whatever is unknown is refused."""
        if not isinstance(given, dict):
            raise InvalidInputError(f"state: must be an object, got {type(given).__name__}")
        known = {control.name: control for control in self.controls}
        placed = {handles.name: handles for handles in self.handles}
        strange = [name for name in given if name not in known and name not in placed]
        if strange:
            raise InvalidInputError(f"state: {str(strange[0])[:40]!r} is not a control of {self.name}")
        values = {name: one.checked(given.get(name, one.value)) for name, one in known.items()}
        places = {name: one.checked(given.get(name, one.points)) for name, one in placed.items()}
        return State(values, places.pop("points", ()), places)

    def described(self) -> dict[str, Any]:
        """Return what the page needs to know before the first run."""
        parts: dict[str, tuple[Any, ...]] = {"controls": self.controls, "handles": self.handles}
        parts["actions"] = self.actions
        said = {key: [asdict(one) for one in each] for key, each in parts.items()}
        return {
            **{"name": self.name, "title": self.title, "story": self.story, "letters": dict(self.letters)},
            **said,
        }


def packed(show: Show, header: Mapping[str, Any]) -> bytes:
    """Return a show as one message: length of the header, header (JSON, padded to 8), arrays one by one.

    Arrays are little-endian doubles; whole blocks of neurons are floats, which is enough to draw them.
    """
    if len(show.times) > MOST_FRAMES:
        raise InvalidInputError(f"frames: at most {MOST_FRAMES:,} are shown, got {len(show.times):,}")
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
        "stage": show.stage,
        "end": float(show.times[-1]) if show.end is None else show.end,
        "places": dict(show.places),
    }
    said["arrays"] = [{"shape": list(a.shape), "single": a.dtype.itemsize == 4} for a in arrays]
    text = json.dumps(said, allow_nan=False).encode()
    text += b" " * (-(len(text) + 4) % 8)
    blocks = [a.astype("<f4" if a.dtype.itemsize == 4 else "<f8").tobytes() for a in arrays]
    padded = [block + b"\0" * (-len(block) % 8) for block in blocks]
    return b"".join([struct.pack("<I", len(text)), text, *padded])
