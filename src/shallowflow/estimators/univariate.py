"""What all estimators here share: one column in, `Pieces` out, scikit-learn's conventions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.pieces import Pieces


class UnivariateRegressor(RegressorMixin, BaseEstimator):
    """Base of regressors y ≈ f(x) for one feature x, f continuous and piecewise linear.

    After `fit`: `pieces_`, and from it `network_`, `knots_` (K,), `slopes_` and `intercepts_` (K + 1,),
    `n_knots_`.
    """

    pieces_: Pieces

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # not any number of columns, which scikit-learn's checks assume
        return tags

    def predict(self, X: ArrayLike) -> Floats:
        """Return f at the rows of X, (n, 1) → (n,)."""
        check_is_fitted(self)
        return self.pieces_.predict(self._column(validate_data(self, X, reset=False, dtype=np.float64)))

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

    def _remember(self, pieces: Pieces) -> None:
        """Set the fitted attributes that follow from the pieces."""
        self.pieces_ = pieces
        self.network_ = pieces.to_network()
        self.knots_, self.slopes_, self.intercepts_ = pieces.knots, pieces.slopes, pieces.intercepts
        self.n_knots_ = len(pieces.knots)
