"""What a network is trained on: `Dataset`, a finite sample; targets, piecewise constant, affine, additive."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    FrozenArrays,
    Ints,
    increasing,
    matrix,
    members,
    numbers,
    public,
    same_length,
    shown,
    vector,
)
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.files import as_path, bounded_lines, open_text

DEPENDENT = 1e-10
"""Singular values below this share of the largest one are rounding: the samples are dependent."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Dataset(FrozenArrays):
    """Inputs (n, d) and targets (n,): finite, float64, read-only.

    Examples
    --------
    >>> ds = Dataset([[-0.75], [0.125]], [1.1, 0.8], name="two points").with_bias()
    >>> ds.inputs
    array([[-0.75 ,  1.   ],
           [ 0.125,  1.   ]])
    """

    inputs: Floats
    targets: Floats
    name: str = ""

    def __init__(self, inputs: ArrayLike, targets: ArrayLike, name: str = "") -> None:
        fields = self.__dict__
        fields["inputs"] = matrix(inputs, "inputs")
        fields["targets"] = vector(targets, "targets")
        fields["name"] = str(name)
        same_length(self.inputs, self.targets, "inputs, targets")

    @property
    def size(self) -> int:
        """The number of samples n."""
        return len(self.targets)

    @property
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return int(self.inputs.shape[1])

    def with_bias(self) -> Dataset:
        """Return the data with a coordinate 1 appended to every input."""
        return Dataset(np.column_stack([self.inputs, np.ones(self.size)]), self.targets, self.name)

    @classmethod
    def from_csv(cls, path: str | Path) -> Dataset:
        """Read a comma-separated table: one sample per line, the target in the last column.

        A first line without any number is taken for a header. Bad files raise `FileFormatError`
        naming the line and the entry.
        """
        path, columns = as_path(path), 0
        numbers, count = array("d"), 0
        for line, entries in _rows(path):
            row = [_number(entry) for entry in entries]
            if not columns and all(number is None for number in row):
                columns = -len(row)  # a header
                continue
            if columns <= 0:
                columns = len(row)
            if columns < 2:
                raise FileFormatError(
                    f"{path}: needs at least two columns (inputs, target), got {columns}; "
                    "columns are separated by commas"
                )
            if len(row) != columns:
                raise FileFormatError(f"{path}: line {line}: expected {columns} columns, got {len(row)}")
            for number, entry in zip(row, entries, strict=True):
                if number is None or not math.isfinite(number):
                    raise FileFormatError(
                        f"{path}: line {line}: expected a finite number, got {entry[:40]!r}"
                    )
                numbers.append(number)
            count += 1
        if not count:
            raise FileFormatError(f"{path}: no data: expected lines of numbers, the target last")
        table = np.frombuffer(numbers).reshape(count, columns)
        return cls(table[:, :-1], table[:, -1], name=path.stem)


@dataclass(frozen=True, eq=False, repr=False)
class Orthogonalised(FrozenArrays):
    """Data with orthonormal inputs, and the linear map (d, d) that made them: new inputs go through `apply`.

    stretch: the largest factor by which the map lengthens a direction; condition: that factor over the
    smallest one. sentence: what this means for new inputs.
    """

    dataset: Dataset
    matrix: Floats
    stretch: float
    condition: float

    @property
    def sentence(self) -> str:
        """What the map does to new inputs, in words."""
        return (
            f"New inputs must go through the same map. It lengthens some directions by {self.stretch:.3g}, "
            f"{self.condition:.3g} times as much as others: noise along directions in which the samples "
            "hardly differ grows by that much; what lies outside their span stays as it is."
        )

    def apply(self, inputs: ArrayLike) -> Floats:
        """Return new inputs (k, d) in the same coordinates."""
        return np.asarray(matrix(inputs, "inputs") @ self.matrix)


@public
def orthogonalised(dataset: Dataset) -> Orthogonalised:
    """Return the data with whitened samples: the orthonormal inputs nearest to the given ones.

    (XXᵀ)^{−1/2} X = X A with A = Xᵀ(XXᵀ)^{−3/2}X on the span of the samples, the identity outside. Inputs
    that interact strongly do not any more ([weak_interaction] Assumption 2 holds with ν = 0). The samples
    must be linearly independent, at most d of them.

    Examples
    --------
    >>> found = orthogonalised(Dataset([[3.0, 0.0, 0.0], [1.0, 1.0, 0.0]], [1.0, 2.0]))
    >>> (found.dataset.inputs @ found.dataset.inputs.T).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    inputs = checked_dataset(dataset).inputs
    left, sizes, right = np.linalg.svd(inputs, full_matrices=False)
    if dataset.size > dataset.dimension or sizes[-1] <= DEPENDENT * sizes[0]:
        raise InvalidInputError(
            f"dataset: samples must be linearly independent to be made orthogonal, got {dataset.size} "
            f"of rank {int(np.sum(sizes > DEPENDENT * sizes[0]))} in dimension {dataset.dimension}"
        )
    outside = np.eye(dataset.dimension) - right.T @ right
    change = right.T @ (right / sizes[:, None]) + outside
    moved = Dataset(left @ right, dataset.targets, dataset.name)
    stretch = float(1.0 / sizes[-1])
    return Orthogonalised(moved, change, stretch, float(sizes[0] / sizes[-1]))


def checked_dataset(dataset: object) -> Dataset:
    """Return the argument if it is a `Dataset`."""
    if not isinstance(dataset, Dataset):
        raise InvalidInputError(f"dataset: must be a Dataset, got {shown(dataset)}")
    return dataset


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-blank lines of a CSV file with their line numbers."""
    try:
        with open_text(path) as file:
            reader = csv.reader(bounded_lines(file, path))
            yield from ((reader.line_num, row) for row in reader if any(entry.strip() for entry in row))
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: is not a text file of comma-separated numbers") from error


