"""`Study`: a task, the parameters it runs with, repeats and a root seed. `Run`: one of its runs.

A run's random stream and its identity are functions of what it is, not of when or where it is computed:

    key(run)  = SHA-256 of (task, parameters, repeat)
    seed(run) = SeedSequence(entropy = root seed, spawn_key = key(run))
    identity  = SHA-256 of (task, parameters, repeat, root seed, version of the code)
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import count, shown
from shallowflow.errors import InvalidInputError
from shallowflow.studies.code import code_version, task_name

Outputs = Mapping[str, float | NDArray[Any]]
Task = Callable[..., Outputs]
"""task(parameters, seed) → {name: number or array}: a function at the top of a module."""
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]

SEED_WORDS = 4


@dataclass(frozen=True)
class Run:
    """One run of a task: its parameters, which repeat it is, the root seed, the version of its code.

    `subject` is the function whose code is the run's version: the task, unless the study says otherwise.
    """

    task: Task
    parameters: Mapping[str, Any]
    repeat: int
    root_seed: int
    code: str
    subject: Callable[..., Any]

    @property
    def seed(self) -> np.random.SeedSequence:
        """The run's own random stream, new at each call: a sequence remembers what was spawned from it."""
        digest = hashlib.sha256(_text(self._key).encode()).digest()
        words = np.frombuffer(digest, dtype="<u4")[:SEED_WORDS]
        return np.random.SeedSequence(self.root_seed, spawn_key=tuple(int(word) for word in words))

    @cached_property
    def identity(self) -> str:
        """A hash of what determines the run's result, 32 hexadecimal digits."""
        return hashlib.sha256(_text([*self._key, self.root_seed, self.code]).encode()).hexdigest()[:32]

    @property
    def task_name(self) -> str:
        """The task as "module:function"."""
        return task_name(self.task)

    @property
    def _key(self) -> list[Any]:
        return [self.task_name, self.parameters, self.repeat]


@dataclass(frozen=True)
class Study:
    """A task, a grid of parameters, repeats and a root seed.

    `grid` is a mapping {name: values}, of which every combination runs, or a sequence of points
    {name: value}. Parameters are numbers, texts, None, and sequences and mappings of them. `repeats` runs are
    made at every point, each with a random stream of its own. `subject`: see `Run`.
    """

    name: str
    task: Task
    grid: Grid
    repeats: int = 1
    root_seed: int = 0
    subject: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInputError(f"name: must be a text that is not empty, got {shown(self.name)}")
        for name, function in (("task", self.task), ("subject", self.subject or self.task)):
            if not callable(function) or not getattr(function, "__qualname__", "<").isidentifier():
                raise InvalidInputError(
                    f"{name}: must be a function at the top of a module, got {shown(function)}"
                )
        count(self.repeats, "repeats")
        count(self.root_seed, "root_seed", at_least=0, at_most=2**128)
        self.points  # noqa: B018 (checked now, not when the study runs)

    @cached_property
    def points(self) -> tuple[Mapping[str, Any], ...]:
        """The parameters of every point, in order, without duplicates."""
        if isinstance(self.grid, Mapping):
            axes = {name: _axis(values, name) for name, values in self.grid.items()}
            points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        elif not hasattr(self.grid, "__iter__"):
            raise InvalidInputError(
                f"grid: must be {{name: values}} or a sequence of {{name: value}}, got {shown(self.grid)}"
            )
        else:
            points = [dict(point) if isinstance(point, Mapping) else point for point in self.grid]
        plain = [plain_parameters(point, "grid") for point in points]
        if not plain or not all(isinstance(point, dict) for point in plain):
            raise InvalidInputError(
                f"grid: must be parameters {{name: value}}, at least one; got {shown(self.grid)}"
            )
        return tuple({_text(point): point for point in plain}.values())

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs: point after point, repeat after repeat."""
        subject = self.subject or self.task
        code = code_version(subject)
        return tuple(
            Run(self.task, point, repeat, self.root_seed, code, subject)
            for point in self.points
            for repeat in range(self.repeats)
        )


def _axis(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidInputError(f"grid: {name} must have a sequence of values, got {shown(values)}")
    return list(values)


def plain_parameters(value: Any, name: str) -> Any:
    """Return `value` as plain Python: what the task sees is exactly what is hashed and written down."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidInputError(f"{name}: names must be texts, got {shown(value)}")
        return {key: plain_parameters(entry, f"{name}: {key}") for key, entry in value.items()}
    if isinstance(value, list | tuple | range):
        return tuple(plain_parameters(entry, name) for entry in value)
    raise InvalidInputError(
        f"{name}: must be a number, a text, None, or a sequence or mapping of them, got {shown(value)}"
    )


def _text(value: Any) -> str:
    """Return one text for equal values: JSON with sorted names."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
