"""What the estimators of straight pieces share: `Pieces` out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from shallowflow.arrays import Floats
from shallowflow.estimators.one_feature import OneFeatureRegressor
from shallowflow.estimators.pieces import Pieces


class UnivariateRegressor(OneFeatureRegressor):
    """Base of regressors y ≈ f(x) for one feature x, f continuous and piecewise linear.

    After `fit`: `pieces_`, and from it `network_`, `knots_` (K,), `slopes_` and `intercepts_` (K + 1,),
    `n_knots_`.
    """

    pieces_: Pieces

    def predict(self, X: ArrayLike) -> Floats:
        """Return f at the rows of X, (n, 1) → (n,)."""
        check_is_fitted(self)
        return self.pieces_.predict(self._column(validate_data(self, X, reset=False, dtype=np.float64)))

    def _remember(self, pieces: Pieces) -> None:
        """Set the fitted attributes that follow from the pieces."""
        self.pieces_ = pieces
        self.network_ = pieces.to_network()
        self.knots_, self.slopes_, self.intercepts_ = pieces.knots, pieces.slopes, pieces.intercepts
        self.n_knots_ = len(pieces.knots)
