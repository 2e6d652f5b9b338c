"""Losses against their formulas in plain Python, and their derivatives against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss

LOSSES: list[Loss] = [SquareLoss(), SquareLoss("sum"), LogisticLoss()]
SIZES = st.integers(1, 7)
SEEDS = st.integers(0, 2**32 - 1)


def sample(loss: Loss, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logistic = isinstance(loss, LogisticLoss)
    targets = rng.choice([-1.0, 1.0], size) if logistic else 3 * rng.standard_normal(size)
    return 3 * rng.standard_normal(size), targets


@settings(deadline=None, derandomize=True, max_examples=40)
@given(size=SIZES, seed=SEEDS)
def test_values_are_the_formulas(size: int, seed: int) -> None:
    h, y = sample(SquareLoss(), size, seed)
    squares = math.fsum((a - b) ** 2 for a, b in zip(h, y, strict=True))
    assert SquareLoss("sum").value(h, y) == pytest.approx(squares / 2, rel=1e-13)
    assert SquareLoss("mean").value(h, y) == pytest.approx(squares / (2 * size), rel=1e-13)
    h, y = sample(LogisticLoss(), size, seed)
    terms = math.fsum(math.log1p(math.exp(-a * b)) for a, b in zip(h, y, strict=True))
    assert LogisticLoss().value(h, y) == pytest.approx(terms / size, rel=1e-13)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(deadline=None, derandomize=True, max_examples=40)
@given(size=SIZES, seed=SEEDS)
def test_slopes_and_curvatures_agree_with_central_differences(loss: Loss, size: int, seed: int) -> None:
    h, y = sample(loss, size, seed)
    step = 1e-5
    slopes, curvatures = loss.slopes(h, y), loss.curvatures(h, y)
    for k in range(size):
        move = step * np.eye(size)[k]
        slope = (loss.value(h + move, y) - loss.value(h - move, y)) / (2 * step)
        assert slopes[k] == pytest.approx(slope, rel=1e-7, abs=1e-8)
        curvature = (loss.slopes(h + move, y)[k] - loss.slopes(h - move, y)[k]) / (2 * step)
        assert curvatures[k] == pytest.approx(curvature, rel=1e-7, abs=1e-9)


def test_the_logistic_loss_neither_overflows_nor_vanishes() -> None:
    loss = LogisticLoss()
    h, y = np.array([1e4, -1e4, 700.0]), np.array([-1.0, -1.0, 1.0])
    assert loss.value(h, y) == pytest.approx(1e4 / 3, rel=1e-12)
    slopes = loss.slopes(h, y)
    np.testing.assert_allclose(slopes, [1 / 3, 0.0, -math.exp(-700) / 3], rtol=1e-12)
    assert slopes[2] < 0


def test_targets_of_the_logistic_loss_are_signs() -> None:
    with pytest.raises(
        InvalidInputError, match=r"^targets: must be \+1 or -1 for the logistic loss, got 0\.5 at index 2$"
    ):
        LogisticLoss().check(np.array([1.0, -1.0, 0.5]))
    LogisticLoss().check(np.array([1.0, -1.0]))
    SquareLoss().check(np.array([0.5]))


@pytest.mark.parametrize("word", ["max", "", None, ["mean"], np.array(["mean", "sum"])])
def test_reductions_are_mean_and_sum(word: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^reduction: must be one of mean, sum; got "):
        SquareLoss(word)  # type: ignore[arg-type]


def test_the_norm_loss_is_the_norm_over_the_number_of_samples() -> None:
    h, y = np.array([1.0, 4.0, 2.0]), np.array([1.0, 0.0, 5.0])
    loss = NormLoss()
    assert loss.value(h, y) == pytest.approx(5 / 3)
    np.testing.assert_allclose(loss.slopes(h, y), [0.0, 4 / 15, -3 / 15])
    np.testing.assert_array_equal(loss.slopes(y, y), np.zeros(3))
    # The Hessian is (1 − r rᵀ/‖r‖²)/(n‖r‖): no direction is more curved than this.
    np.testing.assert_allclose(loss.curvatures(h, y), np.full(3, 1 / 15))
    loss.check(y)
