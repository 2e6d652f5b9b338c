"""The scikit-learn front: curves as straight pieces, and the methods that they are compared with."""

from shallowflow.estimators.anls import ANLSRegressor
from shallowflow.estimators.baselines import AdamRegressor, AlternatingRegressor, GDRegressor, LSQRegressor
from shallowflow.estimators.pieces import Pieces

__all__ = [
    "ESTIMATORS",
    "ANLSRegressor",
    "AdamRegressor",
    "AlternatingRegressor",
    "GDRegressor",
    "LSQRegressor",
    "Pieces",
]

ESTIMATORS = (ANLSRegressor, LSQRegressor, GDRegressor, AdamRegressor, AlternatingRegressor)
"""Every estimator of the package."""
