"""Tables from text files as analysts have them: separators, decimals, names and dates are guessed, and said.

`read_table` finds the cells, `read_pairs` the columns x and y of a fit. A guess is taken only if it is the
one reading under which the cells are numbers or dates; a refusal names the line, the cell and the cure.

Cells are numbers with decimal points or commas, dates, or stand for "missing". Dates become days since
1970-01-01 (UTC where a zone is given). What can be read in two ways is refused.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from shallowflow.arrays import Floats, one_of, shown
from shallowflow.errors import FileFormatError, InvalidInputError, did_you_mean
from shallowflow.files import as_path, refuse_device

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


SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}
SAMPLE = 200
"""Lines by which separator and decimal mark are guessed."""
LARGE, HEAD, LARGEST = 8 << 20, 1 << 18, 1 << 30
"""Bytes from which a plain table is read by NumPy, those by which it is judged, and the most that is read."""
NO_TEXT = ("\0", "\x01", "\x02", "\x03")


@dataclass(frozen=True)
class Table:
    """Names of columns, the rows of cells below them with their line numbers, and what was guessed."""

    source: str
    names: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]
    decimal: str
    notes: tuple[str, ...]
    delimiter: str | None = None


@dataclass(frozen=True)
class PairOptions:
    """What a user may say about a table; None: it is guessed.

    x, y, weights: names or numbers of columns (x "row": the number of the row); missing: "error" or "drop";
    na: further cells that mean "missing", separated by commas ("none": none but the usual ones).
    """

    x: str | None = None
    y: str | None = None
    weights: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    missing: str = "error"
    na: str | None = None

    def __post_init__(self) -> None:
        one_of(self.missing, "--missing", ("error", "drop"))
        if self.decimal is not None:
            one_of(self.decimal, "--decimal", (".", ","))
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InvalidInputError(f"--delimiter: must be one character, got {shown(self.delimiter)}")
        if self.delimiter is not None and self.delimiter == self.decimal:
            raise InvalidInputError(f"--decimal: must differ from --delimiter, got {shown(self.decimal)}")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Columns x and y, each (n,), perhaps weights, their names, and what was guessed or left out.

    dates: whether x are days since 1970-01-01.
    """

    x: Floats
    y: Floats
    weights: Floats | None
    x_name: str
    y_name: str
    dates: bool
    dropped: int
    notes: tuple[str, ...]


def read_table(
    source: str | Path | BinaryIO, delimiter: str | None = None, decimal: str | None = None
) -> Table:
    """Read a text table, perhaps compressed by gzip: one row a line, names above, # before comments."""
    name = str(getattr(source, "name", "standard input")) if hasattr(source, "read") else str(source)
    text, notes = _text(source, name)
    numbered = [(i, line.strip("\r\n")) for i, line in enumerate(text.splitlines(), start=1)]
    comments = [line for _, line in numbered if line.lstrip().startswith("#")]
    numbered = [(i, line) for i, line in numbered if line.strip() and not line.lstrip().startswith("#")]
    if numbered and (declared := re.fullmatch(r'"?sep=(.)"?', numbered[0][1].strip())):
        delimiter, numbered = delimiter or declared[1], numbered[1:]
    if not numbered:
        raise FileFormatError(f"{name}: no data: expected lines of numbers")
    if comments:
        notes.append(f"{len(comments)} comment line{'s' if len(comments) > 1 else ''} skipped")
    lines = [line for _, line in numbered]
    delimiter, decimal = _dialect(lines, delimiter, decimal, name)
    if delimiter not in (",", None):
        notes.append(f"columns separated by {SEPARATORS.get(delimiter, repr(delimiter))}")
    rows = list(_split(lines, delimiter))
    names, rows, places, said = _header(rows, [i for i, _ in numbered], comments, decimal, name)
    notes += said
    if not rows:
        raise FileFormatError(f"{name}: no data below the names {', '.join(names)}")
    _check_widths(names, rows, places, name)
    names, rows, said = _without_idle_columns(names, rows)
    cells = [cell for row in rows for cell in row]
    if decimal == ",":
        notes.append("decimal commas")
    if any(has_thousands(cell, decimal) for cell in cells):
        notes.append("marks between thousands")
    return Table(name, tuple(names), rows, places, decimal, (*notes, *said), delimiter)


