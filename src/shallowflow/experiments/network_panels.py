"""Panels that show a network in the plane: its function on the line, its neurons by angle and norm."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.experiments.figure import Panel, Series
from shallowflow.landscape.early_alignment.spurious import least_squares
from shallowflow.models import Network, ReLUNetwork

INNER = 1.0
"""Radius of the circle at which norm 0 lies."""
RIM = INNER + 1.12
"""Radius of the frame; the largest norm lies at INNER + 1."""
DIRECTIONS = RIM - 0.05
INSET = 0.07
"""Neurons with a_j < 0 are drawn this much further in: else they would hide the others."""
MOST_NUMBERS = 20_000_000
"""Neurons times points that are evaluated at once."""
MOST_BORDERS = 12
"""Borders of cones and directions of data are left out if there are more data points: they hide the rest."""


def on_a_line(dataset: Dataset) -> bool:
    """Whether the inputs have one coordinate, perhaps with a 1 appended."""
    return dataset.dimension == 1 or (dataset.dimension == 2 and bool(np.all(dataset.inputs[:, 1] == 1)))


def line_grid(dataset: Dataset, points: int = 401) -> Floats:
    """Return positions x (k,) that cover the data with a margin."""
    x = dataset.inputs[:, 0]
    low, high = float(x.min()), float(x.max())
    margin = 0.05 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, points)


def as_inputs(x: Floats, dataset: Dataset) -> Floats:
    """Return positions on the line as inputs of the data's dimension: a 1 appended where it has one."""
    return np.column_stack([x, np.ones((len(x), dataset.dimension - 1))])


def function_on_line(network: Network, x: Floats, dataset: Dataset) -> Floats:
    """Return the network's function at positions x (k,), in pieces that fit into memory at any width."""
    pieces = np.array_split(x, max(1, min(len(x), network.width * len(x) // MOST_NUMBERS)))
    return np.concatenate([network(as_inputs(piece, dataset)) for piece in pieces])


def data_series(dataset: Dataset, size: float = 1.0) -> Series:
    """Return the data on the line as points."""
    return Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink", size=size)


def least_squares_line(dataset: Dataset, points: int = 401) -> Series:
    """Return the least-squares line, to be drawn behind a network."""
    x = line_grid(dataset, points)
    values = as_inputs(x, dataset) @ least_squares(dataset).coefficients
    return Series(x, values, "least squares", style="dashed", tone="muted")


def function_panel(
    network: Network,
    dataset: Dataset,
    *,
    points: int = 401,
    title: str = "",
    y_limits: tuple[float, float] | None = None,
    behind: tuple[Series, ...] = (),
) -> Panel:
    """Return the network's function at so many points, with the data; `behind` is drawn first."""
    x = line_grid(dataset, points)
    function = Series(x, function_on_line(network, x, dataset), "network", tone="blue")
    limits = y_limits or value_limits(dataset)
    return Panel((*behind, function, data_series(dataset, 0.9)), title, "x", "h(x)", y_limits=limits)


def value_limits(dataset: Dataset) -> tuple[float, float]:
    """Return limits of the vertical axis that hold the targets and zero, with a margin."""
    low, high = min(float(dataset.targets.min()), 0.0), max(float(dataset.targets.max()), 0.0)
    margin = 0.25 * (high - low) or 1.0
    return low - margin, high + margin


class NeuronPanels:
    """Panels of the neurons of networks of one width, all with the same radial scale.

    A neuron is a point at the angle of w_j = (slope, bias) and at the radius 1 + ‖w_j‖/top: norm 0 is the
    inner circle, so that directions can be seen at tiny norms. Blue: a_j > 0; orange: a_j < 0, a little
    further in. At most `most` neurons are shown, evenly chosen.
    """

    def __init__(self, dataset: Dataset | None, top: float, width: int, *, most: int = 200_000) -> None:
        self.inputs, self.top = np.empty((0, 2)) if dataset is None else dataset.inputs, max(top, 1e-300)
        self.chosen = np.unique(np.linspace(0, width - 1, min(width, most)).astype(np.int64))

    def __call__(self, network: ReLUNetwork, title: str = "") -> Panel:
        """Return the panel of one network."""
        inner, outer = network.inner[self.chosen], network.outer[self.chosen]
        angle = np.arctan2(inner[:, 1], inner[:, 0])
        radius = INNER + np.linalg.norm(inner, axis=1) / self.top
        clouds = [
            Series(angle[sign], radius[sign] - inset, label, style="points", tone=tone, size=0.5)
            for sign, label, tone, inset in (
                (outer > 0, "a > 0", "blue", 0.0),
                (outer < 0, "a < 0", "orange", INSET),
            )
        ]
        borders, directions = self._of_data()
        words = title or f"neurons; radius 1 = norm {self.top:.1e}"
        return Panel((*borders, *clouds, *directions), words, polar=True, inner=INNER, y_limits=(0.0, RIM))

    def _of_data(self) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
        """Return the borders of the activation cones, and the directions of the data."""
        x = self.inputs
        if len(x) > MOST_BORDERS:
            return (), ()
        border, angle = np.arctan2(x[:, 0], -x[:, 1]), np.arctan2(x[:, 1], x[:, 0])
        rays = tuple(
            Series([ray, ray], [INNER, RIM], "⊥ data x_k", style="dashed", tone="green", size=0.5)
            for ray in np.concatenate([border, border + np.pi]).tolist()
        )
        rim = np.full(len(x), DIRECTIONS)
        return rays, (Series(angle, rim, "data x_k", style="crosses", tone="ink", size=0.8),)


def largest_norm(networks: list[ReLUNetwork]) -> float:
    """Return the largest ‖w_j‖ of several networks."""
    return max(float(np.max(np.linalg.norm(network.inner, axis=1))) for network in networks)
