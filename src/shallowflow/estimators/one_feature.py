"""What all estimators here share: one column in, scikit-learn's conventions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError


class OneFeatureRegressor(RegressorMixin, BaseEstimator):
    """Base of regressors y ≈ f(x) for one feature x."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # not any number of columns, which scikit-learn's checks assume
        return tags

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return x (n,) and y (n,) as checked numbers; remember the number and names of features."""
        inputs, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return self._column(inputs), np.asarray(targets, dtype=np.float64)

    def _column(self, inputs: Floats) -> Floats:
        """Return the only column of the inputs."""
        if inputs.shape[1] != 1:
            raise InvalidInputError(
                f"X: must have shape (n, 1), got {inputs.shape}; choose one feature, as in X[:, [0]]"
            )
        return inputs[:, 0]
