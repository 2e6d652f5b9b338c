"""What several commands share: the argument DATA, the files that they write, results as JSON."""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import click

from shallowflow.arrays import one_of, shown
from shallowflow.data import GENERATORS, Dataset
from shallowflow.errors import InvalidInputError, did_you_mean
from shallowflow.files import probe

EXAMPLES = {"size": "8", "dimension": "3", "name": "sin_5pi"}
"""Values that an error message gives as an example."""
LONG = 60.0
"""Seconds from which on a command says beforehand how long it will take."""
PACE = 2.0
"""Seconds of a run after which its pace is believed."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def read_data(text: str, *, seed: int, bias: bool | None, csv_bias: bool | Literal["line"]) -> Dataset:
    """Return the data named on the command line: a CSV file, or a generator with its arguments.

    bias: whether a coordinate 1 is appended; None: `csv_bias` for a CSV file ("line": if its inputs are one
    column), no for a generator.
    """
    name, _, arguments = text.partition(":")
    if name in GENERATORS:
        dataset = _generated(GENERATORS[name], arguments, seed, text)
    elif text.lower().endswith(".csv") or os.path.exists(text):
        dataset = Dataset.from_csv(text)
        if bias is None:
            bias = dataset.dimension == 1 if csv_bias == "line" else csv_bias
    else:
        known, hint = ", ".join(GENERATORS), did_you_mean(name, GENERATORS)
        raise InvalidInputError(f"DATA: must be a CSV file or one of {known}; got {shown(text)}{hint}")
    return dataset.with_bias() if bias else dataset


def _generated(make: Callable[..., Dataset], arguments: str, seed: int, text: str) -> Dataset:
    """Call a generator with arguments written as "value,key=value"."""
    words = [word.partition("=") for word in filter(None, arguments.split(","))]
    positional = [_number_or_word(word) for word, equals, _ in words if not equals]
    named = {key: _number_or_word(value) for key, equals, value in words if equals}
    if "seed" in inspect.signature(make).parameters:
        named.setdefault("seed", seed)
    try:
        return make(*positional, **named)
    except TypeError as error:
        reason, needed = str(error), _missing(make, len(positional), named)
        if needed:
            example = ",".join(f"{name}={EXAMPLES.get(name, 'VALUE')}" for name in needed)
            reason = f"needs {', '.join(needed)}, as in {text.partition(':')[0]}:{example}"
        raise InvalidInputError(f"DATA: {reason}; got {shown(text)}") from error


def _missing(make: Callable[..., Dataset], positional: int, named: Mapping[str, object]) -> list[str]:
    """Return the arguments without a default that were not given."""
    parameters = list(inspect.signature(make).parameters.values())[positional:]
    return [one.name for one in parameters if one.default is one.empty and one.name not in named]


def _number_or_word(text: str) -> int | float | str:
    try:
        return int(text) if text.strip("+-").isdecimal() else float(text)
    except ValueError:
        return text


def check_file(path: str | None, option: str, *endings: str) -> None:
    """Refuse a file that cannot be written, or whose name has another ending than these (None: no file)."""
    if path is None:
        return
    if endings:
        one_of(Path(path).suffix.lower(), f"{option}: ending", endings)
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(0, "it is a directory")
        probe(Path(path).parent)
    except OSError as error:
        raise InvalidInputError(
            f"{option}: must be a file in a writable directory, got {shown(path)} ({error.strerror})"
        ) from error


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def say_if_long(seconds: float, shorter: str) -> None:
    """Say on standard error how long a command will take, if it is more than a minute, and what helps."""
    if seconds > LONG:
        unit, size = ("hours", 3600.0) if seconds > 7200 else ("minutes", 60.0)
        number = f"{max(seconds / size, 2.0):,.0f}"
        click.echo(f"about {number} {unit}; Ctrl-C to stop, {shorter} make it shorter", err=True)


def say_if_slow(show: Callable[[float], None], shorter: str) -> Callable[[float], None]:
    """Return `show` for a run whose cost is not known before: it says once how long the rest will take.

    By the run's own pace, from its first share on (compilation is before it), if that is more than a minute.
    """
    first: tuple[float, float] | None = None
    said = False

    def watch(share: float) -> None:
        nonlocal first, said
        now = time.monotonic()
        first = first or (now, share)
        passed, gained = now - first[0], share - first[1]
        if not said and PACE < passed < LONG and gained > 0 and passed * (1.0 - share) / gained > LONG:
            said = True
            say_if_long(passed * (1.0 - share) / gained, shorter)
        show(share)

    return watch
