"""The training of figures 1, 3 and 4: 64 orthonormal points, six neurons, a start beyond floating point.

Six neurons often leave a point without any, and even at α = 10⁻³⁰⁰ their jumps often overlap. The seed is the
first of `initialize.log_scaled` with which all outer weights have the sign of the labels and the rule of
`starts` holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.limits.jumps import Jumps, jumps
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.incremental.norms import LN10
from shallowflow.models import LogScaledNetwork, initialize

TONES = ("blue", "orange", "green", "pink", "sky", "red")
"""Colours of the six neurons."""
PROBLEM = {
    "size": 64,
    "width": 6,
    "digits": 300,
    "data_seed": 0,
    "seed": 413,
    "tolerance": 1e-9,
}


@dataclass(frozen=True)
class Training:
    """The problem, its flow, the jumps of the flow, and what Algorithm 1 predicts."""

    dataset: Dataset
    network: LogScaledNetwork
    limit: SaddleToSaddle
    flow: Trajectory
    jumps: Jumps

    @property
    def until(self) -> float:
        """The end of the training."""
        return float(self.flow.times[-1])

    @property
    def predicted(self) -> Floats:
        """Jump times of the flow as predicted to first order."""
        scale = self.network.acceleration
        return scale * self.limit.predicted_times(scale)


def train(parameters: Mapping[str, Any]) -> Training:
    """Run the flow to a tenth beyond the last jump."""
    dataset = orthonormal(parameters["size"], labels="positive", seed=parameters["data_seed"])
    network = initialize.log_scaled(
        parameters["width"],
        parameters["size"],
        log_scale=-parameters["digits"] * LN10,
        seed=parameters["seed"],
    )
    limit = saddle_to_saddle(network, dataset)
    until = 1.1 * float(limit.jump_times[-1]) * network.acceleration
    flow = gradient_flow(network, dataset, until=until, tolerance=parameters["tolerance"])
    return Training(dataset, network, limit, flow, jumps(flow, dataset))
