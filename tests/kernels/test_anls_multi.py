from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.anls import CONVERGED, run_windowed
from shallowflow.kernels.anls_moves import candidates
from shallowflow.kernels.anls_multi import chosen_knots, run_multi
from shallowflow.kernels.chain import fit
from tests.kernels.anls_reference import MARGIN, discontinuous_problem, rule_moves, sine_problem
from tests.kernels.knot_problems import DEGENERATE, any_curve


@pytest.mark.parametrize("seed", range(3))
def test_many_moves_need_few_iterations(seed: int) -> None:
    problem = discontinuous_problem(seed)
    knots, losses, counts, status = run_multi(*problem, 0, MARGIN, 1000)
    _, _, loss, iterations, _, _, _, _ = run_windowed(*problem, 0, MARGIN, 10**6, 0)
    assert status == CONVERGED
    assert counts.size < iterations / 5
    assert counts.sum() > iterations / 2
    assert losses[-1] < 3.0 * loss
    # The end is one of ANLS too: none of its candidates gains.
    assert candidates(knots, *problem[1:], 0, MARGIN)[3].min() >= losses[-1] * (1.0 - 2e-12)


def test_an_iteration_moves_each_knot_past_one_datum_and_no_neighbours() -> None:
    for seed in range(5):
        knots, x, y, w = sine_problem(seed)
        moved, losses, counts, _ = run_multi(knots, x, y, w, 0, MARGIN, 1)
        changed = np.flatnonzero(moved != knots)
        assert changed.size == counts[0] >= 1
        assert (np.diff(changed) >= 2).all()
        allowed = {(k, place) for k, _, place in rule_moves(knots, x)}
        assert {(int(k), float(moved[k])) for k in changed} <= allowed
        best = candidates(knots, x, y, w, 0, MARGIN)
        assert best[0][best[3].argmin()] in changed
        assert losses[0] - losses[1] >= 0.5 * (losses[0] - best[3].min())


def test_local_maxima_of_the_gains_are_chosen() -> None:
    better = np.array([3.0, 1.0, 2.0, 2.0, 0.0, -1.0, 5.0])
    gains = np.column_stack([better - 4.0, better]).ravel()
    for least, expected in ((0.0, [0, 2, 6]), (2.5, [0, 6]), (5.0, [])):
        chosen = np.empty(7, dtype=bool)
        chosen_knots(gains, least, chosen)
        assert np.flatnonzero(chosen).tolist() == expected


@given(seed=st.integers(0, 10**6), free_left=st.integers(0, 1))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_every_iteration_lowers_the_exact_loss_and_can_be_continued(seed: int, free_left: int) -> None:
    knots, x, y, w = any_curve(seed)
    moved, losses, counts, _ = run_multi(knots, x, y, w, free_left, MARGIN, 20)
    assert losses.size == counts.size + 1
    assert (np.diff(losses) < 0).all()
    assert losses[0] == fit(knots, x, y, w, free_left)[0]
    assert losses[-1] == fit(moved, x, y, w, free_left)[0]
    assert (np.diff(moved) >= 0).all()
    halfway, _, _, _ = run_multi(knots, x, y, w, free_left, MARGIN, 5)
    assert (run_multi(halfway, x, y, w, free_left, MARGIN, 15)[0] == moved).all()


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data(name: str, free_left: int) -> None:
    knots, losses, _, status = run_multi(*DEGENERATE[name], free_left, 1e-9, 10_000)
    assert status > 0
    assert np.isfinite(np.r_[knots, losses]).all()
    assert (np.diff(losses) < 0).all()
