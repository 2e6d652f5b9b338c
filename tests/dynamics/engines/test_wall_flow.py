"""The flow by walls against SciPy, the flow by cones, small-step descent, and its invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.engines.wall_flow import WallEvents
from shallowflow.models import Loss

seeds = st.integers(0, 100_000)
ordinary = settings(deadline=None, derandomize=True, max_examples=12)
KINDS = ("generic", "small outer", "large outer", "special inputs")


def flow(network: sf.ReLUNetwork, dataset: sf.Dataset, until: float, **options: Any) -> sf.Trajectory:
    trajectory = sf.gradient_flow(network, dataset, until=until, engine="walls", **options)
    assert trajectory.outcome.ok, trajectory.outcome
    return trajectory


def final(trajectory: sf.Trajectory) -> sf.ReLUNetwork:
    network = trajectory.final
    assert isinstance(network, sf.ReLUNetwork)
    return network


def distance(one: object, other: object) -> float:
    assert isinstance(one, sf.ReLUNetwork)
    assert isinstance(other, sf.ReLUNetwork)
    return float(max(np.abs(one.inner - other.inner).max(), np.abs(one.outer - other.outer).max()))


def random_problem(seed: int, kind: str = "generic", most: int = 10) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """A random problem; "special inputs": one at the origin, a repeated, an opposite and a collinear one."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    d, n, m = (int(rng.integers(1, high)) for high in (5, 8, most))
    inputs, targets = rng.normal(size=(n, d)), rng.normal(size=n)
    if kind == "special inputs":
        others = (np.zeros((1, d)), inputs[:1], -inputs[:1], -0.5 * inputs[-1:])
        chosen = [others[k] for k in np.flatnonzero(rng.random(4) < 0.6)]
        inputs = np.concatenate([inputs, *chosen])
        targets = np.concatenate([targets, rng.normal(size=len(inputs) - n)])
    inner = 0.3 * rng.normal(size=(m, d))
    ratio = {"small outer": 0.2, "large outer": 4.0}.get(kind, 1.0)
    outer = ratio * np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], m)
    return sf.ReLUNetwork(inner, outer, float(rng.choice([0.0, 0.2]))), sf.Dataset(inputs, targets)


@pytest.mark.parametrize("loss", [sf.SquareLoss("sum"), sf.SquareLoss(), sf.LogisticLoss(), sf.NormLoss()])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_agrees_with_scipy_on_a_smooth_stretch(loss: Loss, slope: float) -> None:
    """All gates are frozen: positive inputs and inner weights. At times inside steps, too."""
    rng = np.random.default_rng(4)
    inputs, targets = rng.uniform(0.5, 1.5, (4, 3)), np.array([1.0, -1.0, 1.0, 1.0])
    inner = np.concatenate([rng.uniform(0.5, 1.0, (4, 3)), -rng.uniform(0.5, 1.0, (2, 3))])
    network = sf.ReLUNetwork(inner, rng.standard_normal(6), slope=slope, scale=0.5)
    gates = np.where(network.preactivations(inputs) > 0, 1.0, slope)

    def velocity(_: float, theta: Floats) -> Floats:
        weights, outer = theta[:18].reshape(6, 3), theta[18:]
        z = gates * (weights @ inputs.T)
        push = -2.0 * 0.5 * gates * loss.slopes(0.5 * outer @ z, targets)
        grown = 0.1 * (outer[:, None] * (push @ inputs)).ravel()
        return np.concatenate([grown, np.einsum("jk,jk->j", push, weights @ inputs.T)])

    theta = np.concatenate([network.inner.ravel(), network.outer])
    options: dict[str, Any] = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13, "dense_output": True}
    solution = solve_ivp(velocity, (0, 0.5), theta, **options).sol
    trajectory = flow(
        network, sf.Dataset(inputs, targets), 0.5, tolerance=1e-10, loss=loss, speed=2.0, epsilon=0.1
    )
    assert trajectory.events == ()
    for time in np.linspace(0.01, 0.5, 9):
        now = trajectory(time)
        assert isinstance(now, sf.ReLUNetwork)
        found = np.concatenate([now.inner.ravel(), now.outer])
        np.testing.assert_allclose(found, solution(time), rtol=0, atol=1e-8)


