"""The scikit-learn front: curves as straight or constant pieces, and the methods they are compared with."""

from shallowflow.estimators.anls import ANLSRegressor
from shallowflow.estimators.base import Pieces
from shallowflow.estimators.trained import (
    AdamRegressor,
    AlternatingRegressor,
    GDRegressor,
    LSQRegressor,
    StepRegressor,
)

__all__ = [
    "ESTIMATORS",
    "ANLSRegressor",
    "AdamRegressor",
    "AlternatingRegressor",
    "GDRegressor",
    "LSQRegressor",
    "Pieces",
    "StepRegressor",
]

ESTIMATORS = (ANLSRegressor, LSQRegressor, GDRegressor, AdamRegressor, AlternatingRegressor)
"""The estimators of straight pieces; `StepRegressor` fits constant ones."""