def _number(entry: str) -> float | None:
    try:
        return float(entry)
    except ValueError:
        return None


class SortedData(NamedTuple):
    """Univariate data in increasing order of x: inputs = dataset.inputs[order, 0], targets likewise, (m,)."""

    order: Ints
    inputs: Floats
    targets: Floats


def sort_data(dataset: Dataset) -> SortedData:
    """Return checked univariate data sorted once, for the blocks of many networks."""
    order = np.argsort(dataset.inputs[:, 0], kind="stable")
    return SortedData(order, dataset.inputs[order, 0], dataset.targets[order])


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PiecewiseConstant(FrozenArrays):
    """values_i on [breakpoints_{i−1}, breakpoints_i): one more value than breakpoints.

    [two_timescale] §2: the jumps v_1 < … < v_{n−1} inside (0, 1) are the breakpoints.

    Examples
    --------
    >>> PiecewiseConstant([0.5], [1.0, 4.0])([0.0, 0.5, 1.0])
    array([1., 4., 4.])
    """

    breakpoints: Floats
    values: Floats

    def __init__(self, breakpoints: ArrayLike, values: ArrayLike) -> None:
        self.__dict__["breakpoints"] = increasing(breakpoints, "breakpoints", allow_empty=True)
        self.__dict__["values"] = vector(values, "values")
        if len(self.values) != len(self.breakpoints) + 1:
            raise InvalidInputError(
                f"values: must be one more than the breakpoints ({len(self.breakpoints)}), "
                f"got {len(self.values)}"
            )

    @property
    def jumps(self) -> Floats:
        """The jump sizes values_i − values_{i−1}."""
        return np.diff(self.values)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the target at points of any shape."""
        points = numbers(x, "x", None, allow_empty=True)
        return self.values[np.searchsorted(self.breakpoints, points, side="right")]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PiecewiseAffine(FrozenArrays):
    """The continuous function through (breakpoints_i, values_i), the end pieces extended.

    Examples
    --------
    >>> PiecewiseAffine([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])([0.5, 3.0])
    array([ 0.5, -1. ])
    """

    breakpoints: Floats
    values: Floats

    def __init__(self, breakpoints: ArrayLike, values: ArrayLike) -> None:
        self.__dict__["breakpoints"] = increasing(breakpoints, "breakpoints")
        self.__dict__["values"] = vector(values, "values")
        same_length(self.breakpoints, self.values, "breakpoints, values")
        if len(self.values) < 2:
            raise InvalidInputError(f"breakpoints: must be at least 2, got {len(self.values)}")
        with np.errstate(over="ignore"):
            steep = ~np.isfinite(self.slopes)
        if steep.any():
            gap = float(np.diff(self.breakpoints)[steep][0])
            raise InvalidInputError(
                f"breakpoints: must be far enough apart for slopes below 1.8e308, got a gap of {gap:g}"
            )

    @property
    def slopes(self) -> Floats:
        """The slope of every piece."""
        return np.diff(self.values) / np.diff(self.breakpoints)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the target at points of any shape."""
        points = numbers(x, "x", None, allow_empty=True)
        piece = np.clip(np.searchsorted(self.breakpoints, points, side="right") - 1, 0, len(self.values) - 2)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.values[piece] + self.slopes[piece] * (points - self.breakpoints[piece])
        if not np.isfinite(found).all():
            far = float(points[~np.isfinite(found)][0])
            raise InvalidInputError(f"x: the target there must be below 1.8e308, got {far:g}")
        return found


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Additive(FrozenArrays):
    """f(x) = Σ_i components_i(x_i) on (k, d) inputs, [two_timescale] §5.

    Examples
    --------
    >>> step = PiecewiseConstant([0.5], [0.0, 1.0])
    >>> Additive([step, step])([[0.2, 0.7], [0.7, 0.7]])
    array([1., 2.])
    """

    components: tuple[PiecewiseConstant | PiecewiseAffine, ...]

    def __init__(self, components: Iterable[PiecewiseConstant | PiecewiseAffine]) -> None:
        kinds: tuple[Any, ...] = (PiecewiseConstant, PiecewiseAffine)
        parts = members(components, "components", "one-dimensional targets", *kinds)
        if not parts:
            raise InvalidInputError("components: must not be empty, got ()")
        self.__dict__["components"] = parts

    @property
    def dimension(self) -> int:
        """The number d of coordinates."""
        return len(self.components)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the target at the rows of x, (k, d) → (k,)."""
        inputs = numbers(x, "x", 2, allow_empty=True)
        if inputs.shape[1] != self.dimension:
            raise InvalidInputError(f"x: must have shape (k, {self.dimension}), got {inputs.shape}")
        total = np.zeros(len(inputs))
        for component, column in zip(self.components, inputs.T, strict=True):
            total += component(column)
        return total


Target = PiecewiseConstant | PiecewiseAffine | Additive
