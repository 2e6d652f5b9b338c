"""Results as plain numbers and texts, the contents of JSON; durations and short formulas in running text.

Formulas such as t_n, D_max, 10^−6 and λ^(2ε) become subscripts and superscripts. Only what surely is one is
set: a subscript of a single letter that is no part of a word, so that file names and parameter names
(`label_seed`) stay as they are, and powers of a letter, number or bracket.
"""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shallowflow.arrays import shown
from shallowflow.certificates import Certificate, Verdict
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments.experiment import PAPERS, Experiment, Reproduction, apart, tally, tally_text
from shallowflow.experiments.figure import Figure
from shallowflow.files import write_atomically
from shallowflow.studies.study import version

if TYPE_CHECKING:
    from shallowflow.estimators.base import Pieces


LARGEST_SERIES = 10_000
"""Longer series are named with their length, without their numbers."""
PACKAGES = ("shallowflow", "numpy", "scipy", "numba", "matplotlib")


def summary(reproductions: Sequence[Reproduction], *, series: bool = False) -> dict[str, Any]:
    """Return versions, counts and every claim; with `series` the numbers of the figures too.

    claims: counts of what the papers say; ours: of what we ask besides; by_paper: both for every paper.
    """
    groups = by_paper(reproductions)
    return {
        "versions": versions(),
        **counts(reproductions),
        "by_paper": {paper: counts(group) for paper, group in groups.items()},
        "reproductions": [_reproduction(reproduction, series) for reproduction in reproductions],
    }


def by_paper(reproductions: Sequence[Reproduction]) -> dict[str, list[Reproduction]]:
    """Return reproductions by paper: the five papers in their usual order, then others."""
    words = dict.fromkeys((*PAPERS, *(reproduction.experiment.paper for reproduction in reproductions)))
    groups = {word: [r for r in reproductions if r.experiment.paper == word] for word in words}
    return {word: group for word, group in groups.items() if group}


def counts(reproductions: Sequence[Reproduction]) -> dict[str, dict[str, int]]:
    """Return how many claims hold, fail and are open: those of the papers, and ours."""
    both = apart(claim for reproduction in reproductions for claim in reproduction.claims)
    return {
        name: {"total": len(claims), **tally(claims)}
        for name, claims in zip(("claims", "ours"), both, strict=True)
    }


def claims_text(reproductions: Sequence[Reproduction]) -> str:
    """Return the counts in words, ours apart."""
    theirs, ours = apart(claim for reproduction in reproductions for claim in reproduction.claims)
    return tally_text(theirs) + (f"; of ours {tally_text(ours)}" if ours else "")


def _reproduction(reproduction: Reproduction, series: bool) -> dict[str, Any]:
    experiment = reproduction.experiment
    return {
        **{name: getattr(experiment, name) for name in ("name", "paper", "title", "source")},
        "scale": reproduction.scale,
        "parameters": plain(reproduction.parameters),
        "seconds": round(reproduction.seconds, 3),
        "error": reproduction.error,
        "versions": dict(reproduction.versions),
        "claims": [asdict(claim) for claim in reproduction.claims],
        "figures": [_figure(figure, series) for figure in reproduction.figures],
    }


