"""What a fit says for itself: a table to paste, intervals, sentences, a formula, a frame, a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from shallowflow.arrays import Bools, Floats, one_of, probability
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Pieces, Points, Rows, UnivariateRegressor
from shallowflow.estimators.intervals import (
    Interval,
    Model,
    band,
    each_knot,
    further_knot,
    knot_intervals,
    model_of,
    slope_intervals,
)
from shallowflow.estimators.noise import Correlation
from shallowflow.estimators.selection import Selected
from shallowflow.lazy import function

KINDS = ("mean", "observation")
STYLES = ("text", "latex", "python")
FAR_ORIGIN = 10.0
"""A formula has its origin at the first datum if x = 0 is this many ranges away."""


@dataclass(frozen=True)
class Summary:
    """A fit in tables: `knots` and `pieces` are rows (dictionaries), `lines` are sentences; print it.

    p: of each knot; further: of one more knot anywhere (0 knots: of a break at all). Under constraints and
    with jumps there are no intervals and tests: None.
    """

    title: str
    level: float
    knots: list[dict[str, Any]]
    pieces: list[dict[str, Any]]
    noise: float
    further: float | None
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share = f"{100 * self.level:g} % interval"
        known = {"low": share, "high": ""} if self.further is not None else {}
        parts = [self.title, ""]
        if self.knots:
            names = {"number": "knot", "estimate": "at", **known, "p": "p", "jump": "jump"}
            parts += [*_columns([{"number": i} | row for i, row in enumerate(self.knots, 1)], names), ""]
        parts += _columns(
            self.pieces, {"piece": "piece", "left": "from", "right": "to", "slope": "slope", **known}
        )
        parts += ["", f"noise: standard deviation {self.noise:.4g}"]
        if self.further is not None:
            what = "one more knot" if self.knots else "a break"
            parts.append(f"test of {what}: p = {self.further:.3g}")
        return "\n".join([*parts, *self.lines])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts."""
        return {
            "title": self.title,
            "level": self.level,
            "knots": self.knots,
            "pieces": self.pieces,
            "noise": self.noise,
            "p_further_knot": self.further,
            "notes": self.lines,
        }


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(value)
        return text.removesuffix("T00:00:00")
    if isinstance(value, float):
        return "-∞" if value == -np.inf else "∞" if value == np.inf else f"{value:.6g}"
    return str(value)


def _columns(rows: list[dict[str, Any]], names: dict[str, str]) -> list[str]:
    """Return a table of those of the columns that the rows have, by their names."""
    there = {key: name for key, name in names.items() if key in rows[0]}
    return _table(list(there.values()), [[_text(row[key]) for key in there] for row in rows])


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (heads, *rows)
    ]


