"""What several scenes draw: frames, the function on a line, neurons in their plane, losses, events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.explorer.scene import Layer, View
from shallowflow.models.loss import Loss
from shallowflow.models.networks import KnotNetwork, Network, ReLUNetwork, StepNetwork

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