def read_pairs(source: str | Path | BinaryIO, options: PairOptions) -> Pairs:
    """Read the columns x and y (and weights) of a table; dates become days since 1970-01-01."""
    if (plain := _plain(source, options)) is not None:
        return plain
    table = read_table(source, options.delimiter, options.decimal)
    chosen = _choice(table, options)
    extra = frozenset(part.strip() for part in (options.na or "").split(",") if part.strip())
    kept = _complete(table, [index for index in chosen.values() if index >= 0], options, extra)
    places = [f"{table.source}: line {table.lines[i]}" for i in kept]
    notes, columns, dates = list(table.notes), dict[str, Floats](), False
    if len(kept) < len(table.rows):
        notes.append(f"{len(table.rows) - len(kept)} of {len(table.rows)} rows left out: no value")
    for what, index in chosen.items():
        if index < 0:
            columns[what] = np.array(kept, dtype=np.float64) + 1.0
            continue
        cells = [table.rows[i][index] for i in kept]
        if what == "x" and (options.date_format or is_date(cells[0]) or all_compact(cells)):
            since, how = days(cells, places, options.date_format)
            columns[what], dates = np.array(since), True
            notes.append(f"{table.names[index]}: dates, {how}; slopes are per day")
        else:
            columns[what] = _numbers(cells, places, table.decimal)
            check_codes(columns[what], table.names[index], options.na)
    names = {what: table.names[i] if i >= 0 else "row" for what, i in chosen.items()}
    dropped = len(table.rows) - len(kept)
    found = columns["x"], columns["y"], columns.get("weights")
    return Pairs(*found, names["x"], names["y"], dates, dropped, tuple(notes))


def _plain(source: str | Path | BinaryIO, options: PairOptions) -> Pairs | None:
    """Return the columns of a large file of plain numbers, in little memory; None: it is not one."""
    if hasattr(source, "read") or not as_path(source).is_file() or as_path(source).stat().st_size < LARGE:
        return None
    with as_path(source).open("rb") as file:
        head = file.read(HEAD)
    table = read_table(BytesIO(head[: head.rfind(b"\n") + 1]), options.delimiter, options.decimal)
    chosen = _choice(replace(table, source=str(source)), options)
    cells = [row[chosen["x"]] for row in table.rows]
    dates = options.date_format or is_date(cells[0]) or all_compact(cells)
    if dates or min(chosen.values()) < 0 or table.decimal != "." or "left out" in " ".join(table.notes):
        return None
    layout: dict[str, Any] = {
        "delimiter": None if table.delimiter == " " else table.delimiter,
        "quotechar": '"',
    }
    try:
        found = np.loadtxt(source, usecols=[*chosen.values()], skiprows=table.lines[0] - 1, ndmin=2, **layout)
    except ValueError:  # the slow reader names the line
        return None
    columns = dict(zip(chosen, np.ascontiguousarray(found.T), strict=True))
    if not np.isfinite(found).all():
        return None
    for what, index in chosen.items():
        check_codes(columns[what], table.names[index], options.na)
    names = {what: table.names[index] for what, index in chosen.items()}
    values = columns["x"], columns["y"], columns.get("weights")
    return Pairs(*values, names["x"], names["y"], False, 0, table.notes)