@ordinary
@given(seeds, st.sampled_from(KINDS))
def test_ten_times_the_tolerance_moves_the_losses_by_no_more(seed: int, kind: str) -> None:
    network, dataset = random_problem(seed, kind)
    times = sf.Record.at(np.linspace(0.5, 5.0, 10))
    coarse, fine = (flow(network, dataset, 5.0, tolerance=t, record=times) for t in (1e-8, 1e-9))
    if not coarse.statistics["two-valued"]:
        scale = 1.0 + float(fine.losses[0])
        np.testing.assert_allclose(coarse.losses, fine.losses, rtol=0, atol=1e-7 * scale)
    assert np.diff(coarse.losses).max() <= 1e-13 * scale_of(coarse)
    balance = network.outer**2 - np.sum(network.inner**2, axis=1)
    end = final(coarse)
    np.testing.assert_allclose(end.outer**2 - np.sum(end.inner**2, axis=1), balance, rtol=0, atol=1e-9)


def scale_of(trajectory: sf.Trajectory) -> float:
    return 1.0 + float(trajectory.losses[0])


@ordinary
@given(seeds, st.sampled_from(("generic", "special inputs")))
def test_small_steps_of_descent_come_to_it(seed: int, kind: str) -> None:
    """First order in the step; where neurons slide descent chatters, and losses agree."""
    network, dataset = random_problem(seed, kind)
    trajectory = flow(network, dataset, 2.0)
    if trajectory.statistics["two-valued"]:
        return
    for step, allowed in ((2e-3, 2e-2), (2e-4, 2e-3)):
        descent = sf.gradient_descent(network, dataset, step=step, steps=round(2.0 / step))
        assert abs(descent.losses[-1] - trajectory.losses[-1]) < allowed * scale_of(trajectory)


@pytest.mark.parametrize("logistic", [False, True])
def test_agrees_with_the_flow_by_cones_where_hundreds_slide(logistic: bool) -> None:
    rng = np.random.default_rng(1)
    targets = rng.normal(size=8)
    dataset = sf.Dataset(rng.normal(size=(8, 2)), np.sign(targets) if logistic else targets)
    network = sf.initialize.balanced(200, 2, init_scale=0.1, seed=2)
    loss = sf.LogisticLoss() if logistic else sf.SquareLoss()
    record = sf.Record.at([1.0, 3.0, 6.0])
    walls = flow(network, dataset, 6.0, tolerance=1e-9, loss=loss, record=record)
    cones = sf.gradient_flow(
        network, dataset, until=6.0, tolerance=1e-9, loss=loss, record=record, engine="cones"
    )
    assert int(walls.statistics["most sliding neurons"]) > 20
    np.testing.assert_allclose(walls.losses, cones.losses, rtol=0, atol=1e-8)
    assert distance(walls.final, cones.final) < 1e-7


