"""Figures and reproductions for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Reproduction
from shallowflow.experiments.figure import STYLES, Figure, Panel, Series

HOSTILE = "<script>alert('x')</script> & \"quoted\" $\\frac ${ [bold]"


def run_nothing(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    return Findings((), ())


def panel(**changes: Any) -> Panel:
    """A panel with a series of every style, one with a band."""
    x = np.linspace(0.5, 9.5, 12)
    series = [Series(x, k + np.sqrt(x), f"{style} series", style=style) for k, style in enumerate(STYLES)]
    series.append(Series(x, x / 3, "banded", band=(x / 3 - 1, x / 3 + 1)))
    return Panel(tuple(series), **{"title": "a panel", "x_label": "x", "y_label": "y", **changes})


def figure(*panels: Panel, **changes: Any) -> Figure:
    return Figure(**{"name": "fig", "title": "A figure", "panels": panels or (panel(),), **changes})


def claim(holds: bool | None = True, reason: str = "") -> Claim:
    return Claim("the loss stays positive", "loss > 0", "loss 0.0875", holds, reason)


def reproduction(name: str = "plateau/fig1", **changes: Any) -> Reproduction:
    experiment = Experiment(
        name, changes.pop("title", f"Title of {name}"), changes.pop("source", "Figure 1"), {}, run_nothing
    )
    fields = {
        "scale": "quick",
        "parameters": {"width": 2000, "step": 1e-3},
        "figures": (figure(),),
        "claims": (claim(),),
        "seconds": 1.25,
    }
    return Reproduction(experiment, **{**fields, **changes})
