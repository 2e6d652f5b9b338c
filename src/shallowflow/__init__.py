"""See, predict and escape the training dynamics of two-layer neural networks.

Every name is imported on first use: `import shallowflow` itself loads next to nothing.
"""

from typing import TYPE_CHECKING

from shallowflow.lazy import attach, install

__all__ = [
    "Additive",
    "AdditiveStepNetwork",
    "CubicStep",
    "Dataset",
    "Diagnosis",
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
    "PredictedJumps",
    "ReLUNetwork",
    "Record",
    "SaddleToSaddle",
    "ShallowflowError",
    "SquareLoss",
    "StepNetwork",
    "StoreError",
    "Story",
    "Trajectory",
    "active_neuron_least_squares",
    "adam",
    "alternating_least_squares",
    "certificates",
    "certify",
    "certify_all",
    "data",
    "diagnose",
    "escape",
    "estimators",
    "experiments",
    "gradient_descent",
    "gradient_flow",
    "hitting_times",
    "initialize",
    "jumps",
    "landscape",
    "least_squares_outer",
    "merge_duplicates",
    "phases",
    "population_flow",
    "predict_jumps",
    "reproduce",
    "saddle_to_saddle",
    "stages",
    "stochastic_descent",
    "story",
    "studies",
    "two_timescale_limit",
]

_NAMES = {
    "Additive": "shallowflow.data",
    "AdditiveStepNetwork": "shallowflow.models",
    "CubicStep": "shallowflow.models",
    "Dataset": "shallowflow.data",
    "Diagnosis": "shallowflow.readings.diagnosis",
    "Event": "shallowflow.dynamics.clock.protocol",
    "FileFormatError": "shallowflow.errors",
    "InvalidInputError": "shallowflow.errors",
    "Jumps": "shallowflow.readings.phases",
    "KnotNetwork": "shallowflow.models",
    "LeakyReLU": "shallowflow.models",
    "LogScaledNetwork": "shallowflow.models",
    "LogisticLoss": "shallowflow.models",
    "NormLoss": "shallowflow.models",
    "Outcome": "shallowflow.dynamics.clock.trajectory",
    "PiecewiseAffine": "shallowflow.data",
    "PiecewiseConstant": "shallowflow.data",
    "PredictedJumps": "shallowflow.dynamics.jump_prediction",
    "ReLUNetwork": "shallowflow.models",
    "Record": "shallowflow.dynamics.clock.problem",
    "SaddleToSaddle": "shallowflow.dynamics.saddle_to_saddle",
    "ShallowflowError": "shallowflow.errors",
    "SquareLoss": "shallowflow.models",
    "StepNetwork": "shallowflow.models",
    "StoreError": "shallowflow.errors",
    "Story": "shallowflow.readings.story",
    "Trajectory": "shallowflow.dynamics.clock.trajectory",
    "__version__": "shallowflow.version",
    "active_neuron_least_squares": "shallowflow.dynamics.anls",
    "adam": "shallowflow.dynamics.baselines",
    "alternating_least_squares": "shallowflow.dynamics.baselines",
    "certify": "shallowflow.certificates",
    "certify_all": "shallowflow.certificates",
    "diagnose": "shallowflow.readings.diagnosis",
    "escape": "shallowflow.dynamics.escape",
    "gradient_descent": "shallowflow.dynamics.descent",
    "gradient_flow": "shallowflow.dynamics.flow",
    "hitting_times": "shallowflow.dynamics.heaviside",
    "jumps": "shallowflow.readings.phases",
    "least_squares_outer": "shallowflow.dynamics.baselines",
    "merge_duplicates": "shallowflow.landscape.geometry.activity",
    "phases": "shallowflow.readings.phases",
    "population_flow": "shallowflow.dynamics.flow",
    "predict_jumps": "shallowflow.dynamics.jump_prediction",
    "reproduce": "shallowflow.experiments",
    "saddle_to_saddle": "shallowflow.dynamics.saddle_to_saddle",
    "stages": "shallowflow.readings.stages",
    "stochastic_descent": "shallowflow.dynamics.descent",
    "story": "shallowflow.readings.story",
    "two_timescale_limit": "shallowflow.dynamics.flow",
}
"""Public names, and the modules they come from."""

_MODULES = {
    "certificates": "shallowflow.certificates",
    "data": "shallowflow.data",
    "estimators": "shallowflow.estimators",
    "experiments": "shallowflow.experiments",
    "initialize": "shallowflow.models.initialize",
    "landscape": "shallowflow.landscape",
    "studies": "shallowflow.studies",
}
"""Public modules."""

if TYPE_CHECKING:
    from shallowflow import certificates, data, estimators, experiments, landscape, studies
    from shallowflow.certificates import certify, certify_all
    from shallowflow.data import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
    from shallowflow.dynamics.anls import active_neuron_least_squares
    from shallowflow.dynamics.baselines import adam, alternating_least_squares, least_squares_outer
    from shallowflow.dynamics.clock.problem import Record
    from shallowflow.dynamics.clock.protocol import Event
    from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
    from shallowflow.dynamics.descent import gradient_descent, stochastic_descent
    from shallowflow.dynamics.escape import escape
    from shallowflow.dynamics.flow import gradient_flow, population_flow, two_timescale_limit
    from shallowflow.dynamics.heaviside import hitting_times
    from shallowflow.dynamics.jump_prediction import PredictedJumps, predict_jumps
    from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
    from shallowflow.errors import FileFormatError, InvalidInputError, ShallowflowError, StoreError
    from shallowflow.experiments import reproduce
    from shallowflow.landscape.geometry.activity import merge_duplicates
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
    from shallowflow.readings.diagnosis import Diagnosis, diagnose
    from shallowflow.readings.phases import Jumps, jumps, phases
    from shallowflow.readings.stages import stages
    from shallowflow.readings.story import Story, story
    from shallowflow.version import __version__ as __version__
else:
    __getattr__, __dir__ = attach(__name__, _NAMES, _MODULES)
install()
