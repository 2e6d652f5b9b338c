from __future__ import annotations

import numpy as np
import pytest

from shallowflow.kernels.fitting import anls
from shallowflow.kernels.fitting.chain import Data, fit, new_chain
from tests.kernels.entry import entry
from tests.kernels.fitting.anls_reference import MARGIN, candidates, rule_moves
from tests.kernels.fitting.exact_least_squares import KINDS, exact_loss, random_problem


def test_the_five_neurons_of_figure_6_have_seven_candidates() -> None:
    # U_2 is empty and U_5 has one point: 2, 1, 1, 2 and 1 candidates.
    x = np.arange(10.0)
    knots = np.array([1.5, 4.2, 4.6, 6.5, 8.5])
    indices, sides, places, _ = candidates(knots, x, np.sin(x), np.ones(10), 0, MARGIN)
    assert indices.tolist() == [0, 0, 1, 2, 3, 3, 4]
    assert sides.tolist() == [-1, 1, -1, 1, -1, 1, -1]
    assert places.tolist() == [0.5, 2.5, 3.5, 5.5, 5.5, 7.5, 7.5]


def test_a_knot_lands_beside_its_neighbour_or_just_left_of_the_data() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    knots = np.array([0.5, 1.5, 1.75, 5.0])
    indices, sides, places, _ = candidates(knots, x, x**2, np.ones(4), 0, MARGIN)
    moves = list(zip(indices.tolist(), sides.tolist(), places.tolist(), strict=True))
    assert moves == [(0, -1, -MARGIN), (0, 1, 1.25), (1, -1, 0.75), (2, 1, 2.5)]
    # No room between the datum and a knot that sits on it; none left of a datum when the margin is lost.
    indices, sides, _, _ = candidates(np.array([0.5, 1.0]), x, x**2, np.ones(4), 0, MARGIN)
    assert list(zip(indices.tolist(), sides.tolist(), strict=True)) == [(0, -1), (1, -1), (1, 1)]
    indices, sides, _, _ = candidates(np.array([1e12 + 0.5]), x + 1e12, x**2, np.ones(4), 0, MARGIN)
    assert list(zip(indices.tolist(), sides.tolist(), strict=True)) == [(0, 1)]


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_candidates_follow_the_rules_and_have_the_exact_losses(kind: str, free_left: int) -> None:
    rng = np.random.default_rng(20 + KINDS.index(kind))
    compared = 0
    for _ in range(12):
        knots, x, y, w = random_problem(kind, rng)
        indices, sides, places, losses = candidates(knots, x, y, w, free_left, MARGIN)
        expected = rule_moves(knots, x)
        assert list(zip(indices.tolist(), sides.tolist(), places.tolist(), strict=True)) == expected
        for (k, _, place), loss in zip(expected, losses, strict=True):
            moved = knots.copy()
            moved[k] = place
            exact = exact_loss(moved, x, y, w, free_left)
            assert loss == pytest.approx(exact, rel=1e-12, abs=1e-28 * float((w * y * y).sum()))
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("width", [4, 60])
def test_gains_are_differences_of_losses(width: int, free_left: int) -> None:
    # Few knots: blocks changed by up- and downdates. Many: blocks restated from the data.
    rng = np.random.default_rng(width)
    x = np.sort(rng.uniform(-1.0, 1.0, 300))
    y, w = np.sin(7.0 * x) + 0.1 * rng.normal(size=300), rng.uniform(0.5, 2.0, 300)
    knots = np.sort(rng.uniform(-1.1, 1.0, width))
    loss = fit(knots, x, y, w, free_left)[0]
    indices, sides, _, losses = candidates(knots, x, y, w, free_left, MARGIN)
    data, gains = Data(x, y, w, free_left), np.full(2 * width, np.nan)
    _, chain = new_chain(knots, data)
    entry(anls.refresh_gains)(gains, 0, chain.knots.size - 1, data, chain, MARGIN)
    np.testing.assert_allclose(gains[2 * indices + (sides > 0)], loss - losses, atol=1e-13 * loss)
    rest = np.delete(gains[: 2 * chain.knots.size], 2 * indices + (sides > 0))
    assert (rest == -np.inf).all()
