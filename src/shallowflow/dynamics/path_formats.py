"""Every kind of path as plain arrays and a few header entries of a file, and back, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shallowflow.arrays import Floats, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics import group_storage
from shallowflow.dynamics.array_file import Arrays, Header, check_shape
from shallowflow.dynamics.group_path import GroupPath
from shallowflow.dynamics.path import Path, Polynomials, Snapshots, flatten
from shallowflow.dynamics.replayed import Replayed
from shallowflow.errors import FileFormatError
from shallowflow.models.networks import LogScaledNetwork, Network


@dataclass(frozen=True)
class PathFormat:
    """How a kind of path is kept: names of its arrays besides its times, which of them hold whole numbers.

    `taken_apart(path)` gives header entries and arrays; `first(arrays)` the first network's θ, from which the
    template is made; `assembled(template, header, arrays)` the path, or an error if the arrays don't fit.
    """

    names: tuple[str, ...]
    taken_apart: Callable[[Any], tuple[Header, Arrays]]
    first: Callable[[Arrays], Floats]
    assembled: Callable[[Network, Header, Arrays], Path]
    integers: frozenset[str] = frozenset()


def _snapshots(template: Network, header: Header, arrays: Arrays) -> Snapshots:
    times, values = arrays["path_times"], arrays["path_values"]
    check_shape("path_values", values, (len(times), values.shape[-1]))
    return Snapshots(template, times, values, bool(header["sparse"]))


def _polynomials(template: Network, header: Header, arrays: Arrays) -> Polynomials:
    times, values = arrays["path_times"], arrays["path_values"]
    check_shape("path_values", values, (len(times) - 1, *values.shape[1:2], values.shape[-1]))
    if values.shape[1] < 2:
        raise FileFormatError(f"path_values has {values.shape[1]} nodes per step instead of 2 or more")
    return Polynomials(template, times, values)


def _replayed(template: Network, header: Header, arrays: Arrays) -> Replayed:
    """Return a replayed path, its problem checked against its network."""
    if not isinstance(template, LogScaledNetwork):
        raise FileFormatError(
            f"a replayed path is that of a LogScaledNetwork, not of a {type(template).__name__}"
        )
    data = Dataset(arrays["path_inputs"], arrays["path_targets"])
    check_shape("path_inputs", data.inputs, (data.size, template.dimension))
    times, values = arrays["path_times"], arrays["path_values"]
    check_shape("path_values", values, (len(times), template.width, data.size + 1))
    rate, tiny = (
        positive(value, name) for value, name in zip(header["replay"], ("rate", "tiny"), strict=True)
    )
    return Replayed(template, times, values, data.inputs, data.targets, rate, tiny)


def _replayed_apart(path: Replayed) -> tuple[Header, Arrays]:
    arrays = {
        "path_values": path.values,
        "path_start": flatten(path.template),
        "path_inputs": path.inputs,
        "path_targets": path.targets,
    }
    return {"replay": [path.rate, path.tiny]}, arrays


def _groups(template: Network, header: Header, arrays: Arrays) -> GroupPath:
    check_shape("path_values", arrays["path_values"], (1, flatten(template).size))
    return group_storage.assembled(template, arrays["path_times"], arrays, header["root"])


def _groups_apart(path: GroupPath) -> tuple[Header, Arrays]:
    return {"root": path.root}, {"path_values": flatten(path.template)[None], **group_storage.stored(path)}


def _first_row(arrays: Arrays) -> Floats:
    values = arrays["path_values"]
    first: Floats = values.reshape(-1, values.shape[-1])[0]
    return first


FORMATS: Mapping[str, PathFormat] = {
    Snapshots.kind: PathFormat(
        ("path_values",),
        lambda path: ({"sparse": path.sparse}, {"path_values": path.values}),
        _first_row,
        _snapshots,
    ),
    Polynomials.kind: PathFormat(
        ("path_values",), lambda path: ({}, {"path_values": path.values}), _first_row, _polynomials
    ),
    Replayed.kind: PathFormat(
        ("path_values", "path_start", "path_inputs", "path_targets"),
        _replayed_apart,
        lambda arrays: arrays["path_start"],
        _replayed,
    ),
    GroupPath.kind: PathFormat(
        ("path_values", *group_storage.ARRAYS),
        _groups_apart,
        _first_row,
        _groups,
        group_storage.INTEGERS,
    ),
}
