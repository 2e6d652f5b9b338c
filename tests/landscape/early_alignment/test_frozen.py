"""The exit clock and the destinations of small networks: against the flow and against all extremal
vectors."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.landscape import destinations, exit_time, extremal_vectors, next_exit
from shallowflow.landscape.early_alignment.frozen import FrozenFlow

G = sf.data.GENERATORS
THREE = G["three_points"]()


@pytest.mark.parametrize(("scale", "clock", "flow"), [(1e-2, 3.32278, 3.32765), (1e-5, 12.98443, 12.98937)])
def test_the_clock_on_three_points(scale: float, clock: float, flow: float) -> None:
    found = exit_time(sf.initialize.balanced(200, 2, init_scale=scale, seed=0), THREE)
    assert found.time == pytest.approx(clock, abs=5e-6)
    assert found.time == pytest.approx(flow, rel=2e-3)
    assert found.reached


def test_one_neuron_has_a_closed_form() -> None:
    data = sf.Dataset([[1.0]], [1.0])
    found = exit_time(sf.ReLUNetwork([[1e-6]], [1e-6]), data)
    assert found.time == pytest.approx(0.5 * np.log((1 - np.sqrt(0.99)) / 1e-12), rel=1e-9)
    # An output factor s makes it s times as fast, with outputs s times as large.
    scaled = exit_time(sf.ReLUNetwork([[1e-6]], [1e-6], scale=0.25), data)
    assert scaled.time == pytest.approx(0.5 * np.log((1 - np.sqrt(0.99)) / 0.25e-12) / 0.25, rel=1e-9)


def test_a_scale_of_ten_to_the_minus_thousand() -> None:
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0])
    tiny = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-2302.6])
    found = exit_time(tiny, data, fall=0.01)
    # Forces y/2: D = (1.5, 2), ‖D‖ = 2.5; half the outputs at (2302.6 + ½ ln 5)·2/5 = 921.36.
    run = sf.gradient_flow(tiny, data, until=1000.0)
    after = float(run.times[np.argmax(run.losses <= 0.99 * run.losses[0])])
    assert found.time == pytest.approx(after, rel=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_the_time_of_one_per_cent_is_that_of_descent(seed: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    data = sf.Dataset(rng.standard_normal((15, 3)), rng.standard_normal(15))
    start = sf.initialize.balanced(20, 3, init_scale=1e-4, slope=slope, seed=seed)
    found = exit_time(start, data)
    run = sf.gradient_descent(
        start, data, step=2e-3, steps=int(1.1 * found.time / 2e-3), record=sf.Record.every(1, networks=False)
    )
    first = int(np.argmax(run.losses <= 0.99 * run.losses[0]))
    assert found.time == pytest.approx(float(run.times[first]), rel=0.02)


def test_the_logistic_loss_has_a_clock() -> None:
    rng = np.random.default_rng(3)
    data = sf.Dataset(rng.standard_normal((15, 3)), rng.choice([-1.0, 1.0], 15))
    start = sf.initialize.balanced(20, 3, init_scale=1e-4, seed=3)
    found = exit_time(start, data, loss=sf.LogisticLoss())
    every = sf.Record.every(1, networks=False)
    steps = int(1.1 * found.time / 5e-3)
    run = sf.gradient_descent(start, data, step=5e-3, steps=steps, loss=sf.LogisticLoss(), record=every)
    first = int(np.argmax(run.losses <= 0.99 * run.losses[0]))
    assert found.time == pytest.approx(float(run.times[first]), rel=0.02)


def test_dead_networks_never_leave() -> None:
    data = sf.Dataset([[1.0, 1.0]], [1.0])
    found = exit_time(sf.ReLUNetwork([[-1e-3, 0.0]], [1e-3]), data)
    assert not found.reached
    assert found.rate == 0.0


@pytest.mark.parametrize("seed", [0, 1])
def test_destinations_are_extremal_vectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = sf.Dataset(rng.standard_normal((7, 3)), rng.standard_normal(7))
    start = sf.initialize.balanced(60, 3, init_scale=1e-6, seed=seed)
    found = destinations(start, data)
    every = {one.pattern.tobytes(): one for one in extremal_vectors(data)}
    assert len(found.vectors) >= 2
    for vector in found.vectors:
        known = every[vector.pattern.tobytes()]
        np.testing.assert_allclose(vector.vector, known.vector, rtol=1e-9, atol=1e-12)
        assert vector.kind == known.kind
    # Those that arrive are there when the clock says so.
    moved = FrozenFlow(start, data, data.targets / data.size)
    arrived = np.isfinite(found.arrivals) & (found.of >= 0)
    moved.advance(float(found.arrivals[arrived].max()) + 1e-9)
    cosines = [
        moved.directions[j] @ found.vectors[found.of[j]].direction / np.linalg.norm(moved.directions[j])
        for j in np.flatnonzero(arrived)
    ]
    assert np.min(cosines) > 0.99 - 1e-9
    assert np.all(found.of[found.dead] == -1)
    assert found.visits.sum() + np.sum(found.of < 0) == 60


def test_destinations_of_hundreds_of_points_in_many_dimensions() -> None:
    rng = np.random.default_rng(0)
    data = sf.Dataset(rng.standard_normal((300, 20)), rng.standard_normal(300))
    found = destinations(sf.initialize.balanced(12, 20, init_scale=1e-6, seed=0), data)
    assert np.all((found.of >= 0) | found.dead)
    assert np.all(np.isfinite(found.arrivals[found.of >= 0]))


def test_a_later_plateau_ends_when_the_flow_says() -> None:
    data = G["stewart"]()
    start = sf.initialize.balanced(60, 2, init_scale=1e-2, seed=0)
    run = sf.gradient_flow(start, data, until=300.0, engine="cones")
    network, resting = run(80.0), run.resting(80.0)
    assert isinstance(network, sf.ReLUNetwork)
    level = sf.SquareLoss().value(network(data.inputs), data.targets)
    later = np.linspace(270.0, 295.0, 501)
    losses = [sf.SquareLoss().value(run(t)(data.inputs), data.targets) for t in later]
    true = float(later[np.argmax(np.array(losses) <= 0.95 * level)])
    found = next_exit(network, data, fall=0.05, resting=resting)
    assert not found.frozen
    assert 80.0 + found.time == pytest.approx(true, abs=2.0)


def test_a_point_without_a_force_holds_no_neuron() -> None:
    # The wall of x₂ = (1, 1), which the network fits already, is met on the way to x₁ from the inactive side.
    data = sf.Dataset([[0.0, 1.0], [1.0, 1.0]], [1.0, 0.0])
    network = sf.ReLUNetwork([[-1.0, 0.2]], [1.2])
    forces = np.array([0.4, 0.0])
    flow = FrozenFlow(network, data, forces)
    flow.advance(5.0)
    # Nothing but x₁ pulls: w₁ stays, (w₂, a) grow by cosh and sinh of 0.4·5.
    moved = flow.moved()
    assert isinstance(moved, sf.ReLUNetwork)
    cosh, sinh = np.cosh(2.0), np.sinh(2.0)
    np.testing.assert_allclose(moved.inner[0], [-1.0, 0.2 * cosh + 1.2 * sinh], rtol=1e-12)
    np.testing.assert_allclose(moved.outer, [1.2 * cosh + 0.2 * sinh], rtol=1e-12)


def test_a_neuron_that_fades_for_ever_never_leaves() -> None:
    # a < 0 and a positive force: the neuron shrinks along its own direction, for ever.
    found = exit_time(sf.ReLUNetwork([[1e-3]], [-1e-3]), sf.Dataset([[1.0]], [1.0]))
    assert not found.reached
    assert found.walls == 0