class SummarisedRegressor(UnivariateRegressor):
    """Base of regressors that say how sure they are: tables, intervals, sentences, a formula, pictures."""

    n_knots: int | str
    weights: str
    random_state: Any
    optimal_: bool | None
    loss_: str
    outliers_: Bools
    noise_: Correlation
    notes_: list[str]
    _rows: Rows
    _points: Points
    loss_history_: Floats
    _chosen_: Selected | None
    _obeys_: bool
    """Whether there are constraints or jumps: then there are no intervals."""

    def summary(self, level: float = 0.95) -> Summary:
        """Return knots and slopes with intervals at this level, the noise, tests, and what there is to say.

        Intervals of knots are simulated likelihood-ratio sets, those of slopes by the delta method (beside a
        weak kink: over all its places): both with the number of knots taken for known. p-values are simulated
        sup-F tests. Under constraints and with jumps there are neither.
        """
        probability(level, "level")
        check_is_fitted(self)
        if self._obeys_:
            return self._plain_summary(level)
        model, rng = self._model(), self._generator()
        knots, tests = knot_intervals(model, level, rng), each_knot(model, rng)
        units = self._points
        rows = []
        for one, p in zip(knots, tests, strict=True):
            ends = self._shown(units.low + units.half * np.array([one.estimate, one.low, one.high]))
            rows.append(
                {
                    "estimate": ends[0],
                    "error": one.error * units.half,
                    "low": ends[1],
                    "high": ends[2],
                    "p": p,
                }
            )
        variance = model.row_variance * units.scale**2
        lines = [*self.notes_, *self._said()]
        title = self._title()
        return Summary(
            title,
            level,
            rows,
            self._piece_rows(slope_intervals(model, level, knots)),
            float(np.sqrt(variance)),
            further_knot(model, rng),
            lines,
        )

    def _plain_summary(self, level: float) -> Summary:
        """Return knots and slopes without intervals."""
        rows = [{"estimate": place} for place in self.knots_]
        jumps, K = self.jumps_, self.n_knots_
        if jumps.any():
            rows = [row | {"jump": float(jump)} for row, jump in zip(rows, jumps, strict=True)]
        points = self._points
        left = max(points.size - (3 if jumps.any() else 2) * K - 2, 1.0)
        noise = float(np.sqrt(2 * self.loss_history_[-1] / left))
        said = "Intervals and tests are for continuous fits without constraints: none are given."
        lines = [*self.notes_, *self._said(), said]
        return Summary(self._title(), level, rows, self._piece_rows([]), noise, None, lines)

    def knot_intervals(self, level: float = 0.95) -> Any:
        """Return the sets of places that the data do not rule out for each knot, (K, 2); dates if x are."""
        model = self._model()
        found = knot_intervals(model, probability(level, "level"), self._generator())
        ends = np.array([(one.low, one.high) for one in found]).reshape(-1, 2)
        return self._shown(self._points.low + self._points.half * ends)

    def slope_intervals(self, level: float = 0.95) -> Floats:
        """Return intervals of the slopes, (K + 1, 2)."""
        found = self._slopes(probability(level, "level"))
        factor = self._points.scale / self._points.half
        return factor * np.array([(one.low, one.high) for one in found])

    def predict_interval(self, X: ArrayLike, level: float = 0.95, *, kind: str = "mean") -> Floats:
        """Return intervals of f ("mean") or of one more row ("observation") at the rows of X, (n, 2)."""
        one_of(kind, "kind", KINDS)
        return self._band(self._places(X), level, observation=kind == "observation")

    def _band(self, places: Floats, level: float, *, observation: bool = False) -> Floats:
        """Return intervals of f, or of one more row, at places on the line, (n, 2)."""
        points = self._points
        x = (places - points.low) / points.half
        _, low, high = band(self._model(), x, probability(level, "level"), observation)
        return points.centre + points.scale * np.stack([low, high], axis=1)

    def break_test(self) -> float:
        """Return the p-value of one more knot: without knots, whether there is a break at all."""
        return further_knot(self._model(), self._generator())

    def formula(self, style: str = "text") -> str:
        """Return f as "text", "latex" or a "python" expression in x (days since 1970-01-01 for dates)."""
        return formula_of(self.pieces_, one_of(style, "style", STYLES))

    def to_frame(self, level: float = 0.95) -> Any:
        """Return one row per piece with its ends, slope, intercept and intervals, as a pandas DataFrame."""
        probability(level, "level")
        check_is_fitted(self)
        rows = self._piece_rows([] if self._obeys_ else self._slopes(level))
        return function("pandas:DataFrame")(rows)

    def plot(self, ax: Any = None, *, path: str | Path | None = None, level: float = 0.95) -> Any:
        """Draw data, fit, its band and the knots' intervals on a matplotlib axis, or write them to a file.

        Returns the axis.
        """
        check_is_fitted(self)
        return function("shallowflow.reporting.figures.runs:plot_fit")(self, ax, path, level)

    def plot_path(self, ax: Any = None, *, path: str | Path | None = None) -> Any:
        """Draw the criterion, and the loss, over the numbers of knots that were tried; return the axis."""
        check_is_fitted(self)
        return function("shallowflow.reporting.figures.runs:plot_path")(self, ax, path)

    def _model(self) -> Model:
        check_is_fitted(self)
        if self._obeys_:
            raise InvalidInputError("intervals: are for continuous fits without constraints, got another fit")
        points = self._points
        knots = (self.pieces_.knots - points.low) / points.half
        return model_of(points, knots)

    def _generator(self) -> np.random.Generator:
        seed = self.random_state
        return np.random.default_rng(seed if isinstance(seed, int) else 0)

    def _slopes(self, level: float) -> list[Interval]:
        model = self._model()
        return slope_intervals(model, level, knot_intervals(model, level, self._generator()))

    def _piece_rows(self, found: list[Interval]) -> list[dict[str, Any]]:
        """Return one row per piece; the model may have merged pieces that the data cannot tell apart.

        found: intervals of the slopes, none if there are no intervals.
        """
        factor = self._points.scale / self._points.half
        rows = self.pieces_.table()
        listed: list[dict[str, Any]] = [dict(row) for row in rows]
        for i, row in enumerate(listed):
            for end, place in (("left", self.pieces_.lefts[i]), ("right", self.pieces_.rights[i])):
                if np.isfinite(place):
                    row[end] = self._shown(np.array([place]))[0]
            if not found:
                continue
            if len(found) == len(rows):
                row |= {"low": factor * found[i].low, "high": factor * found[i].high}
            else:
                row |= {"low": -np.inf, "high": np.inf}
        return listed

    def _title(self) -> str:
        word = "jump" if self.jumps_.any() else "knot"
        knots = f"{self.n_knots_} {word}{'' if self.n_knots_ == 1 else 's'}"
        pieces = f"{len(self.pieces_.slopes)} straight piece{'s' if self.n_knots_ else ''}"
        return f"{pieces}, {knots}, {self._points.size:g} points"

    def _said(self) -> list[str]:
        optimal = self.optimal_
        if optimal and self.n_knots_:
            if self.jumps_.any():
                return ["No other jumps, as many as these, have a lower loss (proved)."]
            return ["No other knots, as many as these, have a lower loss (proved)."]
        return []


