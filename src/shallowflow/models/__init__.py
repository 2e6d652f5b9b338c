"""What is trained: activations, networks, initialisations, losses."""

from shallowflow.models import initialize
from shallowflow.models.activation import CubicStep, LeakyReLU
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    LogScaledNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)

__all__ = [
    "AdditiveStepNetwork",
    "CubicStep",
    "KnotNetwork",
    "LeakyReLU",
    "LogScaledNetwork",
    "LogisticLoss",
    "Loss",
    "Network",
    "NormLoss",
    "ReLUNetwork",
    "SquareLoss",
    "StepNetwork",
    "initialize",
]
