"""See, predict and escape the training dynamics of two-layer neural networks."""

from types import ModuleType
from typing import TYPE_CHECKING

from shallowflow import certificates, data, experiments, landscape, studies
from shallowflow.certificates import certify
from shallowflow.data import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.adam import adam
from shallowflow.dynamics.alternating import alternating_least_squares
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.dynamics.limits.two_timescale import hitting_times, two_timescale_limit
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.outer_weights import least_squares_outer
from shallowflow.dynamics.population import population_flow
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import FileFormatError, InvalidInputError, ShallowflowError, StoreError
from shallowflow.experiments import reproduce
from shallowflow.models import (
    AdditiveStepNetwork,
    CubicStep,
    KnotNetwork,
    LeakyReLU,
    LogisticLoss,
    LogScaledNetwork,
    NormLoss,
    ReLUNetwork,
    SquareLoss,
    StepNetwork,
    initialize,
)
from shallowflow.readings.jumps import Jumps, jumps
from shallowflow.readings.phases import phases
from shallowflow.readings.stages import stages

if TYPE_CHECKING:
    from shallowflow import estimators

__all__ = [
    "Additive",
    "AdditiveStepNetwork",
    "CubicStep",
    "Dataset",
    "Event",
    "FileFormatError",
    "InvalidInputError",
    "Jumps",
    "KnotNetwork",
    "LeakyReLU",
    "LogScaledNetwork",
    "LogisticLoss",
    "NormLoss",
    "Outcome",
    "PiecewiseAffine",
    "PiecewiseConstant",
    "ReLUNetwork",
    "Record",
    "SaddleToSaddle",
    "ShallowflowError",
    "SquareLoss",
    "StepNetwork",
    "StoreError",
    "Trajectory",
    "active_neuron_least_squares",
    "adam",
    "alternating_least_squares",
    "certificates",
    "certify",
    "data",
    "estimators",
    "experiments",
    "gradient_descent",
    "gradient_flow",
    "hitting_times",
    "initialize",
    "jumps",
    "landscape",
    "least_squares_outer",
    "phases",
    "population_flow",
    "reproduce",
    "saddle_to_saddle",
    "stages",
    "stochastic_descent",
    "studies",
    "two_timescale_limit",
]


def __dir__() -> list[str]:
    """List the public names, with the modules that are imported on first use."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> ModuleType:
    """Import `shallowflow.estimators` on first use: scikit-learn alone takes most of a second."""
    if name == "estimators":
        import shallowflow.estimators as loaded

        return loaded
    raise AttributeError(f"module 'shallowflow' has no attribute {name!r}")
