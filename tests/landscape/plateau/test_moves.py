"""The candidate rules against the paper's figure and against their own wording, checked by enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.landscape.plateau.moves import LEFT, RIGHT, Candidate, candidates, margin_of

places = st.integers(-2, 18).map(lambda i: i / 2) | st.floats(-1.0, 9.0, allow_subnormal=False)
knot_lists = st.lists(places, min_size=1, max_size=7).map(lambda b: np.array(sorted(b)))
data_lists = st.lists(st.integers(0, 16).map(lambda i: i / 2), min_size=1, max_size=9, unique=True)


def test_figure_6_has_seven_candidates() -> None:
    """Five neurons, ten data, U_2 empty, one point in U_5: 2 + 1 + 1 + 2 + 1 places, [plateau] §4.2."""
    x = np.arange(10.0)
    knots = np.array([1.5, 3.25, 3.75, 5.5, 8.5])
    found = candidates(knots, x)
    assert [sum(c.neuron == k for c in found) for k in range(5)] == [2, 1, 1, 2, 1]
    assert found == [
        Candidate(0, LEFT, 0.5),
        Candidate(0, RIGHT, 2.5),
        Candidate(1, LEFT, 2.5),
        Candidate(2, RIGHT, 4.5),
        Candidate(3, LEFT, 4.5),
        Candidate(3, RIGHT, 6.5),
        Candidate(4, LEFT, 7.5),
    ]


def active(knot: float, x: Floats) -> set[float]:
    return {float(p) for p in x if p > knot}


def block(knots: Floats, k: int, x: Floats) -> set[float]:
    """U_k: the data active for knot k but not for the next one (3.2)."""
    after = active(knots[k + 1], x) if k + 1 < len(knots) else set()
    return active(knots[k], x) - after


@given(knot_lists, data_lists)
@settings(deadline=None, derandomize=True, max_examples=120)
def test_every_candidate_keeps_the_rules(knots: Floats, data: list[float]) -> None:
    x = np.array(sorted(data))
    for move in candidates(knots, x):
        k, changed = move.neuron, knots.copy()
        changed[k] = move.position
        neighbours = [changed[j] for j in (k - 1, k + 1) if 0 <= j < len(knots)]
        assert changed[k] != knots[k]
        assert all(changed[k] != b for b in neighbours)  # rule 2, strictly at the knot that moved
        assert list(changed) == sorted(changed)
        before, after = active(knots[k], x), active(changed[k], x)
        assert len(before ^ after) == 1  # rule 3: one data point changes sides …
        assert (before < after) == (move.direction == LEFT)
        assert abs(len(block(changed, k, x)) - len(block(knots, k, x))) == 1  # … and U_k by one
        assert before  # rule 4: not dead
        assert after  # rule 5: nor dies
        (passed,) = before ^ after
        middles = {0.5 * (passed + float(p)) for p in x} | {0.5 * (passed + b) for b in neighbours}
        assert move.position in middles | {float(x[0]) - margin_of(x)}  # rule 6


@given(knot_lists, data_lists)
@settings(deadline=None, derandomize=True, max_examples=120)
def test_no_allowed_move_is_left_out(knots: Floats, data: list[float]) -> None:
    """A knot can pass its next data point iff there is room beyond, strictly inside its neighbours."""
    x = np.array(sorted(data))
    expected = set()
    for k, knot in enumerate(knots):
        lower, upper = (
            knots[k - 1] if k > 0 else -np.inf,
            knots[k + 1] if k + 1 < len(knots) else np.inf,
        )
        if not active(knot, x):
            continue
        if [p for p in x if lower < p <= knot]:
            expected.add((k, LEFT))
        nearest = min(active(knot, x))
        if nearest < upper and nearest < x[-1]:
            expected.add((k, RIGHT))
    found = candidates(knots, x)
    assert {(move.neuron, move.direction) for move in found} == expected
    assert len(found) == len(expected) <= 2 * len(knots)


def test_the_landing_places() -> None:
    x = np.array([0.0, 1.0, 3.0])
    assert candidates(np.array([0.5]), x) == [Candidate(0, LEFT, -margin_of(x)), Candidate(0, RIGHT, 2.0)]
    # Between the data point passed and the neighbouring knot, if that is nearer than the next data point.
    assert candidates(np.array([0.5, 2.5]), x) == [
        Candidate(0, LEFT, -margin_of(x)),
        Candidate(0, RIGHT, 1.75),
        Candidate(1, LEFT, 0.75),
    ]


def test_a_middle_that_rounds_to_an_end_is_no_candidate() -> None:
    above = float(np.nextafter(1.0, 2.0))
    x = np.array([1.0, above, 2.0])
    assert [move.direction for move in candidates(np.array([0.5]), x)] == []


def test_the_place_left_of_all_data_goes_with_their_units() -> None:
    """10⁻⁸ for data on [−1, 1], as printed; at any scale and any shift a number left of the first input."""
    assert margin_of(np.array([-1.0, 1.0])) == 1e-8
    for scale in (1e-9, 1.0, 1e6):
        for shift in (0.0, 1e6 * scale, 1e12 * scale):
            x = shift + scale * np.linspace(-1.0, 1.0, 5)
            (left, _) = candidates(np.array([0.5 * (x[0] + x[1])]), x)
            assert left.position < x[0]
            assert x[0] - left.position <= max(1.01e-8 * scale, 4 * np.spacing(abs(x[0])))