def _text(source: str | Path | BinaryIO, name: str) -> tuple[str, list[str]]:
    """Return the text of a file, and its encoding if that is unusual."""
    try:
        if not hasattr(source, "read"):
            refuse_device(as_path(source))
        with nullcontext(source) if hasattr(source, "read") else as_path(source).open("rb") as file:
            content = file.read(LARGEST + 1)
        if content[:2] == b"\x1f\x8b":
            content = gzip.GzipFile(fileobj=BytesIO(content)).read(LARGEST + 1)
        if len(content) > LARGEST:
            raise FileFormatError(f"{name}: must be at most {LARGEST >> 20} MB of text")
    except (OSError, EOFError) as error:
        raise FileFormatError(
            f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    if content[:4] == b"PK\x03\x04":
        raise FileFormatError(f"{name}: is a spreadsheet or an archive: save the table as CSV")
    notes: list[str] = []
    try:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = content.decode("utf-16")
        else:
            text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
        notes.append("read as Latin-1")
    if any(mark in text for mark in NO_TEXT):
        raise FileFormatError(f"{name}: is not a text file: save the table as CSV")
    return text, notes


def _split(lines: Sequence[str], delimiter: str | None) -> Iterator[list[str]]:
    """Yield the cells of every line, without quotes and blanks around them."""
    if delimiter is None:
        yield from ([line.strip().strip('"')] for line in lines)
    elif delimiter == " ":
        yield from ([cell.strip('"') for cell in line.split()] for line in lines)
    else:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        yield from ([cell.strip() for cell in row] for row in reader)


def _dialect(
    lines: Sequence[str], delimiter: str | None, decimal: str | None, name: str
) -> tuple[str | None, str]:
    """Return separator and decimal mark: the reading under which most cells are values.

    A separator of None: there is one column.
    """
    sample = lines[:SAMPLE]
    marks = [decimal] if decimal else [".", ","] if any("," in line for line in sample) else ["."]
    scores: dict[tuple[str | None, str], float] = {}
    for separator in [delimiter] if delimiter else [*SEPARATORS]:
        rows = list(_split(sample, separator))
        width, often = Counter(map(len, rows)).most_common(1)[0]
        if width < 2:
            continue
        # Names are above the data.
        cells = [cell for row in rows[min(1, len(rows) - 1) :] if len(row) == width for cell in row]
        for mark in marks:
            good = sum(is_value(cell, mark) for cell in cells) / max(len(cells), 1)
            scores[separator, mark] = good * often / len(rows)
    if not scores:
        return delimiter, marks[0]
    best = max(scores, key=lambda one: scores[one])
    other = (best[0], ",")
    if best[1] == "." and best[0] != "," and scores.get(other) == scores[best]:
        cells = [cell for row in _split(sample, best[0]) for cell in row]
        for cell in cells:
            if has_thousands(cell, "."):
                raise FileFormatError(
                    f"{name}: {cell!r} may be a decimal comma or a mark between thousands: "
                    "say --decimal , or --decimal ."
                )
    return best


def _header(
    rows: list[list[str]], lines: list[int], comments: list[str], decimal: str, name: str
) -> tuple[list[str], list[list[str]], list[int], list[str]]:
    """Return names, the rows of data, their lines, and what to say about it."""

    def texts(row: list[str]) -> list[bool]:
        return [bool(cell) and not is_value(cell, decimal) for cell in row]

    width, said = max(map(len, rows[:SAMPLE])), list[str]()
    if any(texts(rows[0])):
        below = rows[1] if len(rows) > 1 else []
        column = next(i for i, text in enumerate(texts(rows[0])) if text)
        is_header = all(texts(rows[0])) or column >= len(below) or is_value(below[column], decimal)
        if is_header:
            names, rows, lines = rows[0], rows[1:], lines[1:]
            if len(rows) > 1 and all(texts(rows[0])) and not any(texts(rows[1])):
                said.append(f"units {', '.join(rows[0])} in the line below the names")
                rows, lines = rows[1:], lines[1:]
            if rows and all(len(row) == len(names) + 1 for row in rows):
                # Either every line ends with a separator, or the first column has no name.
                names = [*names, ""] if all(row[-1] == "" for row in rows) else ["", *names]
            return names, rows, lines, said
    above = comments[-1].lstrip("# ").replace(",", " ").split() if comments else []
    if len(above) == width and not any(number(cell, decimal) is not None for cell in above):
        return above, rows, lines, ["names from the comment above"]
    return ["x", "y"] if width == 2 else [f"column {i + 1}" for i in range(width)], rows, lines, said


def _check_widths(names: list[str], rows: list[list[str]], lines: list[int], name: str) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) == len(names):
            continue
        hint = ""
        if len(row) == 2 * len(names):
            hint = "; decimal commas between commas look like separators: separate columns by semicolons"
        raise FileFormatError(
            f"{name}: line {line}: expected {len(names)} columns, found {len(row)} columns{hint}"
        )


