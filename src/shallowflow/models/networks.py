"""The networks that the papers train, as frozen dataclasses with read-only arrays: the list of them all."""

from typing import get_args

from shallowflow.models.relu import (
    OUTER_LAYER,
    BaseNetwork,
    KnotNetwork,
    LogScaledNetwork,
    Parameters,
    ReLUNetwork,
    inputs_of,
)
from shallowflow.models.steps import AdditiveStepNetwork, StepNetwork

Network = ReLUNetwork | KnotNetwork | StepNetwork | AdditiveStepNetwork | LogScaledNetwork
NETWORKS: tuple[type[Network], ...] = get_args(Network)

__all__ = [
    "NETWORKS",
    "OUTER_LAYER",
    "AdditiveStepNetwork",
    "BaseNetwork",
    "KnotNetwork",
    "LogScaledNetwork",
    "Network",
    "Parameters",
    "ReLUNetwork",
    "StepNetwork",
    "inputs_of",
]
