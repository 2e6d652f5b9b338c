"""What is trained: activations, networks, initialisations, losses."""

from shallowflow.models import initialize
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    CubicStep,
    KnotNetwork,
    LeakyReLU,
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
