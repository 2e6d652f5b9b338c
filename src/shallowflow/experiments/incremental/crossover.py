"""From shared growth to Algorithm 1: how small the start must be at a number of points, for figure 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.limits.saddle_to_saddle import saddle_to_saddle
from shallowflow.dynamics.record import Record
from shallowflow.experiments.experiment import Claim
from shallowflow.experiments.figure import Panel, Series
from shallowflow.experiments.incremental.norms import identity, labels, start_of
from shallowflow.landscape.min_norm import squared_norm
from shallowflow.models import LogScaledNetwork


@dataclass(frozen=True)
class Crossing:
    """From shared growth to Algorithm 1 at one size: ln(1/α) of a neuron (K,) and the way covered (K,).

    way: (‖θ‖² − N₀)/(N₁ − N₀), N₀ from the largest α shown and N₁ from Algorithm 1.
    """

    size: int
    scales: Floats
    way: Floats

    @property
    def half(self) -> float:
        """ln(1/α)/√n at which half of the way is covered."""
        rising = np.maximum.accumulate(self.way)
        return float(np.exp(np.interp(0.5, rising, np.log(self.scales))) / np.sqrt(self.size))


def crossing(size: int, descents: Floats, limits: Floats, parameters: Mapping[str, Any]) -> Crossing:
    """Follow the norm from the descents (scales, starts) on by the flow, to which no scale is too small.

    limits: the norms of Algorithm 1, from the same starts first.
    """
    dataset = identity(labels(size, parameters["label_seed"]))
    seeds, smaller = range(parameters["seeds"]), parameters["flow_digits"]
    by_flow = [np.mean([_flow_norm(start_of(size, d, seed), dataset) for seed in seeds]) for d in smaller]
    found, end = np.append(descents.mean(axis=1), by_flow), float(limits[: len(seeds)].mean())
    scales = np.array([start_of(size, d, 0).acceleration for d in (*parameters["digits"], *smaller)])
    return Crossing(size, scales, (found - found[0]) / (end - found[0]))


def _flow_norm(network: LogScaledNetwork, dataset: Dataset) -> float:
    """‖θ‖² at the end of the flow, well after Algorithm 1's last jump."""
    scale = network.acceleration
    until = 1.3 * scale * float(saddle_to_saddle(network, dataset).predicted_times(scale).max())
    run = gradient_flow(network, dataset, until=until, tolerance=1e-6, record=Record.geometric(2))
    assert isinstance(run.final, LogScaledNetwork)
    return squared_norm(run.final)


def crossing_panel(crossings: list[Crossing]) -> Panel:
    """The way covered against ln(1/α)/√n, one curve per number of points."""
    return Panel(
        tuple(
            Series(found.scales / np.sqrt(found.size), found.way, f"n = {found.size}", tone=tone)
            for found, tone in zip(crossings, ("blue", "orange", "green"), strict=False)
        ),
        x_label="ln(1/α) / √n",
        y_label="share of the way to Algorithm 1",
        x_scale="log",
    )


def crossing_claim(crossings: list[Crossing]) -> Claim:
    """Half of the way is covered at the same ln(1/α)/√n, whatever n."""
    halves = np.array([found.half for found in crossings])
    return Claim(
        "Descent has the norm of Algorithm 1 only where ln(1/α) ≫ √n (ours)",
        "tends to it as α → 0 at fixed n (Theorem 2)",
        "half of the way from shared growth at ln(1/α) = "
        + ", ".join(f"{half:.1f}√n (n = {found.size})" for half, found in zip(halves, crossings, strict=True))
        + f"; at the smallest α {min(found.way[-1] for found in crossings):.3f} of it",
        bool(halves.max() < 2 * halves.min() and all(found.way[-1] > 0.95 for found in crossings)),
        "growth rates differ by a part of about √(3/2n): at a fixed α large n are never in the limit regime",
    )
