"""The flow by cones against SciPy, the flow by walls, descent with small steps, and its own invariants."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.cone_flow import ConeFlow
from shallowflow.models import Loss

seeds = st.integers(0, 100_000)
ordinary = settings(deadline=None, derandomize=True, max_examples=15)
SLIDING = sf.Dataset([[1.0, 0.0], [-1.0, 1.0]], [-5.0, -1.0])
"""A neuron with a > 0 at w = (0, v), v > 0 is pushed towards w₁ = 0 from both sides, and shrinks."""


def random_problem(seed: int, slope: float, *, labels: bool = False) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    rng = np.random.default_rng(seed)
    size, width = rng.integers(1, 7), rng.integers(1, 9)
    targets = rng.standard_normal(size)
    if labels:
        targets = np.where(targets > 0, 1.0, -1.0)
    inner = 0.5 * rng.standard_normal((width, 2))
    outer = 0.5 * rng.standard_normal(width)
    if rng.random() < 0.5:
        outer = np.sign(outer) * np.linalg.norm(inner, axis=1)
    dataset = sf.Dataset(rng.standard_normal((size, 2)), targets)
    return sf.ReLUNetwork(inner, outer, slope=slope, scale=rng.choice([1.0, 0.5])), dataset


def wide(
    network: sf.ReLUNetwork, dataset: sf.Dataset, until: float, tolerance: float = 1e-9, **options: Any
) -> sf.Trajectory:
    trajectory = sf.gradient_flow(
        network, dataset, until=until, tolerance=tolerance, engine="cones", **options
    )
    assert trajectory.statistics["engine"] == "cones"
    return trajectory


def relu(network: object) -> sf.ReLUNetwork:
    assert isinstance(network, sf.ReLUNetwork)
    return network


def distance(one: object, other: object) -> float:
    one, other = relu(one), relu(other)
    return float(max(np.abs(one.inner - other.inner).max(), np.abs(one.outer - other.outer).max()))


@pytest.mark.parametrize("loss", [sf.SquareLoss("sum"), sf.SquareLoss(), sf.LogisticLoss()])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_agrees_with_scipy_on_a_smooth_stretch(loss: Loss, slope: float) -> None:
    """Gates frozen at their first values; the engine must not report an event on the way."""
    rng = np.random.default_rng(4)
    inputs, targets = rng.uniform(0.5, 1.5, (4, 2)), np.array([1.0, -1.0, 1.0, 1.0])
    inner = np.concatenate([rng.uniform(0.5, 1.0, (4, 2)), -rng.uniform(0.5, 1.0, (2, 2))])
    network = sf.ReLUNetwork(inner, rng.standard_normal(6), slope=slope, scale=0.5)
    gates = np.where(network.preactivations(inputs) > 0, 1.0, slope)

    def velocity(_: float, theta: Floats) -> Floats:
        weights, outer = theta[:12].reshape(6, 2), theta[12:]
        z = gates * (weights @ inputs.T)
        push = -2.0 * 0.5 * gates * loss.slopes(0.5 * outer @ z, targets)
        return np.concatenate(
            [
                0.1 * (outer[:, None] * (push @ inputs)).ravel(),
                np.einsum("jk,jk->j", push, weights @ inputs.T),
            ]
        )

    theta = np.concatenate([network.inner.ravel(), network.outer])
    solution = solve_ivp(
        velocity, (0, 0.5), theta, method="DOP853", rtol=1e-12, atol=1e-13, dense_output=True
    ).sol
    trajectory = wide(network, sf.Dataset(inputs, targets), 0.5, 1e-10, loss=loss, speed=2.0, epsilon=0.1)
    assert trajectory.events == ()
    assert trajectory.statistics["accuracy"] == "tolerance"
    for time in np.linspace(0.01, 0.5, 9):
        now = relu(trajectory(time))
        np.testing.assert_allclose(
            np.concatenate([now.inner.ravel(), now.outer]), solution(time), rtol=0, atol=1e-8
        )


@ordinary
@given(seeds, st.sampled_from([0.0, 0.3]), st.booleans())
def test_agrees_with_the_flow_by_walls(seed: int, slope: float, logistic: bool) -> None:
    """At every time, through crossings and sliding, with the same events.

    Unless a neuron leaves the origin, where it might as well rest: the flow has both solutions.
    Two neurons may meet their points at one time but for rounding: events are compared by neuron. A neuron
    that comes to the origin is left out: there the flow by walls lists gates that turn over, the cones a
    rest. Both hold a neuron until the pull exceeds their errors, so releases agree less closely than
    crossings.
    """
    network, dataset = random_problem(seed, slope, labels=logistic)
    loss = sf.LogisticLoss() if logistic else sf.SquareLoss()
    walls = sf.gradient_flow(network, dataset, until=3.0, tolerance=1e-10, loss=loss, engine="walls")
    trajectory = wide(network, dataset, 3.0, loss=loss)
    assert trajectory.outcome.ok, trajectory.outcome
    if not walls.outcome.ok or {"two-valued"} & {event.kind for event in (*walls.events, *trajectory.events)}:
        return
    if ("release", -1) in {(event.kind, event.point) for event in trajectory.events}:
        return
    assert distance(trajectory.final, walls.final) < 1e-7
    # The flow by walls's path is less accurate between its steps than at their ends.
    shorter = sf.gradient_flow(network, dataset, until=1.7, tolerance=1e-10, loss=loss, engine="walls")
    assert distance(trajectory(1.7), shorter.final) < 1e-7
    moments = Counter((event.time, event.neuron) for event in walls.events)
    zero = {event.neuron for event in trajectory.events if event.point == -1}
    zero |= {neuron for (_, neuron), count in moments.items() if count > 1}
    ours, theirs = (
        sorted((e.neuron, e.point, e.kind, e.time) for e in run.events if e.neuron not in zero)
        for run in (trajectory, walls)
    )
    assert [event[:3] for event in ours] == [event[:3] for event in theirs]
    for (_, _, kind, time), (*_, other) in zip(ours, theirs, strict=True):
        assert time == pytest.approx(other, abs=1e-4 if kind == "release" else 1e-6)


@ordinary
@given(seeds, st.sampled_from([0.0, 0.3]))
def test_balance_is_conserved_and_the_loss_never_rises(seed: int, slope: float) -> None:
    """Lemma 1 of [early_alignment], neuron by neuron, at all times."""
    network, dataset = random_problem(seed, slope)
    trajectory = wide(network, dataset, 5.0)
    assert np.all(np.diff(trajectory.losses) <= 1e-10)
    start = network.outer**2 - (network.inner**2).sum(axis=1)
    for time in (0.7, 2.2, 5.0):
        now = relu(trajectory(time))
        np.testing.assert_allclose(now.outer**2 - (now.inner**2).sum(axis=1), start, atol=1e-8)


@ordinary
@given(seeds)
def test_rotations_and_permutations_commute_with_the_flow(seed: int) -> None:
    network, dataset = random_problem(seed, 0.0)
    rng = np.random.default_rng(seed + 1)
    rotation, _ = np.linalg.qr(rng.standard_normal((2, 2)))
    points, neurons = rng.permutation(dataset.size), rng.permutation(network.width)
    turned = sf.ReLUNetwork(network.inner[neurons] @ rotation, network.outer[neurons], scale=network.scale)
    moved = sf.Dataset(dataset.inputs[points] @ rotation, dataset.targets[points])
    one, two = wide(network, dataset, 2.0), wide(turned, moved, 2.0)
    if "two-valued" in {event.kind for event in one.events}:
        return
    np.testing.assert_allclose(one.final(dataset.inputs[points]), two.final(moved.inputs), atol=1e-7)


def test_no_crossing_is_missed() -> None:
    """After every step, the pattern of every neuron of a cone is that of its cone."""
    dataset = sf.data.GENERATORS["stewart"]()
    network = sf.initialize.gaussian(300, 2, init_scale=1e-2, seed=5)
    engine = ConeFlow(Task(network, dataset, sf.SquareLoss()))
    time, looked_at = 0.0, 0
    while time < 60.0:
        piece = engine.advance(60.0, rows=True)
        assert piece.stop is None
        path = engine.path(piece.times, piece.rows)
        now, groups = engine.network(), engine._groups()
        inside = groups < len(path.seen)
        z = now.inner[inside] @ path.points.T
        size = np.linalg.norm(now.inner[inside], axis=1)[:, None]
        wrong = (z > 1e-12 * size) != (path.seen[groups[inside]] > 0)
        assert not np.any(wrong & (np.abs(z) > 1e-9 * size))
        time, looked_at = float(piece.times[-1]), looked_at + len(path.movers)
    assert looked_at > 500


def test_descent_converges_to_the_flow_where_it_slides() -> None:
    """Richardson extrapolation of exact descent; with many neurons the phases of their chatter average."""
    dataset = sf.data.GENERATORS["stewart"]()
    network = sf.initialize.balanced(400, 2, init_scale=0.1, seed=3)
    flow = wide(network, dataset, 20.0)
    assert flow.statistics["most sliding neurons"] == 71
    exact = flow.final(dataset.inputs)
    runs = [
        sf.gradient_descent(network, dataset, step=20.0 / steps, steps=steps, engine="cones").final
        for steps in (20_000, 40_000)
    ]
    coarse, fine = (run(dataset.inputs) for run in runs)
    assert np.abs(fine - exact).max() < 0.6 * np.abs(coarse - exact).max()
    assert np.abs(2 * fine - coarse - exact).max() < 0.1 * np.abs(fine - exact).max()


def test_a_sliding_neuron_comes_to_rest_at_zero() -> None:
    """|a| > |w|: ω = a tanh-like falls to 0 at a finite time; there nothing is downhill, and a is frozen."""
    network = sf.ReLUNetwork([[0.0, 0.3]], [0.5])
    trajectory = wide(network, SLIDING, 20.0)
    kinds = [(event.kind, event.point) for event in trajectory.events]
    assert kinds == [("slide", 0), ("slide", -1)]
    final = relu(trajectory.final)
    np.testing.assert_array_equal(final.inner, [[0.0, 0.0]])
    assert final.outer[0] == pytest.approx(0.4, abs=1e-12)
    stop = trajectory.events[1].time
    reference = solve_ivp(
        lambda _, y: [y[1] * (-1 - y[0] * y[1]) / 2, y[0] * (-1 - y[0] * y[1]) / 2],
        (0.0, stop),
        [0.3, 0.5],
        method="DOP853",
        rtol=1e-12,
        atol=1e-14,
    )
    np.testing.assert_allclose(reference.y[:, -1], [0.0, 0.4], atol=1e-8)


def test_a_sliding_neuron_whose_outer_weight_vanishes_is_an_event() -> None:
    """|w| > |a|: at a = 0 the wall becomes repelling; both sides are solutions, and both are drawn."""
    network = sf.ReLUNetwork([[0.0, 0.05]] * 40, [0.03] * 40)
    trajectory = wide(network, SLIDING, 3.0)
    drawn = [event for event in trajectory.events if event.kind == "two-valued"]
    assert sorted(event.neuron for event in drawn) == list(range(40))
    assert {event.point for event in drawn} == {0}
    assert np.ptp([event.time for event in drawn]) < 1e-9
    assert "two ways" in str(trajectory.statistics["accuracy"])
    at_event = relu(trajectory(drawn[0].time + 1e-12))
    np.testing.assert_allclose(at_event.outer, 0.0, atol=1e-9)
    sides = np.sign(relu(trajectory(drawn[0].time + 0.1)).inner[:, 0])
    assert set(sides) == {-1.0, 1.0}
    again = wide(network, SLIDING, 3.0)
    assert again.final == trajectory.final


def test_a_neuron_at_zero_leaves_when_a_direction_becomes_downhill() -> None:
    """Neuron 0 rests at w = 0 until neuron 1, for the sake of point 1, has left point 0 below its target.

    No direction is free of data points, so the rest is stable: descent from 10⁻⁹ off zero stays there too.
    """
    dataset = sf.Dataset([[1.0, 0.0], [0.8, 0.6], [-1.0, -0.5]], [0.5, -4.0, -1.0])
    network = sf.ReLUNetwork([[0.0, 0.0], [1.0, 0.6]], [0.3, 1.0])
    trajectory = wide(network, dataset, 4.0)
    left = [event for event in trajectory.events if event.neuron == 0]
    assert [(event.kind, event.point) for event in left[:1]] == [("release", -1)]
    assert 0.05 < left[0].time < 4.0
    before = relu(trajectory(0.9 * left[0].time))
    np.testing.assert_array_equal(before.inner[0], [0.0, 0.0])
    near = network.moved({"inner": np.array([[1e-9, -1e-9], [1.0, 0.6]])})
    coarse, fine = (
        np.abs(
            sf.gradient_descent(near, dataset, step=4.0 / steps, steps=steps).final(dataset.inputs)
            - trajectory.final(dataset.inputs)
        ).max()
        for steps in (4_000, 16_000)
    )
    assert coarse < 5e-3
    assert fine < 0.4 * coarse


def test_awkward_starts() -> None:
    """Inputs at the origin, opposite and repeated; neurons on walls, at zero, and with a = 0."""
    inputs = [[1.0, 0.0], [-2.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    dataset = sf.Dataset(inputs, [1.0, -1.0, 0.5, 2.0, -0.5])
    inner = [[0.0, 0.4], [0.0, -0.4], [0.0, 0.0], [0.3, -0.3], [0.5, 0.1], [0.0, 0.0]]
    network = sf.ReLUNetwork(inner, [0.5, -0.2, 0.3, 0.4, 0.0, 0.0])
    trajectory = wide(network, dataset, 10.0)
    assert trajectory.outcome.ok
    assert np.all(np.diff(trajectory.losses) <= 1e-10)
    nothing = wide(network, sf.Dataset([[0.0, 0.0]], [1.0]), 2.0)
    assert nothing.final == network
    assert nothing.losses[-1] == 0.5
    dead = wide(sf.ReLUNetwork([[-1.0, -1.0]], [1.0]), sf.Dataset([[1.0, 1.0]], [1.0]), 2.0)
    assert dead.final == dead.initial


def test_the_three_points_end_in_the_least_squares_line() -> None:
    """[early_alignment] Theorem 2 at width 5,000, and the run's own gradient as a stopping rule."""
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(5_000, 2, init_scale=1e-3)
    trajectory = sf.gradient_flow(network, dataset, until=5e4, stop=1e-9)
    assert trajectory.statistics["engine"] == "cones"
    assert trajectory.outcome.status == "converged"
    line = sf.landscape.least_squares(dataset)
    np.testing.assert_allclose(
        trajectory.final(dataset.inputs), dataset.inputs @ line.coefficients, rtol=0, atol=1e-8
    )
    final = relu(trajectory.final)
    slopes = sf.SquareLoss().slopes(final(dataset.inputs), dataset.targets)
    gradient = final.pullback(dataset.inputs, slopes)
    # A neuron that slides along a point follows the minimal-norm subgradient, not this one.
    z = final.preactivations(dataset.inputs) / np.abs(final.outer)[:, None]
    free = (np.abs(z).min(axis=1) > 1e-12) | (z.max(axis=1) < 1e-12)
    assert np.count_nonzero(~free) < 10
    norm = np.hypot(np.linalg.norm(gradient["inner"][free]), np.linalg.norm(gradient["outer"][free]))
    assert 1e-11 < norm <= 1e-9 * (1 + 1e-3)


