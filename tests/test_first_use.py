"""A first script, typed: the tests run it here, `make test-install` with what a user has installed."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import shallowflow as sf
from shallowflow.estimators import ANLSRegressor


def test_a_first_fit() -> None:
    x = np.linspace(-1.0, 1.0, 50)
    model = ANLSRegressor(n_knots=1).fit(x[:, None], np.abs(x - 0.2))
    assert_type(model, ANLSRegressor)
    assert_type(model, sf.estimators.ANLSRegressor)
    np.testing.assert_allclose(model.knots_, [0.2], atol=1e-9)


def test_a_first_flow() -> None:
    data = sf.data.GENERATORS["three_points"]()
    net = sf.initialize.balanced(width=20, dimension=2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(net, data, until=20.0)
    assert_type(net, sf.ReLUNetwork)
    assert_type(run, sf.Trajectory)
    assert_type(run.outcome, sf.Outcome)
    assert run.outcome.ok
    assert run.losses[-1] < run.losses[0]


if __name__ == "__main__":
    test_a_first_fit()
    test_a_first_flow()
    print(f"a fit and a flow by {sf.__file__}")
