"""The habits of analysts: x as a vector, a Series, a column of a table, or dates; rows with holes.

pandas and polars are known by what they offer (`columns`, `name`, `__array__`), and imported by none of this.
Dates become days since 1970-01-01, in UTC.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shallowflow.arrays import Bools, Floats
from shallowflow.errors import InvalidInputError

MISSING = ("error", "drop")
MICROSECONDS_A_DAY = 86_400e6


@dataclass(frozen=True, eq=False)
class Column:
    """x as scikit-learn takes it, whether it was dates, and its name if it has one."""

    values: Any
    dates: bool
    name: str | None


def as_column(X: Any, *, vectors: bool = True) -> Column:
    """Return x (n, 1) with dates as days; what else there is wrong with it, scikit-learn will say.

    vectors: whether a vector (n,) is taken for a column.
    """
    columns = getattr(X, "columns", None)
    name = columns[0] if columns is not None and len(columns) == 1 else getattr(X, "name", None)
    name = name if isinstance(name, str) else None
    array = _moments(X)
    if array is not None:
        days: Any = to_days(array)
        return Column(days[:, None] if days.ndim == 1 and vectors else days, True, name)
    if vectors and columns is None:
        try:
            plain = np.asarray(X)
        except ValueError:
            return Column(X, False, name)  # a ragged list
        if plain.ndim == 1 and plain.dtype.kind in "biufO" and plain.size:
            return Column(plain[:, None], False, name)
    return Column(X, False, name)


def _moments(X: Any) -> NDArray[np.datetime64] | None:
    """Return dates as an array, None if X does not consist of them."""
    if hasattr(X, "tocsr") or isinstance(X, str):
        return None
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind == "M":
        return array
    if array.dtype.kind != "O" or array.size == 0:
        return None
    first = next((one for one in array.flat if one is not None and one == one), None)
    if not isinstance(first, dt.date):
        return None
    moments = [np.datetime64("NaT") if one is None or one != one else _utc(one) for one in array.flat]
    return np.array(moments, dtype="datetime64[us]").reshape(array.shape)


def _utc(moment: Any) -> np.datetime64:
    """Return a date or a time; one with a zone in UTC."""
    if getattr(moment, "tzinfo", None) is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us")


def to_days(moments: NDArray[np.datetime64]) -> Floats:
    """Return dates as days since 1970-01-01; NaN where there is none."""
    exact = moments.astype("datetime64[us]")
    days = exact.astype(np.int64) / MICROSECONDS_A_DAY
    return np.asarray(np.where(np.isnat(exact), np.nan, days))


def to_dates(days: ArrayLike) -> NDArray[np.datetime64]:
    """Return days since 1970-01-01 as dates, to the second."""
    seconds = np.round(np.asarray(days, dtype=np.float64) * 86_400.0)
    return seconds.astype(np.int64).astype("datetime64[s]")


def complete_rows(x: Any, y: ArrayLike) -> Bools:
    """Return which rows (n,) have a value of both x (n, 1) and y (n,)."""
    try:
        there, targets = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"X, y: must be numbers or dates for missing='drop': {error}") from error
    if len(there) != len(targets):
        raise InvalidInputError(f"X, y: must have equal lengths, got {len(there)} and {len(targets)}")
    return ~(
        np.isnan(there).reshape(len(there), -1).any(axis=1) | np.isnan(targets).reshape(len(there), -1)[:, 0]
    )