def test_a_neuron_that_just_touches_its_wall_does_not_hold_the_flow_up() -> None:
    # At t = 1058 a crossing is due that never comes: steps of 1e-9 of the usual length followed each other.
    data = sf.data.GENERATORS["stewart"](40, seed=96)
    start = sf.initialize.gaussian(2_000, 2, init_scale=1e-3, seed=96)
    run = sf.gradient_flow(start, data, until=1_100.0, record=sf.Record.geometric(2), engine="cones")
    assert run.outcome.status == "completed"
    assert int(run.statistics["segments"]) < 3_000


def test_records_choose_what_is_kept() -> None:
    network, dataset = random_problem(3, 0.0)
    whole = wide(network, dataset, 2.0)
    chosen = wide(network, dataset, 2.0, record=sf.Record.at([0.5, 1.5]))
    assert list(chosen.times) == [0.0, 0.5, 1.5, 2.0]
    assert distance(chosen(1.5), whole(1.5)) < 1e-8
    bare = wide(network, dataset, 2.0, record=sf.Record.geometric(10, networks=False))
    assert len(bare.losses) == 11
    few = wide(network, dataset, 2.0, record=sf.Record.every(1, max_events=1))
    assert len(few.events) == min(1, len(whole.events))
    assert few.statistics["events"] == whole.statistics["events"]
    full = wide(network, dataset, 2.0, record=sf.Record.every(1, max_bytes=10))
    assert full.outcome.status == "memory"


