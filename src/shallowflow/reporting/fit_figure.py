"""The figure of a fit: the data with the pieces and their knots, and what the fit leaves over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.files import write_atomically
from shallowflow.reporting.matplotlib_renderer import render

if TYPE_CHECKING:
    from shallowflow.estimators.pieces import Pieces

LARGEST_CLOUD = 5000
"""Of more data points every k-th is drawn."""


def fit_figure(pieces: Pieces, dataset: Dataset) -> Figure:
    """Return data and pieces in one panel, residuals in the other, for one-dimensional data."""
    every = -(-dataset.size // LARGEST_CLOUD)
    x, y = dataset.inputs[::every, 0], dataset.targets[::every]
    margin = 0.03 * (pieces.high - pieces.low) or 1.0
    inside = (pieces.knots > pieces.low - margin) & (pieces.knots < pieces.high + margin)
    knots = pieces.knots[inside]
    corners = np.concatenate([[pieces.low - margin], knots, [pieces.high + margin]])
    count = len(pieces.knots)
    named = f"{count} knot" if count == 1 else f"{count} knots"
    fit = Panel(
        (
            Series(x, y, "data", style="points", tone="muted", size=0.8),
            Series(corners, pieces.predict(corners), "fit", tone="blue"),
            Series(knots, pieces.predict(knots), named, style="points", tone="orange", size=0.8),
        ),
        title="Fit",
        x_label="x",
    )
    residuals = Series(x, y - pieces.predict(x), style="points", tone="muted", size=0.8)
    zero = Series(corners[[0, -1]], [0.0, 0.0], tone="blue")
    rest = Panel((residuals, zero), title="Data minus fit", x_label="x")
    return Figure("fit", f"Fit of {dataset.name or 'data'}", (fit, rest))


def write_fit_figure(pieces: Pieces, dataset: Dataset, path: Path) -> None:
    """Draw the figure of a fit into a .png or .svg file, atomically."""
    content = render(fit_figure(pieces, dataset), path.suffix.lower().removeprefix("."))

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_atomically(path, write)
