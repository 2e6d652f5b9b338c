from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.fitting.anls import CONVERGED, PAUSED
from shallowflow.kernels.fitting.chain import fit
from shallowflow.kernels.fitting.search import improve
from tests.kernels.knots.knot_problems import DEGENERATE, any_curve, projected_loss, task


@pytest.mark.parametrize(
    ("name", "free_left", "bound"),
    [
        ("sine", 1, 2.1e-3),
        ("five sines", 1, 1.0e-3),
        ("jump", 1, 1.2e-5),
        ("sine", 0, 3.3e-3),
        ("five sines", 0, 1.0e-3),
        ("jump", 0, 1.2e-5),
    ],
)
@pytest.mark.parametrize("start", ["quantiles", "random", "greedy"])
def test_half_sums_of_squares_on_the_tasks_of_the_paper(
    name: str, free_left: int, bound: float, start: str
) -> None:
    x, y, w, n = task(name)
    knots = {
        "quantiles": np.quantile(x, np.linspace(0.0, 1.0, n + 2)[1:-1]),
        "random": np.sort(np.random.default_rng(0).uniform(-1.0, 1.0, n)),
        "greedy": np.full(n, x[-1]),
    }[start]
    knots, losses, status = improve(knots, x, y, w, free_left, 200)
    assert status == CONVERGED
    assert losses[-1] / 2 <= bound
    assert (np.diff(losses) < 0).all()
    assert losses[-1] == fit(knots, x, y, w, free_left)[0]
    if name == "sine":
        assert projected_loss(knots, x, y, w, free_left) == pytest.approx(losses[-1], rel=1e-9)


def test_a_search_goes_on_from_its_knots() -> None:
    x, y, w, n = task("jump")
    start = np.sort(np.random.default_rng(1).normal(0.0, 1.0, n))
    knots, losses, status = improve(start, x, y, w, 0, 6)
    assert status == PAUSED
    first, before, _ = improve(start, x, y, w, 0, 4)
    again, after, _ = improve(first, x, y, w, 0, 2)
    assert (again == knots).all()
    assert (np.r_[before, after[1:]] == losses).all()


@given(seed=st.integers(0, 10**6), free_left=st.integers(0, 1))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_the_loss_only_falls(seed: int, free_left: int) -> None:
    knots, x, y, w = any_curve(seed)
    better, losses, _ = improve(knots, x, y, w, free_left, 5, 4)
    assert np.isfinite(np.r_[better, losses]).all()
    assert (np.diff(losses) < 0).all()
    assert losses[0] == fit(knots, x, y, w, free_left)[0]
    assert losses[-1] == fit(better, x, y, w, free_left)[0]
    assert (np.diff(better) >= 0).all()


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data(name: str, free_left: int) -> None:
    knots, losses, status = improve(*DEGENERATE[name], free_left, 40, 4)
    assert status == CONVERGED
    assert np.isfinite(np.r_[knots, losses]).all()
    assert (np.diff(losses) < 0).all()
    exact = ("more knots than points", "every datum a knot", "one line", "a kink to be found")
    if free_left and name in exact:
        assert losses[-1] < 1e-26