def _figure(figure: Figure, series: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": figure.name, "title": figure.title, "caption": figure.caption}
    if series:
        described["panels"] = [
            {
                "title": panel.title,
                "x": panel.x_label,
                "y": panel.y_label,
                "series": [
                    {"label": one.label, "points": len(one.x)}
                    | ({"x": plain(one.x), "y": plain(one.y)} if len(one.x) <= LARGEST_SERIES else {})
                    for one in panel.series
                ],
            }
            for panel in figure.panels
        ]
    return described


def catalogue(
    experiments: Iterable[Experiment], demo: Sequence[str], generators: Mapping[str, Callable[..., Dataset]]
) -> dict[str, list[dict[str, Any]]]:
    """Return what there is: experiments, and data generators with the call that `simulate` takes."""
    return {
        "experiments": [
            {"name": e.name, "paper": e.paper, "title": e.title, "source": e.source, "demo": e.name in demo}
            for e in experiments
        ],
        "generators": [
            {"name": name, "call": _call(name, make), "description": (make.__doc__ or "").split("\n")[0]}
            for name, make in generators.items()
        ],
    }


def _call(name: str, make: Callable[..., Dataset]) -> str:
    """Return "name:REQUIRED,optional=default,[optional=]"; the seed is an option of its own."""
    parameters = [p for p in inspect.signature(make).parameters.values() if p.name != "seed"]
    words = [_parameter(p) for p in parameters]
    return f"{name}:{','.join(words)}" if words else name


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return f"{parameter.name}={parameter.name.upper()}"
    if parameter.default is None:
        return f"[{parameter.name}={parameter.name.upper()}]"
    return f"{parameter.name}={parameter.default}"


def run_summary(trajectory: Trajectory, dataset: Dataset, seconds: float) -> dict[str, Any]:
    """Return how one run went: outcome, losses, number of events, final time, statistics."""
    outcome = trajectory.outcome
    return {
        "data": _described(dataset),
        "network": {"type": type(trajectory.path.template).__name__, "width": trajectory.path.template.width},
        "outcome": {name: getattr(outcome, name) for name in ("status", "ok", "message", "advice")},
        "initial_loss": plain(trajectory.losses[0]),
        "final_loss": plain(trajectory.losses[-1]),
        "events": trajectory.statistics.get("events", len(trajectory.events)),
        "time": plain(trajectory.times[-1]),
        "seconds": round(seconds, 3),
        "statistics": plain(trajectory.statistics),
    }


def fit_summary(
    pieces: Pieces, dataset: Dataset, seconds: float, knots_asked: int | None = None
) -> dict[str, Any]:
    """Return pieces, losses and time of a fit; ends at infinity become null.

    knots_asked: the number of knots that was asked for, None if it was left to the data.
    """
    residuals = pieces.predict(dataset.inputs) - dataset.targets
    squares = float(residuals @ residuals)
    return {
        "data": {"name": dataset.name, "size": dataset.size},
        "distinct_inputs": len(np.unique(dataset.inputs)),
        "knots": len(pieces.knots),
        "knots_asked": knots_asked,
        "pieces": plain(pieces.table()),
        "loss": plain(0.5 * squares),
        "root_mean_square_error": plain(np.sqrt(squares / dataset.size)),
        "largest_error": plain(np.abs(residuals).max()),
        "seconds": round(seconds, 3),
    }


def write_pieces(pieces: Pieces, path: Path) -> None:
    """Write the pieces to a .csv or .json file, atomically and with all digits.

    JSON has null where CSV has -inf and inf: the outer ends of the first and the last piece.
    """
    rows = pieces.table()
    if path.suffix.lower() == ".json":
        text = json.dumps(plain(rows), indent=2) + "\n"
    else:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = stream.getvalue()
    write_atomically(path, text.encode())


def verdict_summary(verdicts: Sequence[Verdict], dataset: Dataset) -> dict[str, Any]:
    """Return what the papers say about a data set: words, numbers, tables, certificates."""
    return {
        "data": _described(dataset),
        "verdicts": [
            {
                "paper": verdict.paper,
                "applies": verdict.applies,
                "words": list(verdict.words),
                "numbers": plain(verdict.numbers),
                "tables": [
                    {
                        "title": table.title,
                        "rows": [plain(dict(zip(table.columns, row, strict=True))) for row in table.rows],
                    }
                    for table in verdict.tables
                ],
                "certificates": [_certificate(certificate) for certificate in verdict.certificates],
            }
            for verdict in verdicts
        ],
    }


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "theorem": certificate.theorem,
        "holds": certificate.holds,
        "hypotheses": [plain(asdict(hypothesis)) for hypothesis in certificate.hypotheses],
        "promises": [{"statement": one.statement, "bound": plain(one.bound)} for one in certificate.promises],
    }


def _described(dataset: Dataset) -> dict[str, Any]:
    return {"name": dataset.name, "size": dataset.size, "dimension": dataset.dimension}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that computed the numbers."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def plain(value: Any) -> Any:
    """Return `value` as what JSON can hold: NaN and infinities become null, the unknown its short text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return shown(value)


_FORMULA = re.compile(
    r"(?<![\w.\\-])(?P<base>[^\W\d_])_(?P<below>[A-Za-z0-9∞*]{1,5})(?!\w|\.\w)"
    r"|(?<=[\w)\]])\^(?:\((?P<inside>[^()\s]*)\)|(?P<power>[−-]?\w+))"
)


def seconds_text(seconds: float) -> str:
    """Return a duration as people say it: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min.

    Examples
    --------
    >>> seconds_text(0.42), seconds_text(200.0), seconds_text(7500)
    ('0.4 s', '3 min 20 s', '2 h 5 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def for_matplotlib(text: str) -> str:
    """Return text with its formulas as mathtext; everything else, dollar signs too, stands as it is.

    Examples
    --------
    >>> print(for_matplotlib("t / t_n for n = 10^100"))
    t / t$_{\\mathdefault{n}}$ for n = 10$^{{\\mathdefault{100}}}$
    """

    def replaced(found: re.Match[str]) -> str:
        if found["base"]:
            return rf"{found['base']}$_{{\mathdefault{{{found['below']}}}}}$"
        # mathtext opens no formula inside a formula.
        parts = re.split(r"_(\w+)", _power(found))
        words = [rf"{'_' * (i % 2)}{{\mathdefault{{{part}}}}}" for i, part in enumerate(parts) if part]
        return f"$^{{{''.join(words)}}}$"

    return _FORMULA.sub(replaced, text.replace("$", r"\$"))


def for_html(text: str) -> str:
    """Return escaped text with its formulas as <sub> and <sup>.

    Examples
    --------
    >>> for_html("w_j < 10^-3")
    'w<sub>j</sub> &lt; 10<sup>−3</sup>'
    """

    def replaced(found: re.Match[str]) -> str:
        if found["base"]:
            return f"{found['base']}<sub>{found['below']}</sub>"
        return f"<sup>{_FORMULA.sub(replaced, _power(found))}</sup>"

    return _FORMULA.sub(replaced, escape(text))


def _power(found: re.Match[str]) -> str:
    power = found["power"] if found["inside"] is None else found["inside"]
    return power.replace("-", "−")
