import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES
from shallowflow.dynamics.baselines import adam, alternating_least_squares
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.errors import InvalidInputError
from shallowflow.estimators import AdamRegressor, AlternatingRegressor, GDRegressor, LSQRegressor
from shallowflow.models.initialize import he_knots
from tests.estimators.least_squares import half_loss

X = np.linspace(-1, 1, 60)
Y = CURVES["sin_pi"](X)
TRAINED = [
    GDRegressor(8, max_iter=300, random_state=2),
    AdamRegressor(8, max_iter=300, random_state=2),
    AlternatingRegressor(8, max_iter=50, random_state=2),
    AlternatingRegressor(8, inner="adam", max_iter=50, random_state=2),
]


def test_lsq_is_least_squares_with_the_random_knots() -> None:
    model = LSQRegressor(8, random_state=2).fit(X[:, None], Y)
    knots = he_knots(8, seed=2).knots
    np.testing.assert_array_equal(model.knots_, np.sort(knots))
    assert model.loss_history_[-1] == pytest.approx(half_loss(X, Y, knots, line=False), rel=1e-8)


@pytest.mark.parametrize("model", TRAINED, ids=lambda model: type(model).__name__)
def test_on_the_data_of_the_paper_they_are_the_dynamics(
    model: GDRegressor | AdamRegressor | AlternatingRegressor,
) -> None:
    network, dataset = he_knots(8, seed=2), Dataset(X[:, None], Y)
    steps = model.max_iter
    if isinstance(model, AlternatingRegressor):
        run = alternating_least_squares(network, dataset, steps=steps, inner=model.inner)
    elif isinstance(model, AdamRegressor):
        run = adam(network, dataset, steps=steps)
    else:
        run = gradient_descent(network, dataset, step=1e-3, steps=steps)
    model.fit(X[:, None], Y)
    np.testing.assert_allclose(model.predict(X[:, None]), run.final(X), atol=1e-9)
    np.testing.assert_allclose(model.loss_history_, run.losses * len(X), rtol=1e-9)
    assert model.n_iter_ == steps


@pytest.mark.parametrize("model", TRAINED, ids=lambda model: type(model).__name__)
def test_units_do_not_matter(model: GDRegressor) -> None:
    base = model.fit(X[:, None], Y).predict(X[:, None])
    shifted: Floats = 8 * X[:, None] + 100
    np.testing.assert_allclose(model.fit(shifted, 32 * Y).predict(shifted), 32 * base, atol=1e-6)
    constant = model.fit(np.ones((3, 1)), np.zeros(3))
    assert np.isfinite(constant.predict([[1.0], [2.0]])).all()


def test_a_step_that_is_too_large_is_told() -> None:
    with pytest.warns(ConvergenceWarning, match="smaller"):
        GDRegressor(20, step=50.0, max_iter=100, random_state=0).fit(X[:, None], Y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LSQRegressor(0), "n_knots: must be >= 1, got 0"),
        (GDRegressor(step=0.0), "step: must be > 0, got 0"),
        (AdamRegressor(max_iter=0), "max_iter: must be >= 1, got 0"),
        (AlternatingRegressor(inner="sgd"), "inner: must be one of gd, adam; got 'sgd'"),
    ],
)
def test_bad_parameters_are_refused(model: LSQRegressor, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X[:, None], Y)


def test_what_cannot_be_scaled_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="X: the range must be finite"):
        LSQRegressor().fit([[-1e308], [1e308]], [0.0, 1.0])
