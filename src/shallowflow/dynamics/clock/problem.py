"""The border of every training: a network, a data set, a loss and a record that fit each other; the task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import shown
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.data.targets import Target
from shallowflow.dynamics.clock.record import Record
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import population_loss
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import NETWORKS, LogScaledNetwork, Network, StepNetwork


@dataclass(frozen=True)
class Task:
    """A network to be trained on data: by `steps` steps of descent, or by a flow to a tolerance.

    epsilon: the inner layer moves epsilon times as fast; in_span: few inputs are taken in the coordinates of
    their span; speed: the factor of the flow's gradient; stop: the norm of the gradient at which a flow ends.
    """

    network: Network
    dataset: Dataset
    loss: Loss
    step: float = 1.0
    epsilon: float = 1.0
    steps: int = 0
    precision: str = "double"
    in_span: bool = False
    speed: float = 1.0
    tolerance: float = 1e-8
    stop: float = 0.0

    def measure(self, network: Network) -> float:
        """Return the loss of a network on the data."""
        return self.loss.value(network.predict(self.dataset.inputs), self.dataset.targets)

    @property
    def weight(self) -> float:
        """The factor of Σ_k ½r_k² or of Σ_k ln(1 + e^{−y_k h_k}) in the loss."""
        if isinstance(self.loss, SquareLoss):
            return self.loss.weight(self.dataset.size)
        return 1.0 / self.dataset.size


@dataclass(frozen=True)
class Sampling:
    """Steps and noise of stochastic descent: h, εh, half the width of the uniform noise, samples per step,
    the seed; box: σ' is replaced by the indicator of its window.
    """

    step: float
    slow: float
    noise: float
    batch: int
    seed: np.random.SeedSequence
    box: bool = False


@dataclass(frozen=True)
class SampledTask:
    """A network to be trained by `steps` steps on samples of a target; loss None: ½·mean of squares."""

    network: Network
    target: Target
    loss: Loss | None
    sampling: Sampling
    steps: int

    def measure(self, network: Network) -> float:
        """Return ½∫(f − f*)² of a network."""
        return population_loss(network, self.target)


def check_problem(network: Network, dataset: Dataset, *, log_scaled: bool = False) -> None:
    """Refuse what is not a network and a data set that fit each other, and log-scaled networks by default."""
    if not isinstance(network, NETWORKS):
        raise InvalidInputError(f"network: must be one of shallowflow's networks, got {shown(network)}")
    checked_dataset(dataset)
    if network.dimension != dataset.dimension:
        raise InvalidInputError(
            f"dataset: inputs must have the network's dimension {network.dimension}, got {dataset.dimension}"
        )
    if isinstance(network, LogScaledNetwork) and not log_scaled:
        raise InvalidInputError(
            "network: a LogScaledNetwork is for gradient_flow, gradient_descent and saddle_to_saddle; "
            "here pass network.to_relu()"
        )
    if isinstance(network, StepNetwork) and network.sharpness == 0:
        raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")


def checked_loss(loss: Loss | None, dataset: Dataset) -> Loss:
    """Return the loss (½·mean of squares if None), checked to have a meaning for the targets."""
    if loss is None:
        return SquareLoss()
    if not isinstance(loss, SquareLoss | LogisticLoss | NormLoss):
        raise InvalidInputError(
            f"loss: must be SquareLoss(), LogisticLoss() or NormLoss(), got {shown(loss)}"
        )
    loss.check(dataset.targets)
    return loss


def checked_square_loss(loss: Loss | None, default: SquareLoss) -> SquareLoss:
    """Return the loss, or the default if None, checked to be a square loss."""
    if loss is None:
        return default
    if not isinstance(loss, SquareLoss):
        raise InvalidInputError(f"loss: must be a SquareLoss, got {shown(loss)}")
    return loss


def checked_record(record: Record | None, default: Record) -> Record:
    """Return the record, or the default if None."""
    if record is None:
        return default
    if not isinstance(record, Record):
        raise InvalidInputError(f"record: must be a Record such as Record.every(10), got {shown(record)}")
    return record
