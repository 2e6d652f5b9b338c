"""What a scene is, what it shows, and what several scenes draw.

A `Scene` declares its controls, handles that can be dragged, buttons and letters, and computes a `Show` from
a checked `State`. A show is views made of layers of arrays over frames; the page draws any show and knows
nothing of networks. So a scene is one Python function on the library's own verbs.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Bools, Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import Loss
from shallowflow.models.networks import KnotNetwork, Network, ReLUNetwork, StepNetwork

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


GRID = 241
FRAMES = 120
LISTED_EVENTS = 400
DECADES = 8.0
"""Of norms shown: the inner circle is 10⁻⁸ of the largest, or smaller."""
LIGHT = 300
"""Points × neurons up to which a flow needs no preview."""
COARSE = 200
"""Neurons of a preview, at most."""
SKETCH_STEP, SKETCH_STEPS = 0.02, 20_000
"""Of the descent that stands for the flow in a preview."""
Curve = ReLUNetwork | KnotNetwork | StepNetwork
"""Networks whose function is a curve over a line."""
WORDS = {
    "on": "starts to see",
    "off": "no longer sees",
    "slide": "is held by",
    "release": "is released by",
    "death": "dies at",
    "two-valued": "may go either way at",
    "hit": "reaches jump",
    "pass": "passes jump",
    "jump": "jumps with",
}


def frame_times(until: float) -> Floats:
    """Return moments for the frames: half of them evenly spread, half of them growing geometrically."""
    even = np.linspace(0.0, until, FRAMES // 2 + 1)
    return np.unique(np.concatenate([even, np.geomspace(until / 1_000, until, FRAMES // 2)]))


def frames_of(until: float) -> Record:
    """Return the record that keeps a network for every frame."""
    return Record.at(frame_times(until))


def networks(trajectory: Trajectory, until: float) -> tuple[Floats, list[Curve]]:
    """Return the times of the frames that the run reached, and the networks there."""
    times = frame_times(until)
    times = times[times <= trajectory.path.times[-1]]
    made = [trajectory(float(time)) for time in times]
    return times, [network for network in made if isinstance(network, Curve)]


def sketch(start: ReLUNetwork, data: Dataset, until: float, loss: Loss | None = None) -> Trajectory | None:
    """Return a descent that looks like the flow, in a tenth of its time; None where it does not converge."""
    steps = min(int(np.ceil(until / SKETCH_STEP)), SKETCH_STEPS)
    options = {"record": frames_of(until), "loss": loss}
    found = gradient_descent(start, data, step=until / steps, steps=steps, engine="cones", **options)  # type: ignore[arg-type]
    return found if found.outcome.ok else None


def on_line(network: ReLUNetwork, grid: Floats) -> Floats:
    """Return Σ_j a_j σ(w_j x + b_j) on a rising grid, by sums over the cells in which the kinks lie.

    Cost O(m + G) instead of O(m G): neuron j adds a_j (w_j x + b_j) on one side of its kink −b_j/w_j.
    """
    w, b, a = network.inner[:, 0], network.inner[:, 1], network.scale * network.outer
    with np.errstate(divide="ignore", invalid="ignore"):
        kink = np.where(w == 0, np.inf, -b / np.where(w == 0, 1.0, w))
    cell = np.searchsorted(grid, kink)
    right = w > 0

    def summed(which: Bools, values: Floats) -> Floats:
        """Return the sums over neurons whose kink is left of each grid point."""
        counts = np.bincount(cell[which], values[which], len(grid) + 1)
        return np.asarray(np.cumsum(counts)[:-1])

    lean = network.slope
    gain, shift = a * w, a * b
    rising = [summed(right, each) * (1 - lean) for each in (gain, shift)]
    left = ~right & (w != 0)
    falling = [(np.sum(each[left]) - summed(left, each)) * (1 - lean) for each in (gain, shift)]
    flat = np.sum(a * np.where(b > 0, b, lean * b), where=w == 0)
    everywhere = [lean * np.sum(each[w != 0]) for each in (gain, shift)]
    slope, level = (r + f + e for r, f, e in zip(rising, falling, everywhere, strict=True))
    return np.asarray(slope * grid + level + flat)


def curves(made: Iterable[Curve], grid: Floats) -> Floats:
    """Return the functions of the networks on a grid, one row per frame."""
    return np.array(
        [on_line(one, grid) if isinstance(one, ReLUNetwork) else one(grid[:, None]) for one in made]
    )


def grid_of(x: Floats, share: float = 0.15) -> Floats:
    """Return a grid over the points and a little beyond."""
    low, high = float(x.min()), float(x.max())
    reach = share * (high - low) if high > low else 1.0
    return np.linspace(low - reach, high + reach, GRID)


def function_view(grid: Floats, values: Floats, layers: Iterable[Layer] = (), title: str = "") -> View:
    """Return the view of the function over time; the page draws the points that can be dragged itself."""
    curve = Layer("curve", "network", "network", {"x": grid, "y": values}, moving=True)
    limits = float(grid[0]), float(grid[-1])
    return View("function", title or "The function", (*layers, curve), "x", "f(x)", x_limits=limits)


def neurons_view(made: Sequence[ReLUNetwork], layers: Iterable[Layer] = ()) -> View:
    """Return neurons of the plane as points: their angle, and the logarithm of their norm as radius."""
    inner = np.array([network.inner for network in made])
    norms = np.linalg.norm(inner, axis=2)
    top = float(norms.max()) or 1.0
    with np.errstate(divide="ignore"):
        radius = np.clip(1.0 + np.log10(norms / top) / DECADES, 0.0, 1.0)
    blocks = {
        "angle": np.arctan2(inner[:, :, 1], inner[:, :, 0]).astype(np.float32),
        "radius": radius.astype(np.float32),
        "sign": np.sign(made[0].outer).astype(np.float32),
        "top": np.array([top, DECADES]),
    }
    both = (*layers, Layer("neurons", "neurons w_j (full: a_j > 0)", "network", blocks, moving=True))
    return View("neurons", "The neurons: angle and logarithm of the norm", both, square=True)


def loss_view(times: Floats, losses: Floats, layers: Iterable[Layer] = (), x_label: str = "time t") -> View:
    """Return the view of the loss over time, with a dot at the present frame."""
    positive = np.maximum(losses, 1e-16)
    history = Layer("history", "loss", "network", {"x": times, "y": positive})
    return View("loss", "The loss", (*layers, history), x_label, "½ mean (f − y)²", y_scale="log", timed=True)


def losses_of(made: Iterable[Curve], data: Dataset) -> Floats:
    """Return the losses of networks."""
    return np.array([0.5 * np.mean((network(data.inputs) - data.targets) ** 2) for network in made])


def events_of(trajectory: Trajectory) -> tuple[tuple[float, str], ...]:
    """Return the first events in words; the page counts neurons and points from 1."""
    return tuple(
        (event.time, f"neuron {event.neuron + 1} {WORDS[event.kind]} point {event.point + 1}")
        for event in trajectory.events[:LISTED_EVENTS]
    )


def curve_of(network: Network) -> Curve | None:
    """Return a network whose function is a curve, None for any other."""
    return network if isinstance(network, Curve) else None
