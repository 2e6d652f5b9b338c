"""What is trained: activations, networks, initialisations, losses."""

from shallowflow.models import initialize
from shallowflow.models.activation import CubicStep, LeakyReLU
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork, StepNetwork

__all__ = [
    "CubicStep",
    "KnotNetwork",
    "LeakyReLU",
    "LogScaledNetwork",
    "LogisticLoss",
    "Loss",
    "Network",
    "ReLUNetwork",
    "SquareLoss",
    "StepNetwork",
    "initialize",
]
