"""Small trajectories of every kind of network and path, with awkward numbers in them."""

from __future__ import annotations

import numpy as np

from shallowflow.dynamics.clock.paths import Polynomials, Snapshots
from shallowflow.dynamics.clock.protocol import Event, Path, flatten
from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
from shallowflow.models.networks import KnotNetwork, Network, ReLUNetwork, StepNetwork

EXAMPLE_NETWORKS: dict[str, Network] = {
    "relu": ReLUNetwork([[1.0, -2.0], [0.5, 0.1], [3.0, 0.0]], [1.0, -1.0, 2.0], slope=0.1, scale=1 / 3),
    "knot": KnotNetwork([0.1, 0.7], [1.0, -2.0]),
    "step": StepNetwork([0.2, 0.5], [1.0, 3.0], 0.25, 0.1),
}
PATHS = ("snapshots", "sparse", "polynomials")


def example_path(network: Network, kind: str, seed: int = 0) -> Path:
    """Return a path of random numbers from `network` on: five times, or four steps of degree 3."""
    rng = np.random.default_rng(seed)
    start = flatten(network)
    times = np.concatenate([[0.0], np.cumsum(rng.uniform(0.1, 1.0, 4))])
    values = rng.standard_normal((4, 4, start.size))
    values[0, 0] = start
    if kind == "polynomials":
        return Polynomials(network, times, values)
    return Snapshots(network, times, values.reshape(16, -1)[:5], sparse=kind == "sparse")


def example_trajectory(name: str = "relu", kind: str = "snapshots", seed: int = 0) -> Trajectory:
    """Return a trajectory with infinities, NaN, subnormal numbers, events and statistics of every type."""
    rng = np.random.default_rng(seed)
    path = example_path(EXAMPLE_NETWORKS[name], kind, seed)
    losses = np.concatenate([rng.uniform(size=3), [np.inf, -0.0, np.nan, 5e-324]])
    events = (Event(0.1, "on", 0, 2), Event(1 / 3, "slide", 1), Event(2.0, "two-valued"))
    statistics: dict[str, float | int | str] = {
        "engine": "dense · ü",
        "steps": 2**62,
        "rate": 0.1,
        "nan": np.nan,
        "inf": -np.inf,
    }
    outcome = Outcome("diverged", "a parameter overflowed.", "a smaller step.")
    return Trajectory(np.linspace(0.0, 2.0, 7), losses, path, events, outcome, statistics)
