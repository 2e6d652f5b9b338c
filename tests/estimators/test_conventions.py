"""scikit-learn's own checks of an estimator.

They hand over tables of several features, which these estimators refuse; so the checks are made with the
first feature alone. `check_estimator` on the estimators themselves reads from their tags that they take one
column, and makes no more than the checks that need no data.
"""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators import (
    ESTIMATORS,
    AdamRegressor,
    AlternatingRegressor,
    ANLSRegressor,
    GDRegressor,
    LSQRegressor,
)

X = np.linspace(0, 1, 40)[:, None]
Y = np.abs(X[:, 0] - 0.4)


class FirstFeature:
    """Looks at the first feature of several, and refuses vectors; its score is then not asked for."""

    _vectors = False

    def _column(self, inputs: Floats) -> Floats:
        return inputs[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = True
        tags.regressor_tags.poor_score = True
        return tags


class FirstANLS(FirstFeature, ANLSRegressor):
    pass


class FirstLSQ(FirstFeature, LSQRegressor):
    pass


class FirstGD(FirstFeature, GDRegressor):
    pass


class FirstAdam(FirstFeature, AdamRegressor):
    pass


class FirstAlternating(FirstFeature, AlternatingRegressor):
    pass


CHECKED = [
    FirstANLS(),
    FirstANLS("auto", selection="bic"),
    FirstANLS(4, search="anls", left="zero", n_starts=3),
    FirstANLS(5, validation_fraction=0.3),
    FirstANLS(1, monotone="increasing"),
    FirstANLS(continuous=False),
    FirstLSQ(),
    FirstGD(max_iter=50),
    FirstAdam(max_iter=50),
    FirstAlternating(max_iter=20),
    FirstAlternating(inner="adam", max_iter=20),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CHECKED)  # type: ignore[untyped-decorator]
def test_conventions_of_scikit_learn(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_check_estimator_accepts_every_estimator(kind: type[BaseEstimator]) -> None:
    with pytest.warns(SkipTestWarning, match="requires input"):
        results = check_estimator(kind())
    assert all(result["status"] == "passed" for result in results)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_several_features_are_refused(kind: type[BaseEstimator]) -> None:
    with pytest.raises(InvalidInputError, match=r"X: must have shape \(n, 1\), got \(40, 2\)"):
        kind().fit(np.hstack([X, X]), Y)
    with pytest.raises(NotFittedError):
        kind().predict(X)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_estimator_has_the_same_fitted_attributes(kind: type[BaseEstimator]) -> None:
    model = kind(random_state=0).fit(X, Y)
    assert model.n_features_in_ == 1
    assert model.knots_.shape == (model.n_knots_,)
    assert model.slopes_.shape == model.intercepts_.shape == (model.n_knots_ + 1,)
    assert model.n_iter_ >= 1
    np.testing.assert_allclose(model.network_(X), model.predict(X), atol=1e-12)
    np.testing.assert_array_equal(model.pieces_.predict(X), model.predict(X))
    expected = 0.5 * np.sum((model.predict(X) - Y) ** 2)
    assert model.loss_history_[-1] == pytest.approx(expected, rel=1e-8, abs=1e-20)
    piece = np.searchsorted(model.knots_, X[:, 0])
    np.testing.assert_allclose(
        model.intercepts_[piece] + model.slopes_[piece] * X[:, 0], model.predict(X), atol=1e-12
    )


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_pickles_and_clones(kind: type[BaseEstimator]) -> None:
    model = kind(random_state=3).fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    twin = clone(model)
    assert not hasattr(twin, "pieces_")
    np.testing.assert_array_equal(twin.fit(X, Y).predict(X), model.predict(X))


def test_works_inside_pipelines_and_searches() -> None:
    model = make_pipeline(StandardScaler(), ANLSRegressor(3))
    assert model.fit(X, Y).score(X, Y) > 0.999
    search = GridSearchCV(ANLSRegressor(), {"n_knots": [0, 1]}, cv=4).fit(X, Y)
    assert search.best_params_ == {"n_knots": 1}
    assert cross_val_score(ANLSRegressor(1), X, Y, cv=4).min() > 0.99
