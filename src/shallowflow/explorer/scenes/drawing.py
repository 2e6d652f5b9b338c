"""What several scenes draw: frames, the function on a line, losses, events."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.explorer.scene import Layer, State, View
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

GRID = 241
FRAMES = 120
MOST_FRAMES = 3_600
LISTED_EVENTS = 400
Curve = ReLUNetwork | KnotNetwork
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
        [one(grid[:, None]) if isinstance(one, KnotNetwork) else on_line(one, grid) for one in made]
    )


def grid_of(state: State, share: float = 0.15) -> Floats:
    """Return a grid over the points and a little beyond."""
    low, high = float(state.x.min()), float(state.x.max())
    reach = share * (high - low) if high > low else 1.0
    return np.linspace(low - reach, high + reach, GRID)


def function_view(grid: Floats, values: Floats, layers: Iterable[Layer] = (), title: str = "") -> View:
    """Return the view of the function over time; the page draws the points that can be dragged itself."""
    curve = Layer("curve", "network", "network", {"x": grid, "y": values}, moving=True)
    limits = float(grid[0]), float(grid[-1])
    return View("function", title or "The function", (*layers, curve), "x", "f(x)", x_limits=limits)


def loss_view(times: Floats, losses: Floats, layers: Iterable[Layer] = (), x_label: str = "time t") -> View:
    """Return the view of the loss over time, with a dot at the present frame."""
    positive = np.maximum(losses, 1e-16)
    history = Layer("history", "loss", "network", {"x": times, "y": positive})
    return View("loss", "The loss", (*layers, history), x_label, "½ mean (f − y)²", y_scale="log")


def losses_of(made: Iterable[Curve], data: Dataset) -> Floats:
    """Return the losses of networks."""
    return np.array([0.5 * np.mean((network(data.inputs) - data.targets) ** 2) for network in made])


def events_of(trajectory: Trajectory) -> tuple[tuple[float, str], ...]:
    """Return the first events in words."""
    return tuple(
        (event.time, f"neuron {event.neuron} {WORDS[event.kind]} point {event.point}")
        for event in trajectory.events[:LISTED_EVENTS]
    )
