"""Flows that were once reported as wrong, late or without end, and checks of accuracy with their numbers.

| report | test |
|---|---|
| errors follow the tolerance (smooth; 250 events) | `test_errors_follow_the_tolerance`, `…_through_events` |
| coordinates that are all zero; copies of neurons; mirror images | `test_zero_coordinates…`, `test_copies…` |
| an input at the origin, a zero neuron made events late | `test_events_are_on_time…` |
| w = 0 rested at width 1,000 and left at 1,001 | `test_width_does_not_decide…` |
| a sliding neuron whose outer weight changes sign | `test_the_sign_of_a_sliding_neuron…` |
| three points that slide, orthogonal inputs, tiny starts: slow beyond use | `test_once_slow…` |

Others are in `test_wall_flow` (repeated and opposite inputs, rest at zero, dependent walls) and in
`test_degenerate_flow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats


def flow(network: sf.ReLUNetwork, dataset: sf.Dataset, until: float, **options: Any) -> sf.Trajectory:
    run = sf.gradient_flow(network, dataset, until=until, **{"engine": "walls"} | options)
    assert run.outcome.ok, run.outcome
    return run


def weights(network: object) -> Floats:
    assert isinstance(network, sf.ReLUNetwork)
    return np.column_stack([network.inner, network.outer])


def mixed(seed: int, d: int, n: int, m: int, scale: float = 0.1) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    rng = np.random.default_rng(seed)
    inner = rng.normal(size=(m, d)) * scale / np.sqrt(m * d)
    outer = np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], m)
    return sf.ReLUNetwork(inner, outer), sf.Dataset(
        rng.normal(size=(n, d)) * 1.5 / np.sqrt(d), rng.normal(size=n)
    )


def test_errors_follow_the_tolerance() -> None:
    """All gates are open: positive data and weights; SciPy at 10⁻¹²."""
    rng = np.random.default_rng(0)
    inputs, inner = rng.uniform(0.2, 1.0, (8, 5)), rng.uniform(0.1, 0.2, (20, 5))
    targets, outer = inputs @ np.full(5, 2.0), np.linalg.norm(inner, axis=1)
    theta = np.concatenate([inner.ravel(), outer])

    def velocity(_: float, theta: Floats) -> Floats:
        w, a = theta[:100].reshape(20, 5), theta[100:]
        push = (targets - a @ w @ inputs.T) / 8 @ inputs
        return np.concatenate([np.outer(a, push).ravel(), w @ push])

    exact = solve_ivp(velocity, (0, 20), theta, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    for tolerance in (1e-6, 1e-8, 1e-10):
        run = flow(sf.ReLUNetwork(inner, outer), sf.Dataset(inputs, targets), 20.0, tolerance=tolerance)
        assert run.events == ()
        found = weights(run.final)
        assert np.abs(np.concatenate([found[:, :5].ravel(), found[:, 5]]) - exact).max() < tolerance


def test_errors_follow_the_tolerance_through_events() -> None:
    network, dataset = mixed(0, 4, 7, 100)
    record = sf.Record.at(np.linspace(0.0, 20.0, 21))
    exact = flow(network, dataset, 20.0, tolerance=1e-12, record=record)
    assert int(exact.statistics["events"]) > 200
    assert int(exact.statistics["most sliding neurons"]) > 10
    for tolerance in (1e-6, 1e-8, 1e-10):
        run = flow(network, dataset, 20.0, tolerance=tolerance, record=record)
        assert np.abs(run.losses - exact.losses).max() < tolerance
        assert np.abs(weights(run.final) - weights(exact.final)).max() < 10 * tolerance


def test_zero_coordinates_and_rotations_change_nothing() -> None:
    network, dataset = mixed(1, 10, 40, 60)
    plain = flow(network, dataset, 5.0)
    wide = sf.ReLUNetwork(np.pad(network.inner, ((0, 0), (0, 5))), network.outer)
    more = flow(wide, sf.Dataset(np.pad(dataset.inputs, ((0, 0), (0, 5))), dataset.targets), 5.0)
    assert not weights(more.final)[:, 10:15].any()
    np.testing.assert_allclose(
        weights(more.final)[:, [*range(10), 15]], weights(plain.final), rtol=0, atol=1e-11
    )


def test_copies_stay_equal_and_mirror_images_too() -> None:
    """Every neuron twice; and inputs with a mirror plane, between whose sides neurons are copied."""
    network, dataset = mixed(2, 3, 8, 30)
    twice = sf.ReLUNetwork(np.vstack([network.inner] * 2), np.tile(network.outer, 2))
    end = weights(flow(twice, dataset, 8.0, tolerance=1e-9).final)
    np.testing.assert_allclose(end[:30], end[30:], rtol=0, atol=1e-10)
    mirror = np.array([-1.0, 1.0, 1.0])
    both = sf.Dataset(np.vstack([dataset.inputs, dataset.inputs * mirror]), np.tile(dataset.targets, 2))
    pairs = sf.ReLUNetwork(np.vstack([network.inner, network.inner * mirror]), np.tile(network.outer, 2))
    run = flow(pairs, both, 8.0, tolerance=1e-9)
    end = weights(run.final)
    assert len(run.events) > 50
    np.testing.assert_allclose(end[:30] * [*mirror, 1.0], end[30:], rtol=0, atol=1e-9)


def test_events_are_on_time_beside_an_input_at_the_origin() -> None:
    inputs, targets = np.array([[0.0, 0.0], [1.0, 0.5], [-0.5, 1.0]]), np.array([0.0, 1.0, -1.0])
    network = sf.initialize.balanced(10, 2, init_scale=0.1, seed=1)
    late = flow(network, sf.Dataset(inputs, targets), 20.0)
    early = flow(network, sf.Dataset(inputs[1:], targets[1:]), 20.0 * 2 / 3)
    assert [event.kind for event in late.events] == [event.kind for event in early.events]
    times = [1.5 * event.time for event in early.events]
    np.testing.assert_allclose([event.time for event in late.events], times, rtol=1e-7)
    np.testing.assert_allclose(times[:4], [0.3934, 1.1531, 1.8172, 2.8213], atol=1e-4)


def test_events_are_on_time_beside_a_zero_neuron() -> None:
    dataset = sf.Dataset([[1.9, -0.61], [-0.22, -1.28]], [-1.5, 0.03])
    for inner, outer in (([[-0.03, -0.01]], [-0.06]), ([[-0.03, -0.01], [0.0, 0.0]], [-0.06, 0.0])):
        run = flow(sf.ReLUNetwork(inner, outer, 0.5), dataset, 3.0)
        assert run.events[0].time == pytest.approx(0.60990, abs=1e-5)
        assert run.losses[-1] == pytest.approx(0.11843, abs=1e-5)


@pytest.mark.parametrize("width", [1000, 1001])
@pytest.mark.parametrize(
    ("engine", "end"), [("walls", 3.5e-7), ("cones", 3.5e-7), ("leaps", 0.845), ("auto", 0.845)]
)
def test_width_does_not_decide_whether_a_neuron_leaves_zero(width: int, engine: str, end: float) -> None:
    """Walls and cones take the steepest way; on orthogonal inputs "auto" takes leaps, where zeros stay."""
    network = sf.ReLUNetwork(np.zeros((width, 2)), np.full(width, 0.1), 0.0, 1 / width)
    run = flow(network, sf.Dataset([[0.5, 1.6]], [1.3]), 3.0 * width, engine=engine)
    assert run.losses[-1] == pytest.approx(end, rel=0.02)


def test_the_sign_of_a_sliding_neuron_is_an_event_in_the_plane() -> None:
    """At the same time by walls and by cones; descent goes the same way."""
    dataset = sf.Dataset(
        [[0.34, -0.9], [0.39, -0.71], [-0.21, 0.45], [-0.33, 0.65], [0.46, 0.36]],
        [2.65, -2.95, -3.19, 1.23, 1.88],
    )
    network = sf.ReLUNetwork([[2.01, 0.76], [0.83, -0.88], [0.75, 0.67]], [-0.21, -0.18, -0.02])
    ends, times = [], []
    for engine in ("walls", "cones"):
        run = flow(network, dataset, 3.0, engine=engine)
        times.append([event.time for event in run.events if event.kind == "two-valued"])
        ends.append(weights(run.final))
    np.testing.assert_allclose(times[0], times[1], rtol=0, atol=1e-6)
    assert times[0][0] == pytest.approx(0.621, abs=1e-3)
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-6)
    descent = sf.gradient_descent(network, dataset, step=1e-4, steps=30_000)
    np.testing.assert_allclose(weights(descent.final), ends[0], rtol=0, atol=2e-3)


def test_the_sign_of_a_sliding_neuron_is_an_event_in_space() -> None:
    rng = np.random.default_rng(7)
    inner = 0.1 * rng.normal(size=(60, 4))
    outer = 0.3 * np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], 60)
    run = flow(sf.ReLUNetwork(inner, outer), sf.Dataset(rng.normal(size=(12, 4)), rng.normal(size=12)), 5.0)
    kinds = [event.kind for event in run.events if event.neuron == 47]
    assert "two-valued" in kinds[kinds.index("slide") :]
    assert "one of several" in str(run.statistics["accuracy"])


def test_once_slow_three_points_that_slide() -> None:
    dataset = sf.Dataset([[-1.0], [0.5], [2.0]], [0.8, -0.3, 1.1]).with_bias()
    network = sf.initialize.balanced(width=200, dimension=2, init_scale=1e-3, seed=0)
    walls, cones = (flow(network, dataset, 40.0, engine=engine) for engine in ("walls", "cones"))
    assert walls.losses[-1] == pytest.approx(cones.losses[-1], abs=1e-9)


def test_once_slow_orthogonal_inputs() -> None:
    """Decoupled descent with steps of 10⁻³ ends 2·10⁻³ away or nearer."""
    dataset, network = (
        sf.data.GENERATORS["orthogonal"](8, 12, seed=2),
        sf.initialize.asymmetric(24, 12, seed=2),
    )
    run = flow(network, dataset, 10.0, speed=24.0)
    descent = sf.gradient_descent(network, dataset, step=24e-3, steps=10_000)
    assert run.losses[-1] == pytest.approx(descent.losses[-1], abs=2e-3)


def test_once_slow_a_tiny_start_on_orthonormal_inputs() -> None:
    """n 23, m 3, scale 10⁻¹⁰⁰: the plain flow would have taken hours; walls and leaps agree."""
    rng = np.random.default_rng(10_002)
    n = int(rng.integers(3, 25))
    m = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 40], p=[0.1, *[0.13] * 5, 0.1, 0.1, 0.05]))
    rng.choice([8, 16, 30, 100, 300])
    rng.choice(["rot", "rot+", "id"], p=[0.4, 0.4, 0.2])
    d = n + int(rng.integers(1, 6))
    y = rng.standard_normal(n)
    dataset = sf.Dataset(np.linalg.qr(rng.standard_normal((d, d)))[0][:n], np.sign(y) * (0.3 + np.abs(y)))
    network = sf.initialize.log_scaled(m, d, log_scale=-100 * np.log(10), seed=2).to_relu()
    with pytest.warns(RuntimeWarning, match="rounding may revive coordinates"):
        walls = flow(network, dataset, 2967.75, engine="walls")
    leaps = flow(network, dataset, 2967.75, engine="leaps")
    assert (n, m, d) == (23, 3, 24)
    assert walls.losses[-1] == pytest.approx(leaps.losses[-1], abs=1e-6)
