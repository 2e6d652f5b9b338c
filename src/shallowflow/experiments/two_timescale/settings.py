"""The two readings of the experiments of [two_timescale]: as printed, and as the authors' code runs them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools
from shallowflow.data import PiecewiseConstant
from shallowflow.experiments.figure import Panel, Series
from shallowflow.landscape import jump_distances, population_loss
from shallowflow.models import Network, StepNetwork

MOST_LINES = 50
"""More neurons are shown by short lines: they would hide the functions."""
JUMPS = (0.2, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class Setting:
    """A reading: its target, the factor of the loss r²/2, and whether positions move by the box slope.

    loss_factor: 2 where the loss of a sample is r² instead of ½r²; all steps and times double.
    """

    name: str
    values: tuple[float, ...]
    loss_factor: float
    box_slope: bool

    @property
    def target(self) -> PiecewiseConstant:
        """The piecewise constant target in one dimension."""
        return PiecewiseConstant(JUMPS, self.values)


PRINTED = Setting("printed", (1.0, 4.0, 1.0, 2.0, 1.0, 4.0), 1.0, False)
AUTHORS = Setting("authors", (1.0, 5.0, 1.0, 3.0, 1.0, 5.0), 2.0, True)
SETTINGS = (PRINTED, AUTHORS)
NAMED = {setting.name: setting for setting in SETTINGS}


def covered(network: Network, setting: Setting) -> Bools:
    """Return for every jump whether a neuron is closer than the sharpness η."""
    assert isinstance(network, StepNetwork)
    return np.asarray(jump_distances(network, setting.target) < network.sharpness)


def squared_distance(network: Network, setting: Setting) -> float:
    """Return ∫(f − f*)², what the paper calls the L2 distance in one dimension."""
    return 2.0 * population_loss(network, setting.target)


def function_panel(network: Network, target: PiecewiseConstant, title: str, label: str = "SGD") -> Panel:
    """Show a network over its target, with a dashed line (a short one if many) at every neuron."""
    assert isinstance(network, StepNetwork)
    x = np.linspace(0.0, 1.0, 2001)
    bottom, top = min(float(target.values.min()), 0.0) - 0.4, float(target.values.max()) + 0.6
    lines = np.repeat(network.positions, 3)
    height = top if network.width <= MOST_LINES else bottom + 0.08 * (top - bottom)
    heights = np.tile([bottom, height, np.nan], network.width)
    return Panel(
        (
            Series(lines, heights, "neuron positions", style="dashed", tone="muted", size=0.5),
            Series(x, target(x), "target", tone="sky", size=2.6),
            Series(x, network(x), label, tone="orange"),
        ),
        title=title,
        x_label="x",
        y_label="f(x)",
        x_limits=(0.0, 1.0),
        y_limits=(bottom, top),
    )