@ordinary
@given(seeds)
def test_what_must_change_nothing_changes_nothing(seed: int) -> None:
    """An input at the origin, a zero neuron, a repeated data set, a split neuron, an order, a rotation."""
    network, dataset = random_problem(seed)
    rng, tolerance = np.random.default_rng(seed), 1e-9
    inner, outer, slope = network.inner, network.outer, network.slope
    inputs, targets = dataset.inputs, dataset.targets
    plain = flow(network, dataset, 3.0, tolerance=tolerance)
    if plain.statistics["two-valued"]:
        return
    end, n = final(plain), len(targets)
    origin = sf.Dataset(np.vstack([inputs, np.zeros(inputs.shape[1])]), np.append(targets, 0.7))
    with_origin = flow(network, origin, 3.0, tolerance=tolerance, speed=(n + 1) / n)
    assert distance(with_origin.final, end) < 1e-7
    twice = sf.Dataset(np.vstack([inputs, inputs]), np.concatenate([targets, targets]))
    assert distance(flow(network, twice, 3.0, tolerance=tolerance).final, end) < 1e-7
    more = sf.ReLUNetwork(np.vstack([inner, 0 * inner[:1]]), np.append(outer, 0.0), slope)
    found = final(flow(more, dataset, 3.0, tolerance=tolerance))
    assert distance(sf.ReLUNetwork(found.inner[:-1], found.outer[:-1], slope), end) < 1e-7
    assert not found.inner[-1].any()
    share = np.sqrt(0.5)
    split = sf.ReLUNetwork(
        np.vstack([share * inner[:1], inner[1:], share * inner[:1]]),
        np.concatenate([share * outer[:1], outer[1:], share * outer[:1]]),
        slope,
    )
    found = final(flow(split, dataset, 3.0, tolerance=tolerance))
    np.testing.assert_allclose(found.inner[[0, -1]], share * end.inner[[0, 0]], rtol=0, atol=1e-7)
    order = rng.permutation(len(outer))
    mixed = flow(sf.ReLUNetwork(inner[order], outer[order], slope), dataset, 3.0, tolerance=tolerance)
    np.testing.assert_allclose(final(mixed).inner, end.inner[order], rtol=0, atol=1e-7)
    turn = np.linalg.qr(rng.normal(size=(inputs.shape[1], inputs.shape[1])))[0]
    turned = flow(
        sf.ReLUNetwork(inner @ turn, outer, slope),
        sf.Dataset(inputs @ turn, targets),
        3.0,
        tolerance=tolerance,
    )
    np.testing.assert_allclose(final(turned).inner, end.inner @ turn, rtol=0, atol=1e-7)


RNG = np.random.default_rng(3)
WEIGHTS = 0.1 * RNG.normal(size=(30, 3))
SIGNED = np.linalg.norm(WEIGHTS, axis=1) * RNG.choice([-1.0, 1.0], 30)
POINTS, VALUES = RNG.normal(size=(6, 3)), RNG.normal(size=6)
OPPOSITE = np.vstack([POINTS, -POINTS[:2], -0.5 * POINTS[2:3]]), np.append(VALUES, [0.5, -0.8, 0.4])


@pytest.mark.parametrize(
    ("inputs", "targets", "slope", "until"),
    [
        (np.vstack([POINTS, np.zeros((1, 3))]), np.append(VALUES, 0.7), 0.0, 0.1),
        (*OPPOSITE, 0.0, 1.7),
        (*OPPOSITE, 0.2, 1.7),
        (np.vstack([POINTS, POINTS[:2]]), np.append(VALUES, [0.5, -0.8]), 0.0, 0.5),
    ],
    ids=["origin", "opposite", "opposite, leaky", "repeated"],
)
def test_special_inputs_are_followed_as_descent_follows_them(
    inputs: Floats, targets: Floats, slope: float, until: float
) -> None:
    """Gates decided sample by sample would be off by 10⁻⁴ to 5·10⁻³; descent by 5·10⁻⁵ is off by ~10⁻⁶."""
    network, dataset = sf.ReLUNetwork(WEIGHTS, SIGNED, slope), sf.Dataset(inputs, targets)
    descent = sf.gradient_descent(network, dataset, step=5e-5, steps=round(until / 5e-5))
    assert distance(flow(network, dataset, until).final, descent.final) < 1e-5


def test_an_outer_weight_that_changes_sign_while_sliding_is_an_event() -> None:
    dataset = sf.Dataset([[-0.3, 1.35, -1.03], [-1.54, 1.4, 0.43], [0.69, 0.73, 1.0]], [-0.75, 0.05, -2.02])
    trajectory = flow(sf.ReLUNetwork([[0.24, 0.34, -0.35]], [0.16]), dataset, 3.0)
    assert [event.kind for event in trajectory.events] == ["slide", "two-valued", "on"]
    np.testing.assert_allclose(final(trajectory).inner[0], [0.2045, 0.3881, -0.4441], atol=2e-4)