def _without_idle_columns(
    names: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]], list[str]]:
    """Leave out columns without any cell, and a first one without name that numbers the rows."""
    keep, said = [], []
    for index, name in enumerate(names):
        column = [row[index] for row in rows]
        if not name and not any(column):
            continue
        counted = [str(i) for i in range(len(rows) + 1)]
        if index == 0 and not name and len(names) > 2 and column in (counted[:-1], counted[1:]):
            said.append("the first column numbers the rows and is left out")
            continue
        keep.append(index)
    named = [names[i] or f"column {i + 1}" for i in keep]
    return named, [[row[i] for i in keep] for row in rows], said


def _choice(table: Table, options: PairOptions) -> dict[str, int]:
    """Return the indices of the columns x, y and perhaps weights; −1 is the number of the row."""
    wanted = {"x": options.x, "y": options.y, "weights": options.weights}
    found = {what: _index(table, name, what) for what, name in wanted.items() if name is not None}
    free = [i for i in range(len(table.names)) if i not in found.values()]
    missing = [what for what in ("x", "y") if what not in found]
    if len(table.names) == 1 and "x" not in found:
        raise FileFormatError(
            f"{table.source}: has one column ({table.names[0]}): --x row fits it over the number of its row"
        )
    if len(missing) != len(free) and missing:
        raise FileFormatError(
            f"{table.source}: has {len(table.names)} columns ({', '.join(table.names)}): "
            "choose two by name, as in --x NAME --y NAME"
        )
    found |= dict(zip(missing, free, strict=True)) if missing else {}
    if found["x"] == found["y"]:
        raise InvalidInputError(
            f"--y: must be another column than --x (other than {table.names[found['x']]})"
        )
    return {what: found[what] for what in ("x", "y", "weights") if what in found}


def _index(table: Table, name: str, what: str) -> int:
    if what == "x" and name == "row" and "row" not in table.names:
        return -1
    same = [i for i, one in enumerate(table.names) if one == name]
    if len(same) > 1:
        raise FileFormatError(
            f"{table.source}: {len(same)} columns have the name {name!r}: "
            f"say its number, as in --{what} {same[0] + 1}"
        )
    if same:
        return same[0]
    if name.isdecimal() and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    raise FileFormatError(
        f"{table.source}: has no column {name!r}; there are {', '.join(table.names)}"
        f"{did_you_mean(name, table.names)}"
    )


def _complete(table: Table, columns: list[int], options: PairOptions, extra: frozenset[str]) -> list[int]:
    """Return the rows that have a value in all of these columns; refuse others unless they may be dropped."""
    kept = [
        i for i, row in enumerate(table.rows) if not any(is_missing(row[column], extra) for column in columns)
    ]
    lacking = len(table.rows) - len(kept)
    if lacking and options.missing == "error":
        row = next(i for i in range(len(table.rows)) if i >= len(kept) or kept[i] != i)
        column = next(column for column in columns if is_missing(table.rows[row][column], extra))
        raise FileFormatError(
            f"{table.source}: line {table.lines[row]}: no value of {table.names[column]!r}; "
            f"{lacking} of {len(table.rows)} rows lack one: --missing drop leaves them out"
        )
    if not kept:
        raise FileFormatError(f"{table.source}: no data: no row has all values")
    return kept


def _numbers(cells: list[str], places: list[str], decimal: str) -> Floats:
    """Return a column of finite numbers."""
    found = np.empty(len(cells))
    for i, cell in enumerate(cells):
        value = number(cell, decimal)
        if value is None or not np.isfinite(value):
            hint = "; for decimal commas say --decimal ," if "," in cell and decimal == "." else ""
            raise FileFormatError(f"{places[i]}: expected a finite number, got {cell[:40]!r}{hint}")
        found[i] = value
    return found
