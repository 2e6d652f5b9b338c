"""What a network is trained on: data sets, targets, generators."""

from shallowflow.data.dataset import (
    Additive,
    Dataset,
    Orthogonalised,
    PiecewiseAffine,
    PiecewiseConstant,
    Target,
    orthogonalised,
)
from shallowflow.data.generators import CURVES, GENERATORS, STEWART_TEACHER

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
