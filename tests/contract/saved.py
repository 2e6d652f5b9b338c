"""What is written down of a saved file: all that a user can ask of what it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import shallowflow as sf
from tests.contract.described import FOLDER
from tests.contract.results import SCALES

FILES = FOLDER / "files"
KINDS = (
    "snapshots",
    "snapshots_additive",
    "snapshots_sparse",
    "polynomials",
    "polynomials_knots",
    "groups",
    "replayed",
)
PROCESS = "saddle_to_saddle"

Arrays = dict[str, NDArray[np.float64]]


def theta(network: Any) -> NDArray[np.float64]:
    """Return all parameters as one vector."""
    return np.concatenate([np.ravel(array) for array in network.parameters.values()])


def reading_times(trajectory: sf.Trajectory, sparse: bool) -> list[float]:
    """Return two ends and three times inside, off the recorded ones; if sparse, the two ends."""
    first, last = float(trajectory.times[0]), float(trajectory.times[-1])
    shares = (0.0, 1.0) if sparse else (0.0, 0.137, 0.5123, 0.871, 1.0)
    return [first + share * (last - first) if share < 1.0 else last for share in shares]


def words(found: Any) -> dict[str, Any]:
    """Return what a file tells exactly, besides its arrays."""
    final = found.final
    constants = {
        name: getattr(final, name) for name in ("slope", "scale", "sharpness") if hasattr(final, name)
    }
    return {
        "network": type(final).__name__,
        "shapes": {name: list(array.shape) for name, array in final.parameters.items()},
        "constants": constants,
        "events": [[event.time, event.kind, event.neuron, event.point] for event in found.events],
        "outcome": [found.outcome.status, found.outcome.message, found.outcome.advice],
        "statistics": dict(found.statistics),
    }


def stored_arrays(trajectory: sf.Trajectory) -> Arrays:
    """Return the arrays that a trajectory's file holds as they are."""
    return {"times": trajectory.times, "losses": trajectory.losses}


def recorded(trajectory: sf.Trajectory) -> Arrays:
    """Return the recorded networks, and when they were recorded."""
    table = trajectory.to_xarray()
    names = trajectory.final.parameters
    return {"recorded": table["recorded"].values, **{name: table[name].values for name in names}}


def process_arrays(limit: sf.SaddleToSaddle) -> dict[str, NDArray[Any]]:
    """Return what the file of a jump process holds as it is, and who jumps."""
    return {
        "inputs": limit.dataset.inputs,
        "targets": limit.dataset.targets,
        "mask": limit.mask,
        "signs": limit.signs,
        "shares": limit.shares,
        "corrections": limit.corrections,
        "neurons": limit.neurons,
    }


def process_readings(limit: sf.SaddleToSaddle) -> Arrays:
    """Return what is computed from it: jumps, predictions of saddles, times of flows, directions."""
    jumps = range(len(limit.neurons) + 1)
    inside, table = 0.5 * float(limit.times[-1]), limit.to_xarray()
    return {
        "jump_times": limit.jump_times,
        "times": limit.times,
        "event times": np.array([event.time for event in limit.events]),
        "losses": limit.losses,
        "exponents": table["exponents"].values,
        "rates": table["rates"].values,
        "predictions": np.array([limit.saddle(count)(limit.dataset.inputs) for count in jumps]),
        "predicted": np.array([limit.predicted_times(scale) for scale in SCALES]),
        "directions": np.array([limit.directions(count) for count in jumps]),
        "inside": theta(limit(inside)),
        "exponents inside": limit.exponents(inside),
        "final": theta(limit.final),
    }
