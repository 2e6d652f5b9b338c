"""The event-driven flow as a whole: against SciPy and plain descent; no lock-up, no rising loss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.knots import flow as kf
from shallowflow.kernels.knots import stage as kv
from tests.kernels.knots.knot_reference import FloatArray, Stage
from tests.kernels.knots.knot_runs import curve, run, tight


def quiet_problem() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Data in five clumps with knots in the wide gaps: no events for a while, and stiff."""
    rng = np.random.default_rng(4)
    x = np.sort(np.concatenate([centre + rng.uniform(-0.05, 0.05, 30) for centre in (-2, -1, 0, 1, 2)]))
    knots = np.array([-3.0, -1.52, -1.47, -0.5, 0.45, 0.55, 1.5])
    return x, 0.1 * np.sin(x), knots, rng.normal(0, 0.2, 7)


def test_smooth_flow_and_its_interpolant_agree_with_an_independent_solver() -> None:
    x, y, knots, outer = quiet_problem()
    rates, times = (0.02, 0.05), np.linspace(0.05, 5, 40)
    reference = tight(x, y, knots, outer, rates, times)
    got = run(x, y, knots, outer, 5.0, rates=rates, keep=True)
    assert got.status == kf.REACHED
    assert got.t == 5.0
    assert got.events.size == 0
    assert np.abs(np.concatenate([got.knots, got.outer]) - reference[-1]).max() < 1e-8
    between = max(np.abs(got.state_at(t) - want).max() for t, want in zip(times, reference, strict=True))
    assert between < 1e-8
    # At a coarse tolerance the interpolant is off by about the tolerance, no more.
    coarse = run(x, y, knots, outer, 5.0, rates=rates, tolerance=1e-6, keep=True)
    assert len(coarse.times) < 0.5 * len(got.times)
    between = max(np.abs(coarse.state_at(t) - want).max() for t, want in zip(times, reference, strict=True))
    assert between < 5e-6


def test_flow_is_the_limit_of_descent_with_an_error_of_first_order() -> None:
    x, y, knots, outer = curve("sin_pi", 1)
    rate, until = 2 / x.size, 40.0
    flow = run(x, y, knots, outer, until, rates=(rate, rate))
    assert len(flow.events) > 10
    errors = []
    for step in (4e-2, 4e-3):
        b, c = knots.copy(), outer.copy()
        for _ in range(round(until / step)):
            distance = x[:, None] - b
            residual = np.maximum(distance, 0) @ c - y
            force, moment = residual @ (distance > 0), residual @ np.maximum(distance, 0)
            b, c = b + step * rate * c * force, c - step * rate * moment
        errors.append(max(np.abs(b - flow.knots).max(), np.abs(c - flow.outer).max()))
    assert errors[1] < 1e-3
    assert 8 < errors[0] / errors[1] < 12.5


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 8),
    size=st.integers(1, 25),
    decimals=st.sampled_from([0, 1, 9]),
    ratio=st.sampled_from([1.0, 1e-2, 30.0]),
    tolerance=st.sampled_from([1e-4, 1e-7, 1e-10]),
)
def test_loss_never_rises_and_the_state_is_consistent(
    seed: int, width: int, size: int, decimals: int, ratio: float, tolerance: float
) -> None:
    stage = Stage.random(seed, width, size, decimals=decimals)
    got = run(
        stage.x, stage.y, stage.knots, stage.outer, 50.0, rates=(ratio, 1.0), tolerance=tolerance, steps=4000
    )
    assert got.status in (kf.REACHED, kf.STATIONARY)
    assert (np.diff(got.times) >= 0).all()
    # Steps are only as good as their tolerance: so is the slope at which they lower the loss.
    assert (np.diff(got.losses) <= tolerance * got.losses[0]).all()
    residual = np.maximum(stage.x[:, None] - got.knots, 0) @ got.outer - stage.y
    assert got.losses[-1] == pytest.approx(0.5 * (residual**2).sum(), rel=1e-9, abs=1e-14)
    for neuron in np.flatnonzero(got.held >= 0):
        assert got.knots[neuron] == stage.x[got.held[neuron]]
    dead = stage.knots >= stage.x[-1]
    np.testing.assert_array_equal(got.knots[dead], stage.knots[dead])
    np.testing.assert_array_equal(got.outer[dead], stage.outer[dead])


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8])
def test_wide_network_trains_to_a_stationary_point_without_lock_up(tolerance: float) -> None:
    x, y, knots, outer = curve("sin_5pi", 3)
    rate = 2 / x.size
    got = run(x, y, knots, outer, np.inf, rates=(rate, rate), tolerance=tolerance, stop=1e-6, steps=8000)
    assert got.status == kf.STATIONARY
    assert got.t > 1e6
    kinds = np.bincount(got.events[:, 0], minlength=8)
    assert kinds[kv.CROSS_LEFT] + kinds[kv.CROSS_RIGHT] > 1000
    assert 300 < kinds[kv.PIN] < 700
    assert (np.diff(got.losses) <= 0).all()
    # Stationary ([plateau], Lemma 3.4): no force, but on knots held on a data point, where it holds them.
    active = x[:, None] > got.knots
    residual = (active * (x[:, None] - got.knots)) @ got.outer - y
    right = got.outer * (residual @ active)
    left = got.outer * (residual @ (x[:, None] >= got.knots))
    held = got.held >= 0
    assert np.abs(right[~held & active.any(axis=0)]).max() < 2e-6
    assert (left[held] > -2e-6).all()
    assert (right[held] < 2e-6).all()
    assert np.abs(residual @ (active * (x[:, None] - got.knots))).max() < 2e-6


