"""What [two_timescale] says about targets and positions (numbers: tests of its certificates); the rule for
neurons on the last piece beside the two-timescale limit itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow import landscape
from shallowflow.landscape import fate_of_last_piece
from shallowflow.landscape.two_timescale.step_classes import beside_jumps

TARGET = sf.PiecewiseConstant([0.5], [0.0, 1.0])
NETWORK = sf.StepNetwork([0.3, 0.6], [0.0, 0.0])


@pytest.mark.parametrize("place", [-0.5, 0.0, 1.0, 1.5])
def test_jumps_outside_of_the_interval_have_no_goodness(place: float) -> None:
    target = sf.PiecewiseConstant([place], [0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match=r"target: must have its jumps inside \(0, 1\)"):
        landscape.goodness(NETWORK, target)
    with pytest.raises(sf.InvalidInputError, match=r"target: must have its jumps inside \(0, 1\)"):
        landscape.step_class(target)


@pytest.mark.parametrize("delta", [0, 5, -0.1, float("nan"), "a"])
def test_a_probability_of_failure_lies_in_the_unit_interval(delta: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="delta: must be"):
        landscape.step_class(TARGET).neurons(delta)


@pytest.mark.parametrize("sharpness", [-1, float("nan"), "a", None])
def test_the_floor_needs_a_sharpness(sharpness: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="sharpness: must be"):
        landscape.covered_error(TARGET, sharpness)
    assert landscape.covered_error(TARGET, 0.28) == pytest.approx(0.01)


@pytest.mark.parametrize("wrong", ["a", None])
def test_other_things_are_refused(wrong: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="target: must be a PiecewiseConstant"):
        landscape.step_class(wrong)
    with pytest.raises(sf.InvalidInputError, match="target: must be a PiecewiseConstant"):
        landscape.covered_error(wrong, 0.1)
    for call in (landscape.feature_gram, landscape.separation, landscape.well_separated):
        with pytest.raises(sf.InvalidInputError, match="network: must be a StepNetwork"):
            call(wrong)
    assert np.isfinite(landscape.separation(NETWORK))


def test_neurons_beside_jumps_are_the_nearest_on_either_side() -> None:
    rng = np.random.default_rng(0)
    positions, target = rng.random(12), sf.PiecewiseConstant([0.2, 0.55, 0.999], [0.0, 1.0, 0.0, 1.0])
    expected = set()
    for jump in target.breakpoints:
        for side in (positions[positions < jump], positions[positions >= jump]):
            if side.size:
                nearest = side[np.argmin(np.abs(side - jump))]
                expected.add(int(np.flatnonzero(positions == nearest)[0]))
    found = beside_jumps(positions, target)
    assert set(np.flatnonzero(found).tolist()) == expected


def followed(target: sf.PiecewiseConstant, positions: list[float]) -> str:
    run = sf.two_timescale_limit(sf.StepNetwork(positions, np.zeros(len(positions))), target, until=1e9)
    reached = sorted({event.point for event in run.events if event.kind == "hit"})
    assert (run.losses[-1] < 1e-25) == (reached == [0, 1])
    return {(): "stuck", (1,): "second jump only", (0, 1): "recovers"}[tuple(reached)]


@pytest.mark.parametrize(("first", "fate"), [(0.3, "stuck"), (0.31, "recovers"), (0.29, "second jump only")])
def test_the_papers_example_hangs_on_the_lengths(first: float, fate: str) -> None:
    target = sf.PiecewiseConstant([first, 0.6], [1.0, -1.0, 0.0])
    assert fate_of_last_piece(target) == fate == followed(target, [0.7, 0.8, 0.95])


@pytest.mark.parametrize(
    ("breaks", "values", "fate"),
    [
        # A staircase: no mean of the first two levels is the third, so something moves.
        ([0.3, 0.6], [0.0, 3.0, 4.0], "recovers"),
        ([0.3, 0.6], [0.0, 1.0, 4.0], "second jump only"),
        # The mean of 4 on (0, 0.2) and 1 on (0.2, 0.6) is 2.
        ([0.2, 0.6], [4.0, 1.0, 2.0], "stuck"),
        ([0.25, 0.6], [4.0, 1.0, 2.0], "recovers"),
    ],
)
def test_other_levels(breaks: list[float], values: list[float], fate: str) -> None:
    target = sf.PiecewiseConstant(breaks, values)
    assert fate_of_last_piece(target) == fate == followed(target, [0.65, 0.9])


def test_a_tie_is_one_with_rounding_too() -> None:
    # |s₁| ℓ₁/(ℓ₁ + ℓ₂) = 1/3 = |s₂|, and s₁ and s₂ have one sign: u is not pulled past the second jump.
    target = sf.PiecewiseConstant([0.1, 0.3], [0.0, 1.0, 4.0 / 3.0])
    assert fate_of_last_piece(target) == "second jump only"


def test_random_targets() -> None:
    rng = np.random.default_rng(7)
    found = set()
    for _ in range(8):
        target = sf.PiecewiseConstant(np.sort(rng.uniform(0.05, 0.6, 2)), rng.normal(size=3))
        fate = fate_of_last_piece(target)
        assert fate == followed(target, [0.7, 0.9])
        found.add(fate)
    assert found == {"recovers", "second jump only"}


def test_other_numbers_of_pieces_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="three pieces, got 2"):
        fate_of_last_piece(sf.PiecewiseConstant([0.5], [0.0, 1.0]))
    with pytest.raises(sf.InvalidInputError, match=r"inside \(0, 1\)"):
        fate_of_last_piece(sf.PiecewiseConstant([0.5, 1.5], [0.0, 1.0, 2.0]))
