"""A `GroupPath` as plain arrays of a file, and back: shapes, orders and indices are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints, matrix, numbers
from shallowflow.dynamics.group_path import GroupPath
from shallowflow.errors import FileFormatError
from shallowflow.models.networks import Network, ReLUNetwork

ARRAYS = tuple(
    f"path_{field.name}" for field in fields(GroupPath) if field.name not in ("template", "times", "root")
)
"""Names of a path's arrays in a file, besides its times and the first network."""
INTEGERS = frozenset(
    f"path_{name}"
    for name in (
        "occupied_from",
        "occupied",
        "moves_from",
        "movers",
        "targets",
        "sync_steps",
        "synced",
        "start_groups",
    )
)


def stored(path: GroupPath) -> dict[str, NDArray[Any]]:
    """Return the arrays of a path by their names in a file."""
    arrays = path.arrays()
    return {
        name: arrays[name[5:]].astype(np.int64 if name in INTEGERS else np.float64, copy=False)
        for name in ARRAYS
    }


def assembled(network: Network, times: Floats, arrays: Mapping[str, NDArray[Any]], root: float) -> GroupPath:
    """Return the path with these arrays; raise `FileFormatError` unless they fit each other."""
    if not isinstance(network, ReLUNetwork) or network.dimension != 2:
        raise FileFormatError("a path by groups needs a ReLUNetwork on inputs of dimension 2")
    parts: dict[str, Any] = {name[5:]: arrays[name] for name in ARRAYS}
    path = GroupPath(network, times, root=float(root), **parts)
    steps, cones, width = len(times) - 1, len(path.rays), network.width
    _check(path.pulls.ndim == 3 and path.pulls.shape[1] >= 2, "pulls")
    shapes = {
        "pulls": (steps, path.pulls.shape[1], len(path.points)),
        "propagators": (len(path.occupied), 3, 3),
        "move_times": (len(path.movers),),
        "targets": (len(path.movers),),
        "references": (len(path.movers), 3),
        "synced": (len(path.sync_steps),),
        "syncs": (len(path.sync_steps), 3, 3),
        "start_groups": (width,),
        "points": (len(path.points), 2),
        "seen": (cones, len(path.points)),
        "rays": (cones, 2),
    }
    for name, shape in shapes.items():
        _check(getattr(path, name).shape == shape, name)
        if f"path_{name}" not in INTEGERS:
            numbers(getattr(path, name), name, len(shape), allow_empty=True)
    _check_offsets(path.occupied_from, steps, len(path.occupied), "occupied_from")
    _check_offsets(path.moves_from, steps, len(path.movers), "moves_from")
    groups = 3 * cones + 2
    for name, limit in (
        ("start_groups", groups),
        ("targets", groups),
        ("occupied", groups - 2),
        ("synced", groups - 2),
    ):
        _check_range(getattr(path, name), limit, name)
    _check_range(path.movers, width, "movers")
    _check_range(path.sync_steps, max(steps, 1), "sync_steps")
    _check(bool(np.all(np.diff(path.sync_steps) >= 0)), "sync_steps")
    _check(root > 0 and np.isfinite(root), "root")
    matrix(network.inner, "inner")
    return path


def _check_offsets(offsets: Ints, steps: int, total: int, name: str) -> None:
    _check(offsets.shape == (steps + 1,) and offsets[0] == 0 and offsets[-1] == total, name)
    _check(bool(np.all(np.diff(offsets) >= 0)), name)


def _check_range(values: NDArray[Any], limit: int, name: str) -> None:
    _check(values.ndim == 1 and bool(np.all((values >= 0) & (values < limit))), name)


def _check(sound: bool, name: str) -> None:
    if not sound:
        raise FileFormatError(f"path_{name} does not fit the other arrays")