def test_a_repelling_wall_among_dependent_ones_is_left() -> None:
    """Neuron 4 slides on three walls of rank 2; one turns repelling, and descent leaves (loss 0.045101)."""
    inputs = [[-1, 0, -1], [1, -1, 1], [-1, -1, -1], [1, -1, -1], [1, 0, -1], [0, 1, -1], [1, 1, 1]]
    rows = [[0, -1, 1], [0, 1, 0], [0, -1, -1], [-1, 0, 0], [1, 0, -1], [0, 0, 1], [0, 0, 1], [1, 0, -1]]
    start = np.array(rows) / 2
    inner = start + 1e-5 * np.random.default_rng(0).normal(size=(8, 3))
    outer = np.array([-1, -1, -1, 1, -1, 1, -1, 1]) * np.linalg.norm(start, axis=1)
    dataset = sf.Dataset(np.array(inputs, float), [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0])
    trajectory = flow(sf.ReLUNetwork(inner, outer, 0.2), dataset, 5.0)
    assert ("two-valued", 4) in {(event.kind, event.neuron) for event in trajectory.events}
    assert trajectory.losses[-1] == pytest.approx(0.045101, abs=2e-5)


def test_a_zero_neuron_or_an_input_at_the_origin_leaves_the_predictions_alone() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.standard_normal((6, 3)), rng.standard_normal(6)
    network = sf.initialize.balanced(10, 3, init_scale=1e-3, seed=0)
    plain = flow(network, sf.Dataset(inputs, targets), 8.0).final(inputs)
    origin = sf.Dataset(np.vstack([inputs, np.zeros(3)]), np.append(targets, 0.0))
    np.testing.assert_allclose(flow(network, origin, 8.0, speed=7 / 6).final(inputs), plain, rtol=1e-7)
    zero = sf.ReLUNetwork(np.vstack([network.inner, np.zeros(3)]), np.append(network.outer, 0.0))
    np.testing.assert_allclose(flow(zero, sf.Dataset(inputs, targets), 8.0).final(inputs), plain, rtol=1e-7)


@pytest.mark.parametrize("engine", ["walls", "cones"])
def test_at_zero_a_neuron_takes_the_steepest_way(engine: str) -> None:
    """w = 0, a ≠ 0: to stay would be a solution, too; the event says so."""
    network = sf.ReLUNetwork(np.zeros((3, 2)), np.full(3, 0.1), 0.0, 1 / 3)
    trajectory = sf.gradient_flow(network, sf.Dataset([[0.5, 1.6]], [1.3]), until=9.0, engine=engine)
    assert trajectory.losses[-1] == pytest.approx(3.5e-7, rel=0.02)
    if engine == "walls":
        assert [event.kind for event in trajectory.events] == ["two-valued"] * 3


def test_a_start_on_a_repelling_wall_is_two_valued() -> None:
    trajectory = flow(sf.ReLUNetwork([[-0.43, 0.43]], [0.9]), sf.Dataset([[1.0, 1.0]], [0.55]), 1.0)
    assert [(event.time, event.kind, event.point) for event in trajectory.events] == [(0.0, "two-valued", 0)]


@pytest.mark.parametrize("count", [2, 3])
def test_a_neuron_rests_at_zero(count: int) -> None:
    """Inputs around the origin with negative targets push w to 0 exactly; a² − ‖w‖² stays."""
    angles = 2 * np.pi * np.arange(count) / count
    inputs = np.column_stack([np.cos(angles), np.sin(angles)])
    if count == 2:
        inputs = np.array([[1.0, 0.0], [-1.0, 0.0]])
    start = np.array([[0.1, 0.03 * (count == 3)]])
    network, dataset = sf.ReLUNetwork(start, [1.0]), sf.Dataset(inputs, -np.ones(count))
    end = final(flow(network, dataset, 20.0))
    np.testing.assert_array_equal(end.inner, 0.0)
    assert end.outer[0] == pytest.approx(np.sqrt(1.0 - np.sum(start**2)), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e-100])