def formula_of(pieces: Pieces, style: str) -> str:
    """Return f(x) = a + s (x − o) + Σ δ_k (x − b_k)₊ + Σ h_k 1(x > b_k), h_k the jumps."""
    reach = pieces.high - pieces.low
    origin = 0.0 if abs(pieces.low) <= FAR_ORIGIN * reach else pieces.low
    digits = repr if style == "python" else (lambda value: f"{value:.6g}")

    def number(value: float) -> str:
        return digits(float(value))

    def shifted(place: float) -> str:
        if place == 0:
            return "x"
        return f"x - {number(place)}" if place > 0 else f"x + {number(-place)}"

    hinge = {"text": "max(0, {})", "latex": "\\max(0,\\, {})", "python": "np.maximum(0, {})"}[style]
    step = {"text": "(x > {})", "latex": "\\mathbf{{1}}(x > {})", "python": "(x > {})"}[style]
    dot = {"text": "·", "latex": " ", "python": "*"}[style]
    start, first = pieces.heights[0] + pieces.slopes[0] * (origin - pieces.centres[0]), pieces.slopes[0]
    inner = shifted(origin)
    inner = inner if inner == "x" else f"({inner})"
    text = f"{number(start)} {_sign(first)} {number(abs(first))}{dot}{inner}"
    for knot, turn, jump in zip(pieces.knots, np.diff(pieces.slopes), pieces.jumps, strict=True):
        text += f" {_sign(turn)} {number(abs(turn))}{dot}{hinge.format(shifted(knot))}"
        if jump:
            text += f" {_sign(jump)} {number(abs(jump))}{dot}{step.format(number(knot))}"
    return f"y = {text}" if style != "python" else text


def _sign(value: float) -> str:
    return "-" if value < 0 else "+"
