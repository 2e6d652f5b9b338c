"""The rules of a run: ties, stopping, misjudged losses, progress."""

from __future__ import annotations

import numpy as np
import pytest
from shallowflow.dynamics.anls.iteration import choose, run
from shallowflow.dynamics.anls.reference import best_loss, losses_of_candidates, moved

from shallowflow.arrays import Floats
from shallowflow.landscape.plateau.moves import Candidate

X = np.linspace(-1.0, 1.0, 30)
Y = np.sin(3.0 * X)
KNOTS = np.array([-1.2, -0.3, 0.1, 0.7])


@pytest.mark.parametrize(
    ("losses", "present", "chosen"),
    [
        ([0.9, 0.5, 0.5 * (1 - 1e-11), 0.7], 1.0, 1),  # a tie to 10⁻¹⁰: the first of the two
        ([0.9, 0.5, 0.5 * (1 - 1e-9), 0.7], 1.0, 2),  # no tie
        ([1.0 - 4e-12, 1.0 - 6e-12, 1.0 - 1e-11], 1.0, 1),  # all within 10⁻¹⁰: at least half the best gain
        ([1.0 - 1e-12, 1.0], 1.0, None),  # gains of 10⁻¹² are none
        ([1.0 - 1e-11], 1.0, 0),
        ([2.0, 1.0], 1.0, None),
        ([0.0, 0.0], 0.0, None),
        ([], 1.0, None),
    ],
)
def test_tie_and_stopping_rule(losses: list[float], present: float, chosen: int | None) -> None:
    assert choose(np.array(losses), present) == chosen


def test_a_run_ends_where_no_candidate_is_better() -> None:
    moves = run(losses_of_candidates, KNOTS, X, Y)
    assert moves.status == "converged"
    assert len(moves.neurons) > 3
    knots = KNOTS.copy()
    for i, (neuron, position) in enumerate(zip(moves.neurons, moves.positions, strict=True)):
        found, losses = losses_of_candidates(knots, X, Y)
        assert losses.min() == pytest.approx(moves.losses[i + 1], rel=1e-9)
        assert Candidate(int(neuron), int(moves.directions[i]), float(position)) in found
        knots[neuron] = position
    assert np.all(np.diff(moves.losses) < 0)
    assert moves.losses[-1] == best_loss(knots, X, Y)
    _, losses = losses_of_candidates(knots, X, Y)
    assert losses.min() > moves.losses[-1] * (1 - 1e-12)


def test_max_iterations_and_going_on() -> None:
    whole = run(losses_of_candidates, KNOTS, X, Y)
    first = run(losses_of_candidates, KNOTS, X, Y, max_iterations=2)
    assert first.status == "completed"
    knots = KNOTS.copy()
    knots[first.neurons] = first.positions
    second = run(losses_of_candidates, knots, X, Y)
    assert np.array_equal(np.append(first.neurons, second.neurons), whole.neurons)
    assert np.array_equal(np.append(first.losses, second.losses[1:]), whole.losses)
    nothing = run(losses_of_candidates, KNOTS, X, Y, max_iterations=0)
    assert (len(nothing.neurons), nothing.status) == (0, "completed")


def test_a_method_that_misjudges_losses_is_found_out() -> None:
    """A promise of zero loss makes the run take the last candidate until that no longer helps."""

    def liar(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
        found, losses = losses_of_candidates(knots, x, y)
        losses[-1] = 0.0
        return found, losses

    moves = run(liar, KNOTS, X, Y)
    assert moves.status == "stalled"
    assert "misjudged" in moves.note
    assert np.all(np.diff(moves.losses) < 0)
    knots = KNOTS.copy()
    for neuron, position in zip(moves.neurons, moves.positions, strict=True):
        knots[neuron] = position
    last, _ = losses_of_candidates(knots, X, Y)
    assert best_loss(moved(knots, last[-1]), X, Y) >= moves.losses[-1]


def test_scatter_at_equal_inputs_does_not_end_a_run_early() -> None:
    """Adding ±s to doubled data changes every loss by the same constant, so it must not change the moves."""
    spread = 1e3
    doubled, split = np.repeat(X, 2), np.repeat(Y, 2) + np.tile([spread, -spread], len(X))
    plain = run(losses_of_candidates, KNOTS, X, Y)
    noisy = run(losses_of_candidates, KNOTS, doubled, split, scatter=2 * len(X) * spread**2, max_iterations=3)
    assert np.array_equal(noisy.neurons, plain.neurons[:3])
    assert np.array_equal(noisy.positions, plain.positions[:3])


def test_progress_rises_to_one() -> None:
    seen: list[float] = []
    moves = run(losses_of_candidates, KNOTS, X, Y, progress=seen.append)
    assert seen == sorted(seen)
    assert (len(seen), seen[-1]) == (len(moves.neurons) + 1, 1.0)
    seen.clear()
    run(losses_of_candidates, KNOTS, X, Y, max_iterations=2, progress=seen.append)
    assert seen == [0.5, 0.99, 1.0]
