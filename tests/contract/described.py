"""The public names, signatures, attributes, commands and options of the package, as plain data.

`write_files` writes the descriptions of version 0.1 down; the tests compare those of the present code.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
from click.testing import CliRunner

import shallowflow as sf
from shallowflow.cli import main

FOLDER = Path(__file__).parent
MODULES: dict[str, ModuleType] = {
    "shallowflow": sf,
    "shallowflow.certificates": sf.certificates,
    "shallowflow.data": sf.data,
    "shallowflow.estimators": sf.estimators,
    "shallowflow.experiments": sf.experiments,
    "shallowflow.initialize": sf.initialize,
    "shallowflow.landscape": sf.landscape,
    "shallowflow.studies": sf.studies,
}
TABLES: dict[str, Mapping[str, Any]] = {
    "certificates.CERTIFICATES": sf.certificates.CERTIFICATES,
    "certificates.VERDICTS": sf.certificates.VERDICTS,
    "data.CURVES": sf.data.CURVES,
    "data.GENERATORS": sf.data.GENERATORS,
    "experiments.EXPERIMENTS": sf.experiments.EXPERIMENTS,
}
"""Public dictionaries whose keys users write."""

ANSWERS = (
    "list --json",
    "simulate three_points --width 5 --descent --steps 20 --json",
    "simulate three_points --width 5 --until 1 --json",
    "fit data.csv --knots 3 --json",
    "certify three_points --paper plateau --json",
)
"""Commands that answer with one JSON object."""

Parameter = list[str | None]
"""Name, kind, repr of the default (None: there is none)."""


def read(name: str) -> Any:
    """Return what is written down in a file of this folder."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def names() -> dict[str, Any]:
    """Return all that can be written after `import shallowflow as sf`."""
    named: dict[str, Any] = {
        f"{module}.{name}": getattr(where, name)
        for module, where in MODULES.items()
        for name in where.__all__
    }
    tables = {f"{table}[{key}]": value for table, keys in TABLES.items() for key, value in keys.items()}
    functions = {name: value for name, value in {**named, **tables}.items() if inspect.isfunction(value)}
    return {
        "modules": {name: sorted(module.__all__) for name, module in MODULES.items()},
        "tables": {name: list(table) for name, table in TABLES.items()},
        "functions": {name: parameters(function) for name, function in functions.items()},
        "classes": {name: _class(value) for name, value in named.items() if inspect.isclass(value)},
        "fitted": fitted_attributes(),
    }


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return name, kind and default of every parameter."""
    return [
        [one.name, one.kind.name, None if one.default is one.empty else repr(one.default)]
        for one in inspect.signature(function).parameters.values()
    ]


def _class(kind: type[Any]) -> dict[str, Any]:
    """Return the constructor, the fields, the attributes and the methods that the package itself defines."""
    own = {name: value for name, value in _defined(kind).items() if not name.startswith("_")}
    methods = {name: getattr(kind, name) for name, value in own.items() if _is_method(value)}
    return {
        "constructor": None if issubclass(kind, Exception) else parameters(kind),
        "fields": [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else [],
        "attributes": sorted(own),
        "methods": {name: parameters(method) for name, method in sorted(methods.items())},
        "errors": [base.__name__ for base in (sf.ShallowflowError, ValueError) if issubclass(kind, base)],
    }


def _defined(kind: type[Any]) -> dict[str, Any]:
    """Return what the classes of the package (not those of other libraries) define for `kind`."""
    own = [base for base in reversed(kind.__mro__) if base.__module__.partition(".")[0] == "shallowflow"]
    found = {name: value for base in own for name, value in vars(base).items()}
    return {name: value for name, value in found.items() if not name.endswith("_request")}  # scikit-learn's


def _is_method(value: object) -> bool:
    return isinstance(value, classmethod | staticmethod) or inspect.isfunction(value)


def fitted_attributes() -> dict[str, list[str]]:
    """Return the attributes of every estimator that fitting sets."""
    x = np.linspace(0.0, 1.0, 40)
    found = {}
    for kind in (*sf.estimators.ESTIMATORS, sf.estimators.StepRegressor):
        iterations: dict[str, Any] = (
            {"max_iter": 20} if "max_iter" in inspect.signature(kind).parameters else {}
        )
        fitted = kind(5, random_state=0, **iterations).fit(x[:, None], np.where(x > 0.45, 1.0, 0.0))
        found[kind.__name__] = sorted(name for name in vars(fitted) if name.endswith("_"))
    return found


def commands() -> dict[str, Any]:
    """Return every command of the command line with its options and arguments."""
    return _commands(main, "shallowflow")


def _commands(command: click.Command, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {name: {one.name: _option(one) for one in command.params}}
    if isinstance(command, click.Group):
        for key, child in command.commands.items():
            found |= _commands(child, f"{name} {key}")
    return found


def _option(option: click.Parameter) -> dict[str, Any]:
    kind = option.type
    flag = isinstance(option, click.Option) and option.is_flag
    return {
        "kind": option.param_type_name,
        "written": sorted([*option.opts, *option.secondary_opts]),
        "type": "flag" if flag else kind.name,
        "choices": list(kind.choices) if isinstance(kind, click.Choice) else None,
        "default": _plain_default(option),
        "required": option.required,
        "several": bool(isinstance(option, click.Option) and option.multiple) or option.nargs != 1,
    }


def answers(folder: Path) -> dict[str, list[str]]:
    """Return the keys of what the commands of `ANSWERS` print; a small data.csv is written to a folder."""
    data, found = folder / "data.csv", {}
    data.write_text("".join(f"{x / 10},{abs(x - 7)}\n" for x in range(20)))
    for line in ANSWERS:
        arguments = [str(data) if word == data.name else word for word in line.split()]
        found[line] = sorted(json.loads(CliRunner().invoke(main, arguments).stdout))
    return found


def _plain_default(option: click.Parameter) -> str | None:
    """Return the repr of the value that a command gets if nothing is written."""
    with click.Context(main) as context:
        value = option.consume_value(context, {})[0]
    return None if value is None or type(value).__name__ == "Sentinel" else repr(value)
