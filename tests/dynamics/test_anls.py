"""`active_neuron_least_squares`: all methods together, and what the trajectory says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.anls import METHODS, Moves, active_neuron_least_squares
from shallowflow.landscape.plateau.moves import relu_matrix
from tests.dynamics.engines.anls_twin import losses_of_candidates, reference_run

F1 = sf.data.GENERATORS["curve"]("sin_pi", 100)
F2 = sf.data.GENERATORS["curve"]("jump", 1000, sampling="random", seed=0)


def knots_of(network: sf.models.Network) -> Floats:
    assert isinstance(network, sf.KnotNetwork)
    return network.knots


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_methods_make_the_same_moves_on_f1(seed: int) -> None:
    network = sf.initialize.he_knots(10, seed=seed)
    runs = [active_neuron_least_squares(network, F1, method=method) for method in METHODS]
    runs.append(reference_run(network, F1))
    for run in runs:
        assert run.outcome.status == "converged"
        assert run.events == runs[0].events
        np.testing.assert_allclose(run.losses, runs[0].losses, rtol=1e-11)
        np.testing.assert_array_equal(run.path.recorded()[:, :10], runs[0].path.recorded()[:, :10])
        assert isinstance(run.path, Moves)


def test_symmetry_ties_are_broken_alike() -> None:
    """Two idle knots make the left end free, so the problem is odd: every move has a twin of equal loss."""
    x = np.linspace(-1, 1, 40)
    dataset = sf.Dataset(x[:, None], x**3)
    network = sf.KnotNetwork([-3.0, -2.0, -0.2, 0.2], np.zeros(4))
    moves, losses = losses_of_candidates(network.knots, x, dataset.targets)
    by_move = {(move.neuron, move.direction): loss for move, loss in zip(moves, losses, strict=True)}
    assert by_move[2, -1] == pytest.approx(by_move[3, 1], rel=1e-12)
    assert by_move[2, 1] == pytest.approx(by_move[3, -1], rel=1e-12)
    runs = [active_neuron_least_squares(network, dataset, method=method) for method in METHODS]
    runs.append(reference_run(network, dataset))
    assert len(runs[0].events) > 3
    assert all(run.events == runs[0].events for run in runs)


@pytest.mark.slow
def test_the_default_follows_the_reference_on_f2() -> None:
    """Fifty iterations of least squares per candidate: minutes."""
    network = sf.initialize.he_knots(300, seed=0)
    reference = reference_run(network, F2, max_iterations=50.0)
    windowed = active_neuron_least_squares(network, F2, max_iterations=50)
    assert windowed.events == reference.events
    np.testing.assert_allclose(windowed.losses, reference.losses, rtol=1e-9)


def test_every_recorded_network_solves_least_squares_with_minimum_norm() -> None:
    loss = sf.SquareLoss("sum")
    trajectory = active_neuron_least_squares(sf.initialize.he_knots(10, seed=4), F1, loss=loss)
    assert list(trajectory.times) == list(range(len(trajectory.events) + 1))
    for time, value in zip(trajectory.times, trajectory.losses, strict=True):
        network = trajectory(time)
        matrix = relu_matrix(knots_of(network), F1.inputs[:, 0])
        expected = np.linalg.pinv(matrix, rcond=1e-12) @ F1.targets
        assert network.parameters["outer"] == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert loss.value(network(F1.inputs), F1.targets) == pytest.approx(value, rel=1e-10)


def test_events_say_what_moved_in_the_user_s_numbering() -> None:
    """Unsorted knots and data, with repeats: between two records one knot passes the points of one input."""
    rng = np.random.default_rng(8)
    inputs = rng.permutation(np.repeat(rng.uniform(-1, 1, 20), rng.integers(1, 4, 20)))
    dataset = sf.Dataset(inputs[:, None], np.sin(4 * inputs) + 0.1 * rng.standard_normal(len(inputs)))
    network = sf.KnotNetwork(rng.permutation(rng.uniform(-1.3, 1.1, 7)), np.zeros(7))
    trajectory = active_neuron_least_squares(network, dataset)
    assert len(trajectory.events) >= 3
    for event in trajectory.events:
        before, after = knots_of(trajectory(event.time - 1)), knots_of(trajectory(event.time))
        assert list(np.flatnonzero(before != after)) == [event.neuron]
        was, now = inputs > before[event.neuron], inputs > after[event.neuron]
        passed = inputs == inputs[event.point]
        assert np.array_equal(was != now, passed)
        assert bool(now[event.point]) == (event.kind == "on")
        assert event.point == int(np.argmax(passed))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_repeated_inputs_count_as_often_as_they_occur(seed: int) -> None:
    """Merged weighted points (compiled) against least squares over all rows (reference)."""
    rng = np.random.default_rng(seed)
    inputs = rng.choice(rng.uniform(-1, 1, 25), 80)
    dataset = sf.Dataset(inputs[:, None], np.cos(3 * inputs) + 0.2 * rng.standard_normal(80))
    network = sf.initialize.he_knots(12, seed=seed)
    windowed = active_neuron_least_squares(network, dataset)
    reference = reference_run(network, dataset)
    assert windowed.events == reference.events
    np.testing.assert_allclose(windowed.losses, reference.losses, rtol=1e-10)
    assert windowed.statistics["distinct inputs"] == len(np.unique(inputs))


def test_the_loss_asked_for() -> None:
    network = sf.initialize.he_knots(10, seed=0)
    default = active_neuron_least_squares(network, F1)
    total = active_neuron_least_squares(network, F1, loss=sf.SquareLoss("sum"))
    mean = active_neuron_least_squares(network, F1, loss=sf.SquareLoss("mean"))
    np.testing.assert_allclose(mean.losses * 100, total.losses, rtol=1e-14)
    assert np.array_equal(default.losses, mean.losses)
    assert default.losses[-1] == pytest.approx(np.mean((default.final(F1.inputs) - F1.targets) ** 2) / 2)


def test_max_iterations() -> None:
    network = sf.initialize.he_knots(10, seed=0)
    whole = active_neuron_least_squares(network, F1)
    for method in METHODS:
        part = active_neuron_least_squares(network, F1, method=method, max_iterations=7)
        assert part.outcome.status == "completed"
        np.testing.assert_allclose(part.losses, whole.losses[:8], rtol=1e-11)
        none = active_neuron_least_squares(network, F1, method=method, max_iterations=0)
        assert list(none.times) == [0.0]
        assert none.losses[0] == pytest.approx(whole.losses[0], rel=1e-12)
    more = active_neuron_least_squares(network, F1, max_iterations=10_000)
    assert more.outcome.status == "converged"
    assert more.final == whole.final


def test_records() -> None:
    network = sf.initialize.he_knots(10, seed=0)
    whole = active_neuron_least_squares(network, F1)
    last = len(whole.events)
    every = active_neuron_least_squares(network, F1, record=sf.Record.every(10, max_events=5))
    assert list(every.times) == [*range(0, last, 10), last]
    assert np.array_equal(every.losses, whole.losses[every.times.astype(int)])
    assert every.events == whole.events[:5]
    assert all(every(t) == whole(t) for t in range(last + 1))
    at = active_neuron_least_squares(network, F1, record=sf.Record.at([3, 12, 1e6]))
    assert list(at.times) == [0, 3, 12, last]
    losses = active_neuron_least_squares(network, F1, record=sf.Record.every(1, networks=False))
    assert np.array_equal(losses.losses, whole.losses)
    assert losses.final == whole.final
    with pytest.raises(sf.InvalidInputError, match="none at 5"):
        losses(5.0)


def test_a_long_run_can_be_read_after_every_move() -> None:
    """All losses are kept, and all moves: 24 bytes each, not a network."""
    x = np.linspace(-1, 1, 4000)
    dataset = sf.Dataset(x[:, None], np.sin(5 * np.pi * x))
    trajectory = active_neuron_least_squares(sf.initialize.he_knots(30, seed=0), dataset)
    moves = trajectory.statistics["iterations"]
    assert isinstance(moves, int)
    assert moves > 1000
    path = trajectory.path
    assert isinstance(path, Moves)
    assert len(trajectory.losses) == len(path.times) == moves + 1
    assert path.times.nbytes + path.neurons.nbytes + path.positions.nbytes <= 24 * (moves + 1)
    for number in (0, 1, moves // 2, moves // 2 + 1, moves):
        loss = sf.SquareLoss().value(trajectory(number)(x), dataset.targets)
        assert loss == pytest.approx(trajectory.losses[number], rel=1e-8)
    assert knots_of(trajectory(moves - 0.5)).tolist() == knots_of(trajectory(moves - 1)).tolist()


def test_moves_that_do_not_fit_end_the_run() -> None:
    """A move takes 16 bytes: the seventh goes beyond 100. The compiled engine makes more of them at once."""
    network = sf.initialize.he_knots(10, seed=0)
    small = sf.Record.every(1, max_bytes=100)
    trajectory = active_neuron_least_squares(network, F1, method="orthogonal_stable", record=small)
    assert trajectory.outcome.status == "memory"
    assert list(trajectory.times) == list(range(8))
    whole = active_neuron_least_squares(network, F1, record=small)
    assert whole.outcome.status == "converged"
    assert trajectory.final == whole(7)


def test_progress_ends_at_one_and_changes_nothing() -> None:
    network = sf.initialize.he_knots(300, seed=1)
    plain = active_neuron_least_squares(network, F2)
    for limit in (None, 600):
        seen: list[float] = []
        watched = active_neuron_least_squares(network, F2, max_iterations=limit, progress=seen.append)
        assert len(seen) > 2
        assert seen == sorted(seen)
        assert seen[-1] == 1.0
        assert watched.final == plain.final
        assert np.array_equal(watched.losses, plain.losses)


def test_on_f2_the_printed_theorem_stops_early_and_the_outcome_says_why() -> None:
    """After 200 exact moves its favourite soon does not lower the loss at all, although others would.

    How many of its moves come true before that is a matter of rounding, which the BLAS decides.
    """
    start = active_neuron_least_squares(sf.initialize.he_knots(300, seed=0), F2, max_iterations=200).final
    assert isinstance(start, sf.KnotNetwork)
    printed = active_neuron_least_squares(start, F2, method="orthogonal", max_iterations=40)
    exact = active_neuron_least_squares(start, F2)
    assert printed.outcome.status == "stalled"
    assert "misjudged" in printed.outcome.message
    assert "windowed" in printed.outcome.advice
    assert printed.losses[-1] > 2 * exact.losses[-1]


def test_nothing_to_do() -> None:
    dead = sf.KnotNetwork([2.0, 3.0], [1.0, 1.0])
    for method in METHODS:
        trajectory = active_neuron_least_squares(dead, F1, method=method)
        assert trajectory.outcome.status == "stalled"
        assert trajectory.outcome.advice
        assert list(trajectory.losses) == pytest.approx([0.5 * float(np.mean(F1.targets**2))], rel=1e-14)
        assert list(trajectory.final.parameters["outer"]) == [0.0, 0.0]


def test_saved_and_loaded(tmp_path: Path) -> None:
    trajectory = active_neuron_least_squares(sf.initialize.he_knots(10, seed=0), F1)
    trajectory.save(tmp_path / "anls.sf")
    loaded = sf.Trajectory.load(tmp_path / "anls.sf")
    assert all(loaded(t) == trajectory(t) for t in trajectory.times)


def test_bad_arguments_are_named() -> None:
    network = sf.initialize.he_knots(3)
    with pytest.raises(sf.InvalidInputError, match="network: must be a KnotNetwork"):
        active_neuron_least_squares(sf.initialize.balanced(3, 1), F1)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="method: must be one of windowed, orthogonal"):
        active_neuron_least_squares(network, F1, method="magic")
    for gone in ("chain", "reference"):
        with pytest.raises(sf.InvalidInputError, match=f"method: '{gone}' is gone; 'windowed' makes"):
            active_neuron_least_squares(network, F1, method=gone)
    with pytest.raises(sf.InvalidInputError, match="max_iterations: must be >= 0"):
        active_neuron_least_squares(network, F1, max_iterations=-1)
    with pytest.raises(sf.InvalidInputError, match="loss: must be a SquareLoss"):
        active_neuron_least_squares(network, F1, loss=sf.LogisticLoss())  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="dimension 1, got 2"):
        active_neuron_least_squares(network, sf.data.GENERATORS["three_points"]())
