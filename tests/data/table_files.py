"""Tables as analysts have them, made before the reader: what each is to be read as, or the cure to be named.

The first twelve are those a user tried first; each holds the kinked line of `X`, `Y` or a few rows of it.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

X = [float(i) for i in range(1, 13)]
Y = [round(float(np.interp(x, [1, 7, 12], [2.0, 5.0, 2.5])), 2) for x in X]
DAYS = [(date(2024, 1, 1) + timedelta(days=i)).isoformat() for i in range(12)]
DAY_NUMBERS = [19723.0 + i for i in range(12)]
"""Days since 1970-01-01: 2024-01-01 is number 19,723."""


@dataclass(frozen=True)
class Case:
    """A file, the options, and either the x and y it holds or words that the refusal must have."""

    name: str
    content: bytes
    x: list[float] = field(default_factory=lambda: X)
    y: list[float] = field(default_factory=lambda: Y)
    options: dict[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()


def lines(rows: list[str], end: str = "\n") -> bytes:
    return (end.join(rows) + end).encode()


def pairs(separator: str = ",", pattern: str = "{x:g}{s}{y:g}") -> list[str]:
    return [pattern.format(x=x, y=y, s=separator) for x, y in zip(X, Y, strict=True)]


def commas(rows: list[str]) -> list[str]:
    return [row.replace(".", ",") for row in rows]


FOUR = [
    "id,dose,response,temp",
    *(f"{i},{x:g},{y:g},20.5" for i, (x, y) in enumerate(zip(X, Y, strict=True))),
]
GAPS = ["x,y", *pairs()]
GAPS[3], GAPS[8] = "3,", "8,NA"
KEPT = [i for i in range(12) if i not in (2, 7)]
WIDE = [f"{1000 + 500 * i}" for i in range(12)]

FIRST = [
    Case("two columns", lines(pairs())),
    Case("header", lines(["dose,response", *pairs()])),
    Case("quoted", lines(['"dose","response"', *(f'"{x:g}","{y:g}"' for x, y in zip(X, Y, strict=True))])),
    Case("BOM and CRLF", b"\xef\xbb\xbf" + lines(["dose,response", *pairs()], "\r\n")),
    Case(
        "semicolons and decimal commas",
        lines(["dose;response", *commas(pairs(";"))]),
        noted=("semicolons", "decimal commas"),
    ),
    Case(
        "ISO dates",
        lines(["day,value", *(f"{d},{y:g}" for d, y in zip(DAYS, Y, strict=True))]),
        x=DAY_NUMBERS,
        noted=("dates",),
    ),
    Case("empty and NA cells", lines(GAPS), refused=("line 4", "'y'", "2 of 12", "--missing drop")),
    Case(
        "empty and NA cells, dropped",
        lines(GAPS),
        x=[X[i] for i in KEPT],
        y=[Y[i] for i in KEPT],
        options={"missing": "drop"},
        noted=("2 of 12 rows",),
    ),
    Case("four columns", lines(FOUR), refused=("id, dose, response, temp", "--x", "--y")),
    Case("four columns, named", lines(FOUR), options={"x": "dose", "y": "response"}),
    Case("tabs", lines(["dose\tresponse", *pairs("\t")]), noted=("tabs",)),
    Case("blanks", lines(pairs("   ")), noted=("blanks",)),
    Case(
        "comment above the header",
        lines(["# from the lab", "dose,response", *pairs()]),
        noted=("1 comment line",),
    ),
    Case("no such file", b"", refused=("no data",)),
]

MORE = [
    Case("gzip", gzip.compress(lines(["x,y", *pairs()]))),
    Case("UTF-16", ("\r\n".join(["dose,response", *pairs()]) + "\r\n").encode("utf-16")),
    Case(
        "Latin-1 name",
        lines(["Größe,Wert", *pairs()]).decode().encode("latin-1"),
        options={"x": "Größe"},
        noted=("Latin-1",),
    ),
    Case("sep= of a spreadsheet", lines(["sep=;", "x;y", *pairs(";")])),
    Case("trailing separators", lines(["x,y,", *(row + "," for row in pairs())])),
    Case(
        "index column",
        lines([",x,y", *(f"{i},{row}" for i, row in enumerate(pairs()))]),
        noted=("numbers the rows",),
    ),
    Case("line of units", lines(["time,height", "s,m", *pairs()]), noted=("units",)),
    Case(
        "names in a comment", lines(["# dose response", *pairs(" ")]), options={"x": "dose", "y": "response"}
    ),
    Case("decimal commas and tabs", lines(["x\ty", *commas(pairs("\t"))]), noted=("decimal commas",)),
    Case(
        "decimal commas and blanks",
        lines(commas([f"{x:.1f} {y:.2f}" for x, y in zip(X, Y, strict=True)])),
        noted=("decimal commas",),
    ),
    Case(
        "decimal commas between commas",
        lines(["x,y", *(f"{x:.1f},{y:.1f}".replace(".", ",") for x, y in zip(X, Y, strict=True))]),
        refused=("line 2", "4 columns", "decimal commas"),
    ),
    Case(
        "thousands in quotes",
        lines(["x,y", *(f'{x:g},"{int(w):,}"' for x, w in zip(X, WIDE, strict=True))]),
        y=[float(w) for w in WIDE],
        noted=("thousands",),
    ),
    Case(
        "thousands or decimals",
        lines(["x;y", "1;1,250", "2;1,500", "3;2,125", "4;3,000"]),
        refused=("1,250", "--decimal"),
    ),
    Case(
        "thousands or decimals, decided",
        lines(["x;y", "1;1,250", "2;1,500", "3;2,125", "4;3,000"]),
        x=[1, 2, 3, 4],
        y=[1.25, 1.5, 2.125, 3.0],
        options={"decimal": ","},
    ),
    Case(
        "points for thousands",
        lines(["x;y", "1;1.250,5", "2;12.500,25", "3;2.125,0"]),
        x=[1, 2, 3],
        y=[1250.5, 12500.25, 2125.0],
        noted=("decimal commas", "thousands"),
    ),
    Case(
        "American dates",
        lines(["day,v", "12/30/2023,1", "12/31/2023,2", "01/01/2024,4"]),
        x=[19721, 19722, 19723],
        y=[1, 2, 4],
        noted=("month first",),
    ),
    Case(
        "European dates",
        lines(["day;v", "30.12.2023;1,5", "31.12.2023;2", "01.01.2024;4"]),
        x=[19721, 19722, 19723],
        y=[1.5, 2, 4],
        noted=("day first",),
    ),
    Case(
        "dates that could be either",
        lines(["day,v", "01/02/2024,1", "03/04/2024,2", "05/06/2024,4"]),
        refused=("'01/02/2024'", "--date-format"),
    ),
    Case(
        "dates that could be either, decided",
        lines(["day,v", "01/01/2024,1", "02/01/2024,2", "03/01/2024,4"]),
        x=[19723, 19724, 19725],
        y=[1, 2, 4],
        options={"date_format": "%d/%m/%Y"},
    ),
    Case(
        "dates as numbers",
        lines(["day,v", "20231231,2", "20240101,4", "20240102,1"]),
        x=[19722, 19723, 19724],
        y=[2, 4, 1],
        noted=("dates",),
    ),
    Case(
        "times of day and zones",
        lines(
            ["t,v", "2024-01-01T00:00:00Z,1", "2024-01-01T18:00:00+06:00,2", "2024-01-02 00:00:00+00:00,4"]
        ),
        x=[19723, 19723.5, 19724],
        y=[1, 2, 4],
    ),
    Case(
        "month names",
        lines(["m,v", "Nov 2023,1", "Dec 2023,2", "Jan 2024,4"]),
        x=[19662, 19692, 19723],
        y=[1, 2, 4],
    ),
    Case(
        "not a date in the calendar",
        lines(["day,v", "2024-02-29,1", "2024-02-30,2", "2024-03-01,3"]),
        refused=("line 3", "'2024-02-30'"),
    ),
    Case("ragged", lines(["x,y", "1,2", "2,3,4", "3,5"]), refused=("line 3", "3 columns")),
    Case("total below", lines(["x,y", *pairs(), "total,50"]), refused=("line 14", "'total'")),
    Case("units in cells", lines(["x,y", "1 kg,2", "2 kg,3", "3 kg,5"]), refused=("line 2", "'1 kg'")),
    Case("code for missing", lines(["x,y", *pairs(), "13,-999"]), refused=("-999", "--na")),
    Case(
        "code for missing, named",
        lines(["x,y", *pairs(), "13,-999"]),
        options={"na": "-999", "missing": "drop"},
        noted=("1 of 13 rows",),
    ),
    Case("infinite", lines(["x,y", "1,2", "2,inf", "3,5"]), refused=("line 3", "'inf'")),
    Case(
        "a name twice",
        lines(["t,y,y", *(f"{row},0" for row in pairs())]),
        options={"x": "t", "y": "y"},
        refused=("'y'", "2 columns", "--y 2"),
    ),
    Case(
        "a wrong name",
        lines(["dose,response", *pairs()]),
        options={"x": "does", "y": "response"},
        refused=("'does'", "dose, response", "did you mean dose"),
    ),
    Case("numbers of columns", lines(FOUR), options={"x": "2", "y": "3"}),
    Case("one column", lines(["v", *(f"{y:g}" for y in Y)]), refused=("one column", "--x row")),
    Case("one column over its rows", lines(["v", *(f"{y:g}" for y in Y)]), options={"x": "row"}),
    Case("workbook", b"PK\x03\x04" + bytes(60), refused=("spreadsheet", "CSV")),
    Case("binary", bytes(range(256)), refused=("text",)),
    Case("header alone", lines(["x,y"]), refused=("no data",)),
    Case("x for y", lines(["a,b", *pairs()]), options={"x": "a", "y": "a"}, refused=("--y", "other than")),
]

CASES = [*FIRST, *MORE]