def test_a_tiny_start_keeps_its_accuracy(scale: float) -> None:
    """Before the first rise nothing but size depends on the scale."""
    network, dataset = random_problem(11)
    moved = [
        final(flow(sf.ReLUNetwork(s * network.inner, s * network.outer, network.slope), dataset, 3.0))
        for s in (1e-20, scale)
    ]
    np.testing.assert_allclose(moved[0].inner / 1e-20, moved[1].inner / scale, rtol=1e-8, atol=1e-9)


def test_orthogonal_inputs_of_any_norm_freeze_what_is_inactive() -> None:
    """In their own coordinates ⟨w, x⟩ ≤ 0 does not move, to the last bit of the axes."""
    lengths = np.array([0.5, 1.0, 2.0])
    dataset = sf.Dataset(np.diag(lengths), [1.0, -1.0, 2.0])
    network = sf.initialize.balanced(12, 3, init_scale=1e-2, seed=5)
    end = final(flow(network, dataset, 40.0))
    frozen = network.inner <= 0
    np.testing.assert_array_equal(end.inner[frozen], network.inner[frozen])
    assert (end.inner[~frozen] != network.inner[~frozen]).any()


def test_a_stiff_end_takes_few_steps() -> None:
    """The step grows without a limit of stability: ten times the time costs a few steps more."""
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(rng.normal(size=(6, 4)), rng.normal(size=6))
    network = sf.initialize.balanced(40, 4, init_scale=0.5, seed=1)
    record = sf.Record.at([1.0], networks=False)
    short, long = (flow(network, dataset, until, record=record) for until in (2e2, 2e5))
    assert int(long.statistics["segments"]) < int(short.statistics["segments"]) + 40
    assert long.losses[-1] < 1e-15
    stopped = flow(network, dataset, 2e5, stop=1e-6)
    assert stopped.outcome.status == "converged"


def test_nothing_moves_without_inputs_off_the_origin() -> None:
    network, _ = random_problem(2)
    dataset = sf.Dataset(np.zeros((2, network.dimension)), [1.0, 2.0])
    trajectory = flow(network, dataset, 3.0)
    assert trajectory.final == network
    np.testing.assert_allclose(trajectory.losses, 1.25)


def test_moments_are_read_inside_steps() -> None:
    """Losses and networks at chosen times are those of the path, whatever the steps."""
    network, dataset = random_problem(7, "special inputs")
    whole = flow(network, dataset, 4.0)
    times = np.array([0.0, 0.3, 1.7, 4.0])
    chosen = flow(network, dataset, 4.0, record=sf.Record.at(times))
    bare = flow(network, dataset, 4.0, record=sf.Record.at(times, networks=False))
    np.testing.assert_array_equal(chosen.losses, bare.losses)
    for time, loss in zip(times, chosen.losses, strict=True):
        assert distance(chosen(time), whole(time)) <= 1e-14
        value = sf.SquareLoss().value(chosen(time)(dataset.inputs), dataset.targets)
        assert value == pytest.approx(loss, rel=1e-12)


def test_the_plain_flow_names_its_successor() -> None:
    network, dataset = random_problem(0)
    with pytest.raises(sf.InvalidInputError, match="a ReLUNetwork: engine 'walls'"):
        sf.gradient_flow(network, dataset, until=1.0, engine="dense")


def test_a_neuron_dies_with_its_last_change_not_with_the_first_of_the_step() -> None:
    rng = np.random.default_rng(0)
    now = rng.choice([-1, 1], (5, 4))
    changed, neurons, walls, before = [], rng.integers(0, 5, 60), rng.integers(0, 4, 60), []
    for neuron, wall in zip(neurons, walls, strict=True):
        before.append(now[neuron, wall])
        now[neuron, wall] = rng.integers(-1, 2)
        changed.append(now[neuron].copy())
    assert np.array_equal(WallEvents._after(neurons, walls, np.array(before), now), changed)
