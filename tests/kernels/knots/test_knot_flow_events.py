"""Crossing, sliding, release, death and ridges: against closed forms and an independent solver."""

import numpy as np
import pytest

from shallowflow.kernels.knots import flow as kf
from shallowflow.kernels.knots import stage as kv
from tests.kernels.knots.knot_reference import filippov
from tests.kernels.knots.knot_runs import run, tight

NAMES = {
    kv.CROSS_LEFT: "cross",
    kv.CROSS_RIGHT: "cross",
    kv.PIN: "pin",
    kv.RELEASE_LEFT: "release",
    kv.RELEASE_RIGHT: "release",
    kv.DEATH: "death",
}


# Seeds chosen for their releases: of one knot, and of several held on one (repeated) data point together.
@pytest.mark.parametrize("seed", [3, 9, 11, 15, 20, 22, 23])
def test_events_and_states_agree_with_the_inclusion_solved_stage_by_stage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(np.round(rng.uniform(-1, 1, 12), 1 if seed % 2 else 6))
    y = np.sin(4 * x) + 0.3 * rng.normal(size=12)
    knots, outer, rates = rng.uniform(-1.3, 1.05, 5), rng.normal(0, 1, 5), (0.7, 0.3)
    want_knots, want_outer, log = filippov(x, y, knots, outer, rates, 6.0)
    got = run(x, y, knots, outer, 6.0, rates=rates, tolerance=1e-11)
    np.testing.assert_allclose(got.knots, want_knots, atol=1e-9)
    np.testing.assert_allclose(got.outer, want_outer, atol=1e-9)
    events = sorted((NAMES[kind], neuron, x[point]) for kind, neuron, point in got.events.tolist())
    assert events == sorted((kind, neuron, place) for _, kind, neuron, place in log)
    np.testing.assert_allclose(got.event_times, [event[0] for event in log], atol=1e-5)


FIXED_OUTER = (1.0, 1e-14)


@pytest.mark.parametrize("repeats", [1, 3])
def test_crossing_with_known_answer(repeats: int) -> None:
    # c = 1 stands still. b' = 2.5 − 2b up to x = 1, then 1.75 − b; repeated data at lower rates: the same.
    x, y = np.repeat([1.0, 2.0], repeats), np.repeat([0.25, 0.25], repeats)
    rates = (FIXED_OUTER[0] / repeats, FIXED_OUTER[1])
    got = run(x, y, np.array([0.0]), np.array([1.0]), 3.0, rates=rates, keep=True)
    meeting = np.log(5) / 2
    assert got.events.tolist() == [[kv.CROSS_RIGHT, 0, 0]]
    assert got.event_times[0] == pytest.approx(meeting, abs=1e-10)
    assert got.knots[0] == pytest.approx(1.75 - 0.75 * np.exp(-(3.0 - meeting)), abs=1e-9)
    for t in (0.3, 0.7, 0.9, 2.2):
        exact = 1.25 * (1 - np.exp(-2 * t)) if t < meeting else 1.75 - 0.75 * np.exp(-(t - meeting))
        assert got.state_at(t)[0] == pytest.approx(exact, abs=1e-8)


def test_knots_on_top_of_each_other_cross_together() -> None:
    x, y = np.array([1.0, 2.0]), np.array([0.25, 0.25])
    got = run(x, y, np.zeros(2), np.full(2, 0.5), 3.0, rates=(2.0, 1e-14))
    assert got.events.tolist() == [[kv.CROSS_RIGHT, 0, 0], [kv.CROSS_RIGHT, 1, 0]]
    assert got.event_times[0] == got.event_times[1] == pytest.approx(np.log(5) / 2, abs=1e-10)


def test_knot_stops_for_ever_where_both_sides_push_it_back() -> None:
    x, y = np.array([1.0, 2.0]), np.array([-1.0, 1.5])
    got = run(x, y, np.array([0.0]), np.array([1.0]), 9.0, rates=FIXED_OUTER)
    assert got.events.tolist() == [[kv.PIN, 0, 0]]
    assert got.event_times[0] == pytest.approx(np.log(5) / 2, abs=1e-10)
    assert got.knots[0] == 1.0
    assert got.held.tolist() == [0]


def test_neuron_that_passes_the_last_point_is_dead_and_frozen() -> None:
    # b' = 3.25 − 2b, then 2.5 − b: it meets 1 after ln(13/5)/2 and 2 after ln 3 more.
    x, y = np.array([1.0, 2.0]), np.array([0.25, -0.5])
    got = run(x, y, np.array([0.0]), np.array([1.0]), 9.0, rates=FIXED_OUTER)
    assert got.events.tolist() == [[kv.CROSS_RIGHT, 0, 0], [kv.DEATH, 0, 1]]
    assert got.event_times[1] == pytest.approx(np.log(13 / 5) / 2 + np.log(3), abs=1e-9)
    assert got.status == kf.STATIONARY
    assert got.knots[0] == 2.0
    assert got.losses[-1] == pytest.approx(0.5 * (0.25**2 + 0.5**2))
    again = run(x, y, got.knots, got.outer, 99.0, rates=FIXED_OUTER)
    assert (again.status, again.knots[0]) == (kf.STATIONARY, 2.0)


def test_held_knot_slides_and_is_released_when_the_force_turns() -> None:
    # Held on 0 the outer weight relaxes, c = 1.8 − 0.8 exp(−5t); the pull to the right, 3c − 5, turns at 5/3.
    x, y = np.array([0.0, 1.0, 2.0]), np.array([-10.0, 1.0, 4.0])
    release = np.log(6) / 5
    knots, outer = np.array([0.0]), np.array([1.0])
    got = run(x, y, knots, outer, 0.6, held=np.array([0]), keep=True)
    assert got.events.tolist() == [[kv.RELEASE_RIGHT, 0, 0]]
    assert release <= got.event_times[0] < release + 1e-5
    for t in (0.1, 0.2, 0.35):
        np.testing.assert_allclose(got.state_at(t), [0.0, 1.8 - 0.8 * np.exp(-5 * t)], atol=1e-8)
    freed = tight(x, y, np.array([1e-300]), np.array([5 / 3]), (1.0, 1.0), np.array([0.6 - release]))
    np.testing.assert_allclose([got.knots[0], got.outer[0]], freed[0], atol=1e-8)
    # A free knot that starts exactly on the point is held at once.
    free = run(x, y, knots, outer, 0.6)
    assert free.events.tolist() == [[kv.PIN, 0, 0], [kv.RELEASE_RIGHT, 0, 0]]
    assert free.event_times[0] == 0.0
    assert free.knots[0] == pytest.approx(got.knots[0], abs=1e-10)


@pytest.mark.parametrize(("side", "kind"), [(1, kv.RIDGE_RIGHT), (-1, kv.RIDGE_LEFT)])
def test_held_neuron_whose_outer_weight_changes_sign_stands_on_a_ridge(side: int, kind: int) -> None:
    # Held on 0, c = −0.2 + 0.4 exp(−5t) vanishes at ln 2 / 5; then both sides pull it away.
    x, y = np.array([0.0, 1.0, 2.0]), np.array([-5.0, 3.0, -2.0])
    got = run(x, y, np.array([0.0]), np.array([0.2]), 0.3, ridge_side=side)
    assert got.events.tolist() == [[kv.PIN, 0, 0], [kind, 0, 0]]
    assert np.log(2) / 5 <= got.event_times[1] < np.log(2) / 5 + 1e-5
    assert side * got.knots[0] > 1e-3
    assert (np.diff(got.losses) <= 0).all()
