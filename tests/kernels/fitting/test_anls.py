from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.fitting.anls import (
    CONVERGED,
    PAUSED,
    ROUNDING,
    Run,
    run_windowed,
)
from shallowflow.kernels.fitting.chain import fit
from tests.kernels.fitting.anls_reference import (
    MARGIN,
    Problem,
    candidates,
    discontinuous_problem,
    lstsq_loss,
    move_by_move,
    reference_run,
    sine_problem,
    spanning_loss,
)

MANY = 10**6


def to_the_end(problem: Problem, free_left: int = 0) -> Run:
    return run_windowed(*problem, free_left, MARGIN, MANY, MANY)


def assert_identical(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def random_curve(seed: int) -> Problem:
    """Noisy weighted data on a dyadic grid, which shifts and powers of two map exactly."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 60)), int(rng.integers(0, 12))
    x = np.sort(rng.choice(np.arange(200), m, replace=False)) / 64.0
    y = np.sin(2.0 * x) + 0.2 * rng.normal(size=m)
    return np.sort(rng.uniform(-0.2, 3.2, n)), x, y, rng.uniform(0.5, 2.0, m)


@pytest.mark.parametrize("seed", range(6))
def test_every_move_on_the_sine_is_that_of_lstsq_per_candidate(seed: int) -> None:
    run = to_the_end(sine_problem(seed))
    expected_indices, expected_sides, expected_losses = reference_run(sine_problem(seed), MANY)
    assert run.status == CONVERGED
    assert run.made > 20
    assert run.neurons.tolist() == expected_indices
    assert run.sides.tolist() == expected_sides
    np.testing.assert_allclose(run.losses, expected_losses, rtol=1e-10)
    assert run.loss == run.losses[-1]
    knots = sine_problem(seed)[0].copy()
    knots[run.neurons] = run.places  # of several moves of a knot the last
    np.testing.assert_array_equal(knots, run.knots)


def test_the_first_moves_on_the_discontinuous_curve_are_those_of_lstsq() -> None:
    problem = discontinuous_problem(0)
    run = run_windowed(*problem, 0, MARGIN, 2, 2)
    expected = reference_run(problem, 2, spanning_loss)
    assert (run.neurons.tolist(), run.sides.tolist()) == expected[:2]
    np.testing.assert_allclose(run.losses, expected[2], rtol=1e-9)


@pytest.mark.slow
def test_fifty_moves_on_the_discontinuous_curve_are_those_of_lstsq() -> None:
    problem = discontinuous_problem(0)
    run = run_windowed(*problem, 0, MARGIN, 50, 50)
    expected = reference_run(problem, 50, lstsq_loss)
    assert (run.neurons.tolist(), run.sides.tolist()) == expected[:2]
    np.testing.assert_allclose(run.losses, expected[2], rtol=1e-9)


@pytest.mark.parametrize("free_left", [0, 1])
def test_windowed_moves_are_those_of_full_sweeps_to_the_last_bit(free_left: int) -> None:
    for problem in [sine_problem(7), discontinuous_problem(1), discontinuous_problem(2)]:
        full = move_by_move(problem, free_left)
        assert full.status == CONVERGED
        assert_identical(full, to_the_end(problem, free_left))
    for seed in range(40):
        problem = random_curve(seed)
        assert_identical(move_by_move(problem, free_left), to_the_end(problem, free_left))


def test_a_run_to_the_end_on_the_discontinuous_curve() -> None:
    problem = discontinuous_problem(0)
    knots, initial, loss, count, status = to_the_end(problem)[:5]
    x, y = problem[1:3]
    assert status == CONVERGED
    assert initial == pytest.approx(lstsq_loss(np.maximum(x[:, None] - problem[0], 0.0), y), rel=1e-9)
    assert loss == pytest.approx(lstsq_loss(np.maximum(x[:, None] - knots, 0.0), y), rel=1e-9)
    # The paper's Fig. 10 starts near 1e-3 and reaches 3e-5 (mean square) within about a hundred moves.
    assert initial / x.size == pytest.approx(1e-3, rel=1.0)
    assert loss / x.size < 1e-5
    assert count > 100


def test_a_run_in_pieces_is_the_run() -> None:
    problem = discontinuous_problem(3)
    whole = to_the_end(problem)
    knots, pieces, status = problem[0], [], PAUSED
    while status == PAUSED:
        piece = run_windowed(knots, *problem[1:], 0, MARGIN, 37, 37)
        knots, status = piece.knots, piece.status
        pieces.append(piece)
    np.testing.assert_array_equal(knots, whole.knots)
    assert sum(piece.made for piece in pieces) == whole.made
    for column in range(5, 9):
        np.testing.assert_array_equal(np.concatenate([p[column] for p in pieces]), whole[column])


def test_the_record_ends_at_its_capacity() -> None:
    problem = sine_problem(0)
    before = problem[0].copy()
    long, short = to_the_end(problem), run_windowed(*problem, 0, MARGIN, MANY, 5)
    assert_identical(long[:5], short[:5])
    assert_identical(tuple(a[:5] for a in long[5:]), short[5:])
    paused = run_windowed(*problem, 0, MARGIN, 4, 100)
    assert (paused.made, paused.status, paused.losses.size) == (4, PAUSED, 4)
    np.testing.assert_array_equal(problem[0], before)


def test_equal_losses_go_to_the_first_candidate() -> None:
    # Even data and knots: each move of the left knot has a mirror image of equal loss, but for rounding.
    x = np.arange(-20.0, 21.0) / 16.0
    y, w = np.cosh(2.0 * x), np.ones(41)
    reversed_by_rounding = moved = 0
    for inner in np.arange(2.5, 18.0) / 16.0:
        knots = np.array([-inner, inner])
        losses = candidates(knots, x, y, w, 1, MARGIN).losses
        np.testing.assert_allclose(losses, losses[::-1], rtol=1e-13)
        reversed_by_rounding += int(np.argmin(losses) >= 2)
        indices = run_windowed(knots, x, y, w, 1, MARGIN, 1, 1).neurons
        assert indices.tolist() in ([0], [])
        moved += indices.size
    assert moved > 10
    assert reversed_by_rounding > 0


def test_noise_of_rounding_is_not_chased() -> None:
    # The data lie on a network and there are knots to spare: all losses, and all gains, are rounding errors.
    statuses = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.uniform(0.0, 1.0, 200))
        middles = 0.5 * (x[1:] + x[:-1])
        knots = np.sort(rng.choice(middles, 8, replace=False))
        y = np.maximum(x[:, None] - knots[::2], 0.0) @ rng.normal(size=4)
        run = run_windowed(knots, x, y, np.ones(200), 0, MARGIN, MANY, MANY)
        assert run.loss <= run.initial < 1e-26
        assert (np.diff(run.losses) < 0.0).all()
        statuses.add(run.status)
    assert statuses == {CONVERGED, ROUNDING}


def test_without_live_knots_there_is_nothing_to_do() -> None:
    x = np.array([0.0, 1.0, 2.0])
    for knots in (np.empty(0), np.array([2.0, 3.0])):
        run = run_windowed(knots, x, x, np.ones(3), 0, MARGIN, MANY, MANY)
        np.testing.assert_array_equal(run.knots, knots)
        assert run[1:5] == (5.0, 5.0, 0, CONVERGED)


@given(seed=st.integers(0, 10**6), free_left=st.integers(0, 1))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_losses_fall_to_a_local_optimum(seed: int, free_left: int) -> None:
    problem = random_curve(seed)
    run = to_the_end(problem, free_left)
    knots, initial, loss, count, status = run[:5]
    losses = run.losses
    scale = float((problem[3] * problem[2] ** 2).sum())
    assert (np.diff(np.r_[initial, losses]) < 0.0).all()
    assert (np.diff(knots) > 0.0).all()
    assert losses.size == count
    assert loss == pytest.approx(fit(knots, *problem[1:], free_left)[0], rel=1e-12, abs=1e-28 * scale)
    best = candidates(knots, *problem[1:], free_left, MARGIN).losses
    assert status in (CONVERGED, ROUNDING)
    assert (best >= loss * (1.0 - 1e-11) - 1e-28 * scale).all()


@given(
    seed=st.integers(0, 10**6),
    free_left=st.integers(0, 1),
    shift=st.integers(-50, 50),
    power=st.integers(-20, 20),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_moves_know_no_origin_and_no_unit(seed: int, free_left: int, shift: int, power: int) -> None:
    knots, x, y, w = random_curve(seed)
    knots = np.round(knots * 2.0**20) / 2.0**20
    margin, unit = 2.0**-27, 2.0**power
    first = run_windowed(knots, x, y, w, free_left, margin, MANY, MANY)
    scaled = run_windowed(knots * unit, x * unit, y, w, free_left, margin * unit, MANY, MANY)
    assert_identical(first._replace(knots=first.knots * unit, places=first.places * unit), scaled)
    moved = run_windowed(knots + shift, x + shift, y, w, free_left, margin, 5, 5)
    ours, theirs = ([*zip(run.neurons[:5], run.sides[:5], strict=True)] for run in (moved, first))
    # Two moves may be equally good; then rounding decides, and with it the shift.
    same = next((k for k, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two), 5)
    np.testing.assert_allclose(moved.losses[: same + 1], first.losses[:5][: same + 1], rtol=1e-9)
