"""Cells of a table: numbers with decimal points or commas, dates, and what stands for "missing".

Dates become days since 1970-01-01 (UTC where a zone is given). What can be read in two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.errors import FileFormatError

MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "missing", "<na>")
)
"""Cells that hold no value, in lower case."""
CODES = (-99.0, -999.0, -9999.0, -99999.0, 9999.0, 99999.0)
"""Numbers that often stand for "missing"."""
FAR = 3.0
"""A code is suspect if it lies this many ranges of the other values away from them."""
GROUPS = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+") for mark in ",."}
"""Whole numbers with a mark between thousands."""
CLOCK = r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?"
ISO = re.compile(rf"\d{{4}}[-/]\d{{1,2}}(?:[-/]\d{{1,2}}{CLOCK})?")
LOCAL = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}})({CLOCK})")
QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])", re.IGNORECASE)
COMPACT = re.compile(r"(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
WORDED = re.compile(r"(?=.*[A-Za-z]{3})(?=.*\d{4})[\w ,.-]{6,20}")
WORDED_FORMATS = ("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y", "%b %Y", "%B %Y", "%Y %b", "%Y %B")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS_A_DAY = 86_400.0


def number(cell: str, decimal: str) -> float | None:
    """Return the number that a cell holds, None if it holds none; thousands may be marked by , or ."""
    other = "," if decimal == "." else "."
    try:
        # float() also takes 1_000 and other digits than 0 to 9, which no table means.
        if "_" in cell or not cell.isascii():
            return None
        if other not in cell:
            return float(cell.replace(decimal, "."))
        whole, _, rest = cell.partition(decimal)
        if GROUPS[other].fullmatch(whole.strip()) and other not in rest:
            return float(f"{whole.replace(other, '')}.{rest or '0'}")
    except ValueError:
        return None
    return None


def has_thousands(cell: str, decimal: str) -> bool:
    """Return whether a number has marks between its thousands."""
    return ("," if decimal == "." else ".") in cell and number(cell, decimal) is not None


def is_date(cell: str) -> bool:
    """Return whether a cell looks like a date."""
    patterns = (ISO, LOCAL, QUARTER)
    return any(pattern.fullmatch(cell) for pattern in patterns) or _worded(cell) is not None


def is_missing(cell: str, extra: frozenset[str]) -> bool:
    """Return whether a cell holds no value; `extra`: further words for that."""
    return cell.lower() in MISSING or cell in extra


def is_value(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number, a date or missing."""
    return cell.lower() in MISSING or number(cell, decimal) is not None or is_date(cell)


def all_compact(cells: Sequence[str]) -> bool:
    """Return whether all cells are eight digits that read as a date, such as 20240131."""
    return bool(cells) and all(COMPACT.fullmatch(cell) for cell in cells)


def days(cells: Sequence[str], where: Sequence[str], written: str | None) -> tuple[list[float], str]:
    """Return the dates of a column as days since 1970-01-01, and how they were read.

    `where`: what to call each cell in a message; `written`: the format as of `datetime.strptime`.
    """

    def as_written(cell: str) -> datetime:
        return datetime.strptime(cell, written or "")

    read, note = _reader(cells, where) if written is None else (as_written, f"as {written}")
    found: list[float] = []
    for cell, place in zip(cells, where, strict=True):
        try:
            moment = read(cell)
        except ValueError as error:
            raise FileFormatError(f"{place}: expected a date, got {cell[:40]!r}") from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        found.append((moment - EPOCH).total_seconds() / SECONDS_A_DAY)
    return found, note


def _reader(cells: Sequence[str], where: Sequence[str]) -> tuple[Callable[[str], datetime], str]:
    """Return what reads the dates of a column, chosen by its first cell, and its name."""
    first = cells[0]
    if COMPACT.fullmatch(first):
        return (lambda cell: datetime.strptime(cell, "%Y%m%d")), "as YYYYMMDD"
    if LOCAL.fullmatch(first):
        day_first = _day_first(cells, where)
        return (lambda cell: _local(cell, day_first)), "day first" if day_first else "month first"
    if QUARTER.fullmatch(first):
        return _quarter, "as the first days of quarters"
    if ISO.fullmatch(first):
        return _iso, "year first"
    return _by_name, "with names of months"


def _iso(cell: str) -> datetime:
    if not ISO.fullmatch(cell):
        raise ValueError(cell)
    day, time = re.split(r"[T ]", cell, maxsplit=1) if re.search(r"[T ]", cell) else (cell, "")
    parts = [int(part) for part in re.split("[-/]", day)]
    text = "-".join(f"{part:02d}" for part in (*parts, 1)[:3])
    return datetime.fromisoformat(f"{text} {time.replace(' ', '')}" if time else text)


def _local(cell: str, day_first: bool) -> datetime:
    match = LOCAL.fullmatch(cell)
    if match is None:
        raise ValueError(cell)
    first, _, second, year, time = match.groups()
    day, month = (first, second) if day_first else (second, first)
    return _iso(f"{year}-{month}-{day}{time}")


def _quarter(cell: str) -> datetime:
    match = QUARTER.fullmatch(cell)
    if match is None:
        raise ValueError(cell)
    return datetime(int(match[1]), 3 * int(match[2]) - 2, 1)


def _by_name(cell: str) -> datetime:
    moment = _worded(cell)
    if moment is None:
        raise ValueError(cell)
    return moment


def _worded(cell: str) -> datetime | None:
    """Return a date with the name of a month, such as "31 Jan 2024" or "Jan 2024"."""
    if not WORDED.fullmatch(cell):
        return None
    plain = " ".join(re.split(r"[ ,.-]+", cell))
    for form in WORDED_FORMATS:
        try:
            return datetime.strptime(plain, form)
        except ValueError:
            continue
    return None


def _day_first(cells: Sequence[str], where: Sequence[str]) -> bool:
    """Return whether dates such as 31/12/2024 have the day first; refuse those that could be either."""
    matches = [match for match in map(LOCAL.fullmatch, cells) if match]
    if any(int(match[1]) > 12 for match in matches):
        return True
    if any(int(match[3]) > 12 for match in matches):
        return False
    if matches[0][2] == ".":
        return True
    raise FileFormatError(
        f"{where[0]}: {cells[0]!r} may have the day or the month first: "
        "say --date-format %d/%m/%Y or --date-format %m/%d/%Y"
    )


def check_codes(values: Floats, name: str, na: str | None) -> None:
    """Refuse a number that stands for "missing", as far as one can see; na: what the user said of it."""
    if na is not None:
        return
    for code in CODES:
        others = values[values != code]
        if 5 <= len(others) < len(values):
            spread = float(np.ptp(others))
            if float(np.abs(others - code).min()) > FAR * max(spread, 1.0):
                raise FileFormatError(
                    f"{name}: {code:g} lies far from all other values and often stands for a missing one: "
                    f"--na {code:g} --missing drop leaves it out, --na none takes it for a number"
                )
