"""What a network is trained on: data sets, targets, generators."""

from shallowflow.data.dataset import Dataset, Orthogonalised, orthogonalised
from shallowflow.data.generators import CURVES, GENERATORS, STEWART_TEACHER
from shallowflow.data.targets import Additive, PiecewiseAffine, PiecewiseConstant, Target

__all__ = [
    "CURVES",
    "GENERATORS",
    "STEWART_TEACHER",
    "Additive",
    "Dataset",
    "Orthogonalised",
    "PiecewiseAffine",
    "PiecewiseConstant",
    "Target",
    "orthogonalised",
]