def test_the_engine_is_for_relu_networks_of_the_plane() -> None:
    with pytest.raises(sf.InvalidInputError, match="'cones' needs a ReLUNetwork on inputs of dimension 2"):
        sf.gradient_flow(sf.KnotNetwork([0.0], [1.0]), sf.Dataset([[1.0]], [1.0]), until=1.0, engine="cones")


def test_recorded_times_may_be_next_to_each_other() -> None:
    """0.3 and 0.1 + 0.2 differ by rounding: the step between them is no standstill."""
    network, dataset = random_problem(1, 0.0)
    trajectory = wide(network, dataset, 1.0, record=sf.Record.at([0.3, 0.1 + 0.2, 1.0]))
    assert trajectory.outcome.status == "completed"
    assert len(trajectory.times) == 4


def test_a_hopelessly_wrong_label_has_a_finite_logistic_loss() -> None:
    """At margins below -37 the slope of ln(1 + e^-m) is 1 to rounding, and says nothing of the loss."""
    dataset = sf.Dataset([[1.0, 0.2], [0.3, 1.0]], [-1.0, 1.0])
    network = sf.ReLUNetwork([[6.0, 1.0], [1.0, 4.0]], [12.0, 1.0])
    cones, walls = (
        sf.gradient_flow(network, dataset, until=0.2, loss=sf.LogisticLoss(), engine=engine, tolerance=1e-9)
        for engine in ("cones", "walls")
    )
    assert walls.losses[0] > 30
    assert cones.outcome.status == "completed"
    assert np.all(np.diff(cones.losses) <= 0)
    np.testing.assert_allclose(cones.losses[-1], walls.losses[-1], rtol=1e-7)


def test_a_neuron_that_is_zero_stays_and_is_in_nobodys_way() -> None:
    network, dataset = random_problem(5, 0.0)
    inner, outer = np.vstack([network.inner, np.zeros((2, 2))]), np.append(network.outer, [0.0, 0.0])
    more = sf.ReLUNetwork(inner, outer, slope=network.slope, scale=network.scale)
    one, other = wide(network, dataset, 2.0), wide(more, dataset, 2.0)
    final = relu(other.final)
    assert distance(sf.ReLUNetwork(final.inner[:-2], final.outer[:-2], scale=final.scale), one.final) < 1e-12
    assert not final.inner[-2:].any()
    assert not final.outer[-2:].any()
    assert [event.neuron for event in other.events] == [event.neuron for event in one.events]