def test_run_can_be_cut_into_pieces_anywhere() -> None:
    x, y, knots, outer = curve("sin_pi", 2)
    rates = (2 / x.size, 1 / x.size)
    whole = run(x, y, knots, outer, 200.0, rates=rates, tolerance=1e-8)
    piece = run(x, y, knots, outer, 200.0, rates=rates, tolerance=1e-8, steps=7)
    times, events = [piece.times], [piece.events]
    while piece.status == kf.OUT_OF_STEPS:
        piece = run(
            x,
            y,
            piece.knots,
            piece.outer,
            200.0,
            rates=rates,
            tolerance=1e-8,
            steps=7,
            held=piece.held,
            t=piece.t,
            h=piece.h,
        )
        times.append(piece.times[1:])
        events.append(piece.events)
    assert piece.status == whole.status == kf.REACHED
    np.testing.assert_array_equal(np.concatenate(events), whole.events)
    np.testing.assert_array_equal(np.concatenate(times), whole.times)
    np.testing.assert_array_equal(piece.knots, whole.knots)
    np.testing.assert_array_equal(piece.outer, whole.outer)
    np.testing.assert_array_equal(piece.held, whole.held)


def test_order_of_the_neurons_does_not_matter() -> None:
    x, y, knots, outer = curve("sin_pi", 5)
    order = np.random.default_rng(0).permutation(knots.size)
    rates = (2 / x.size, 2 / x.size)
    one = run(x, y, knots, outer, 30.0, rates=rates, keep=True)
    two = run(x, y, knots[order], outer[order], 30.0, rates=rates, keep=True)
    np.testing.assert_allclose(one.knots[order], two.knots, atol=1e-12)
    assert one.events[:, 1].tolist() == order[two.events[:, 1]].tolist()
    assert one.nodes.shape == (len(one.times) - 1, 5, 2 * knots.size)
    np.testing.assert_array_equal(one.nodes[-1, -1], np.concatenate([one.knots, one.outer]))
    np.testing.assert_array_equal(one.nodes[0, 0], np.concatenate([knots, outer]))
    np.testing.assert_array_equal(one.nodes[1:, 0], one.nodes[:-1, -1])


def test_statuses_say_why_it_stopped() -> None:
    x, y, knots, outer = curve("sin_5pi", 0)
    rates = (2 / x.size, 2 / x.size)
    full = run(x, y, knots, outer, 1e3, rates=rates, tolerance=1e-6, events=250)
    assert full.status == kf.OUT_OF_EVENTS
    assert 150 < len(full.events) <= 250
    assert run(x, y, knots, outer, 0.0, rates=rates).status == kf.REACHED
    broken = y.copy()
    broken[7] = np.nan
    assert run(x, broken, knots, outer, 1.0, rates=rates).status == kf.NOT_FINITE
    assert run(x, y, np.full(3, 2.0), np.ones(3), 1.0).status == kf.STATIONARY
