"""The rules of a run of Active Neuron Least Squares: ties, stopping, misjudged losses, progress; its path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.anls import LossesOfCandidates, Moves, WindowedANLS, choose
from shallowflow.dynamics.clock.problem import Task
from shallowflow.kernels.fitting.anls import CONVERGED
from shallowflow.landscape.plateau.moves import MARGIN, Candidate, best_loss, moved
from shallowflow.models import KnotNetwork
from tests.dynamics.engines.anls_twin import losses_of_candidates, reference_run
from tests.kernels.fitting.anls_reference import candidates, move_by_move

X = np.linspace(-1.0, 1.0, 30)
Y = np.sin(3.0 * X)
KNOTS = np.array([-1.2, -0.3, 0.1, 0.7])
SUM = sf.SquareLoss("sum")


def followed(
    method: LossesOfCandidates = losses_of_candidates,
    knots: Floats = KNOTS,
    x: Floats = X,
    y: Floats = Y,
    **options: Any,
) -> tuple[sf.Trajectory[sf.KnotNetwork], Moves]:
    """Return a run and its moves; losses are ½ sums of squares."""
    network = sf.KnotNetwork(knots, np.zeros(len(knots)))
    trajectory = reference_run(network, sf.Dataset(x[:, None], y), method=method, loss=SUM, **options)
    assert isinstance(trajectory.path, Moves)
    return trajectory, trajectory.path


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
    trajectory, moves = followed()
    sums = 2.0 * trajectory.losses
    assert trajectory.outcome.status == "converged"
    assert len(moves.neurons) > 3
    knots = KNOTS.copy()
    for i, (neuron, position) in enumerate(zip(moves.neurons, moves.positions, strict=True)):
        found, losses = losses_of_candidates(knots, X, Y)
        assert losses.min() == pytest.approx(sums[i + 1], rel=1e-9)
        direction = -1 if position < knots[neuron] else 1
        assert Candidate(int(neuron), direction, float(position)) in found
        knots[neuron] = position
        np.testing.assert_array_equal(trajectory(i + 1).knots, knots)
    assert np.all(np.diff(sums) < 0)
    assert sums[-1] == best_loss(knots, X, Y)
    _, losses = losses_of_candidates(knots, X, Y)
    assert losses.min() > sums[-1] * (1 - 1e-12)


def test_max_iterations_and_going_on() -> None:
    whole, every = followed()
    first, begun = followed(max_iterations=2.0)
    assert first.outcome.status == "completed"
    second, rest = followed(knots=first.final.knots)
    assert np.array_equal(np.append(begun.neurons, rest.neurons), every.neurons)
    assert np.array_equal(np.append(first.losses, second.losses[1:]), whole.losses)
    nothing = reference_run(sf.KnotNetwork(KNOTS, np.zeros(4)), sf.Dataset(X[:, None], Y), max_iterations=0.0)
    assert (nothing.statistics["iterations"], nothing.outcome.status) == (0, "completed")


def test_a_method_that_misjudges_losses_is_found_out() -> None:
    """A promise of zero loss makes the run take the last candidate until that no longer helps."""

    def liar(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
        found, losses = losses_of_candidates(knots, x, y)
        losses[-1] = 0.0
        return found, losses

    network, dataset = sf.KnotNetwork(KNOTS, np.zeros(4)), sf.Dataset(X[:, None], Y)
    trajectory = reference_run(network, dataset, method=liar, loss=SUM)
    assert trajectory.outcome.status == "stalled"
    assert "misjudged" in trajectory.outcome.message
    assert "a predicted relative gain of 1 was not realised" in trajectory.outcome.message
    assert np.all(np.diff(trajectory.losses) < 0)
    knots = trajectory.final.knots
    last, _ = losses_of_candidates(knots, X, Y)
    assert best_loss(moved(knots, last[-1]), X, Y) >= 2.0 * trajectory.losses[-1]


def test_scatter_at_equal_inputs_does_not_end_a_run_early() -> None:
    """Adding ±s to doubled data changes every loss by the same constant, so it must not change the moves."""
    spread = 1e3
    doubled, split = np.repeat(X, 2), np.repeat(Y, 2) + np.tile([spread, -spread], len(X))
    _, plain = followed()
    _, noisy = followed(x=doubled, y=split, max_iterations=3.0)
    assert np.array_equal(noisy.neurons, plain.neurons[:3])
    assert np.array_equal(noisy.positions, plain.positions[:3])


def test_progress_rises_to_one() -> None:
    """Without an end in sight it says how far gains have fallen: in the end, to 99 %."""
    seen: list[float] = []
    _, moves = followed(progress=seen.append)
    assert seen == sorted(seen)
    assert (len(seen), seen[-1]) == (len(moves.neurons) + 2, 1.0)
    assert 0 < seen[0] < seen[-2] <= 0.99


def compiled_losses(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
    """Return the candidates and their losses by chain elimination; knots sorted, x strictly increasing."""
    neurons, sides, places, losses = candidates(knots, x, y, np.ones(len(x)), 0, MARGIN)
    rows = zip(neurons.tolist(), sides.tolist(), places.tolist(), strict=True)
    return [Candidate(*row) for row in rows], losses


def test_compiled_candidate_losses_are_those_of_least_squares() -> None:
    knots = np.sort(sf.initialize.he_knots(10, seed=5).knots)
    curve = sf.data.GENERATORS["curve"]("sin_pi", 100)
    x, y = curve.inputs[:, 0].copy(), curve.targets.copy()
    moves, losses = compiled_losses(knots, x, y)
    expected_moves, expected = losses_of_candidates(knots, x, y)
    assert moves == expected_moves
    np.testing.assert_allclose(losses, expected, rtol=1e-12)


def test_windowed_and_full_chain_are_the_same_on_f2() -> None:
    """Moves, losses and landing places, to the last bit."""
    dataset = sf.data.GENERATORS["curve"]("jump", 1000, sampling="random", seed=0)
    network = sf.initialize.he_knots(300, seed=0)
    windowed = sf.active_neuron_least_squares(network, dataset, loss=SUM)
    assert windowed.outcome.status == "converged"
    assert len(windowed.events) > 400
    path = windowed.path
    assert isinstance(path, Moves)
    knots, order = np.sort(network.knots), np.argsort(dataset.inputs[:, 0])
    x, y = dataset.inputs[order, 0], dataset.targets[order]
    full = move_by_move((knots, x, y, np.ones(len(x))), 0)
    assert (full.made, full.status) == (len(windowed.events), CONVERGED)
    np.testing.assert_array_equal(full.neurons, path.neurons)
    np.testing.assert_array_equal(full.places, path.positions)
    np.testing.assert_array_equal(0.5 * np.append(full.initial, full.losses), windowed.losses)
    np.testing.assert_array_equal(full.knots, np.sort(windowed.final.parameters["knots"]))


@pytest.mark.parametrize("limits", [(1, 1, 1), (2, 3, 10**6), (10**6,)])
def test_a_run_may_be_cut_anywhere(limits: tuple[int, ...]) -> None:
    """Pieces that follow each other have the losses, moves and events of the whole."""
    dataset = sf.Dataset(X[:, None], Y)
    network = sf.KnotNetwork(KNOTS[::-1], np.zeros(4))
    whole = sf.active_neuron_least_squares(network, dataset)
    engine, made, events = WindowedANLS(Task(network, dataset, sf.SquareLoss())), 0, list[sf.Event]()
    losses = [engine.loss()]
    for limit in limits:
        piece = engine.advance(float(made + limit), rows=True)
        made += len(piece.times) - 1
        assert piece.losses is not None
        losses += piece.losses[1:].tolist()
        events += piece.events(10**6)
        assert engine.network() == whole(made)
        assert engine.loss() == losses[-1]
        assert len(piece.events(1)) == min(1, len(piece.times) - 1)
    assert losses == whole.losses[: made + 1].tolist()
    assert tuple(events) == whole.events[:made]
    assert (piece.stop is None) == (made < len(whole.events))


def test_a_path_is_constant_between_moves_and_exact_at_every_move() -> None:
    trajectory, moves = followed()
    last = len(moves.neurons)
    for number in range(last + 1):
        network = trajectory(number)
        assert SUM.value(network(X), Y) == pytest.approx(trajectory.losses[number], rel=1e-10)
        assert trajectory(min(number + 0.9, last)) == network
    with pytest.raises(sf.InvalidInputError, match="t: must lie in"):
        trajectory(last + 1)


def line(scale: float = 1.0, shift: float = 0.0) -> Dataset:
    x = np.linspace(-1.0, 1.0, 40)
    return Dataset(shift + scale * x[:, None], np.sin(3.0 * x))


@pytest.mark.parametrize("method", ["windowed", "orthogonal_stable"])
def test_dead_knots_are_no_convergence(method: str) -> None:
    run = sf.active_neuron_least_squares(KnotNetwork([2.0, 3.0], [1.0, 1.0]), line(), method=method)
    assert run.outcome.status == "stalled"
    assert "dead" in run.outcome.message
    assert "ANLSRegressor" in run.outcome.advice


def test_knots_that_stay_left_of_all_data_are_no_convergence() -> None:
    start = KnotNetwork([-3.0, -2.5, -2.0], [1.0, 1.0, 1.0])
    run = sf.active_neuron_least_squares(start, Dataset([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]))
    assert run.outcome.status == "stalled"
    assert "left of the data" in run.outcome.message
    among = sf.active_neuron_least_squares(start, Dataset([[0.0], [1.0], [2.0]], [0.0, 0.0, 2.0]))
    assert among.outcome.status == "converged"


def test_the_units_of_the_inputs_make_no_difference() -> None:
    """With inputs of size 10⁻⁹ a margin of 10⁻⁸ would be ten ranges away."""
    start = np.array([-1.3, -0.7, -0.2, 0.4])
    plain = sf.active_neuron_least_squares(KnotNetwork(start, np.ones(4)), line())
    for scale in (2.0**-30, 2.0**20):
        small = sf.active_neuron_least_squares(KnotNetwork(scale * start, np.ones(4)), line(scale))
        np.testing.assert_allclose(small.losses, plain.losses, rtol=1e-9)
