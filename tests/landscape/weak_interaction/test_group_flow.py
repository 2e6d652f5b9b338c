"""The closed form of group initialisation against integration, exact limits, and the printed formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.generators import orthonormal
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow, group_flow

ALIGNMENTS = [0.0, 0.05, 0.3, 0.6, 0.9, 0.999, 1.0]


def grouped_problem(alignment: float, seed: int = 0) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """Two groups of three orthonormal inputs, the first with that alignment of w and labels (up to 1e-8).

    All labels and preactivations of a group are positive; those next to zero make small cosines possible.
    """
    tiny = 1e-9
    basis = orthonormal(6, 8, seed=seed).inputs
    labels = np.array([1.7, tiny, tiny, -2.0, -1.0, -0.5])
    across = np.sqrt(1 - alignment**2)
    first = 0.7 * np.maximum([alignment, 0.6 * across, 0.8 * across], tiny)
    second = np.array([0.3, 0.9, 0.5])
    off = np.full(3, -1e-10)
    inner = np.array([[*first, *off], [*off, *second]]) @ basis
    outer = [float(np.linalg.norm(first)), -float(np.linalg.norm(second))]
    return sf.ReLUNetwork(inner, outer, scale=0.5), sf.Dataset(basis, labels)


def integrate(network: sf.ReLUNetwork, dataset: sf.Dataset, times: Floats) -> tuple[Floats, Floats]:
    """Return ρ_j² and g_j by DOP853 on all weights of the network, with its ReLUs."""
    z = np.maximum(
        weights_over_time(network, dataset, times)[:, :16].reshape(-1, 2, 8) @ dataset.inputs.T, 0.0
    )
    squares = np.sum(z * z, axis=2)
    labels = np.repeat(np.eye(2), 3, axis=1) * np.abs(dataset.targets)
    cosines = np.sum(z * labels, axis=2) / np.sqrt(squares) / np.linalg.norm(labels, axis=1)
    return squares, cosines


def weights_over_time(network: sf.ReLUNetwork, dataset: sf.Dataset, times: Floats) -> Floats:
    """Return inner and outer weights (times, 18) of two neurons in dimension 8, at speed 2."""
    m, n = 2, dataset.size

    def field(_: float, state: Floats) -> Floats:
        inner, outer = state[: m * 8].reshape(m, 8), state[m * 8 :]
        z = np.maximum(inner @ dataset.inputs.T, 0.0)
        residual = dataset.targets - outer @ z / m
        pull = (z > 0) * residual / n
        return np.concatenate([(outer[:, None] * (pull @ dataset.inputs)).ravel(), np.sum(pull * z, axis=1)])

    start = np.concatenate([network.inner.ravel(), network.outer])
    solution = solve_ivp(field, (0, times[-1]), start, "DOP853", times, rtol=1e-13, atol=1e-14)
    return np.asarray(solution.y.T)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_the_closed_form_is_the_flow_of_the_whole_network(alignment: float) -> None:
    network, dataset = grouped_problem(alignment)
    flow = group_flow(network, dataset)
    assert flow.alignments[0] == pytest.approx(alignment, abs=1e-8)
    times = np.linspace(0.0, 12.0, 25)
    squares, cosines = integrate(network, dataset, times)
    np.testing.assert_allclose(flow.square_norms(times), squares, rtol=1e-8)
    np.testing.assert_allclose(flow.alignment(times), cosines, rtol=1e-8)


def test_the_closed_form_is_the_trajectory_of_gradient_flow() -> None:
    """With events watched, through the library's own integrator, loss included."""
    dataset = orthonormal(12, 14, labels="positive", seed=2)
    network = sf.initialize.grouped(dataset.inputs, dataset.targets, 3, norm=0.5, seed=1)
    flow = group_flow(network, dataset)
    trajectory = sf.gradient_flow(network, dataset, until=30.0, speed=3.0, tolerance=1e-10)
    chosen = trajectory.times[:: max(1, len(trajectory.times) // 30)]
    losses = [sf.SquareLoss().value(trajectory(t)(dataset.inputs), dataset.targets) for t in chosen]
    np.testing.assert_allclose(flow.loss(chosen), losses, rtol=1e-5, atol=1e-12)


def printed_55(flow: GroupFlow, time: float, group: int) -> float:
    """Return ‖w_j‖₊² by (55) as printed."""
    full = np.sqrt(flow.size * flow.width) * flow.labels[group]
    square, g0, ct = flow.norms[group] ** 2, flow.alignments[group], flow.rates[group] * time
    top = full * square * (np.cosh(ct) + g0 * np.sinh(ct))
    return float(top / (full + square * (np.sinh(ct) + g0 * (np.cosh(ct) - 1))))


@pytest.mark.parametrize("alignment", [0.3, 0.9])
def test_the_printed_formula_is_not_the_flow(alignment: float) -> None:
    network, dataset = grouped_problem(alignment)
    flow = group_flow(network, dataset)
    squares, _ = integrate(network, dataset, np.array([0.0, 4.0]))
    assert abs(printed_55(flow, 4.0, 0) / squares[1, 0] - 1) > 0.01


def test_the_printed_formula_is_right_for_perfect_alignment() -> None:
    flow = GroupFlow(100, [1.0, 2.0], [1.0, 1.0], [0.5, 2.0])
    for group in (0, 1):
        assert printed_55(flow, 7.0, group) == pytest.approx(flow.square_norms(7.0)[group], rel=1e-12)


def test_tiny_losses_keep_their_relative_accuracy() -> None:
    """Against the definition ½ mean (|y| − ρ² e/p)² in 60 digits."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    n, p, label, g0, rho0 = 20, 2, "1.5", "0.4", "0.8"
    flow = GroupFlow(n, [float(label)] * 2, [float(g0)] * 2, [float(rho0)] * 2)
    for time in (3, 40, 200):
        d, g, r, t = Decimal(label), Decimal(g0), Decimal(rho0), Decimal(time)
        k = Decimal(n) / p
        omega = k.sqrt() * d / n
        grow, shrink = (omega * t).exp(), (-omega * t).exp()
        cosh, sinh = (grow + shrink) / 2, (grow - shrink) / 2
        number = (cosh + g * sinh) ** 2
        c = 2 * omega
        integral = (
            (1 + g) ** 2 * ((c * t).exp() - 1) / c
            + 2 * (1 - g * g) * t
            + (1 - g) ** 2 * (1 - (-c * t).exp()) / c
        ) / 4
        rho = r * r * number / (1 + 2 * r * r * integral / (n * p))
        alignment = (sinh + g * cosh) / (cosh + g * sinh)
        psi = rho / (p * k.sqrt())
        exact = (d * d - 2 * d * alignment * psi + psi * psi) / 2
        assert flow.group_losses(float(time))[0] == pytest.approx(float(exact), rel=1e-11)
    assert flow.group_losses(200.0)[0] < 1e-25


def test_transitions_lie_where_the_loss_crosses_and_tend_to_their_limits() -> None:
    errors = []
    for size in (1e6, 1e30, 1e100):
        flow = GroupFlow(size, [1.0, 2.0], [0.3, 0.8], [1.0, 0.5])
        times = flow.transition_times(0.25)
        crossed = [flow.group_losses(times[j])[j] for j in (0, 1)]
        np.testing.assert_allclose(crossed, 0.125 * flow.labels**2, rtol=1e-9)
        errors.append(np.max(np.abs(times / flow.unit - flow.limit_transitions)))
        np.testing.assert_allclose(flow.windows(0.1), flow.limit_windows(0.1), rtol=10 * size**-0.5 + 1e-12)
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.05


def test_the_limit_loss_has_one_step_per_group() -> None:
    flow = GroupFlow(1e100, [1.0, 2.0], [1.0, 1.0], [1.0, 1.0])
    times = np.array([0.2, 0.48, 0.55, 0.95, 1.2])
    np.testing.assert_allclose(flow.limit_loss(times), [1.25, 1.25, 0.25, 0.25, 0.0])
    np.testing.assert_allclose(flow.loss(times * flow.unit), flow.limit_loss(times), atol=0.02)


def test_what_is_not_a_group_start_is_refused() -> None:
    dataset = orthonormal(4, labels="positive")
    network = sf.initialize.grouped(dataset.inputs, dataset.targets, 2)
    with pytest.raises(InvalidInputError, match="orthonormal"):
        group_flow(network, sf.Dataset(2 * dataset.inputs, dataset.targets))
    with pytest.raises(InvalidInputError, match="active for one neuron"):
        group_flow(sf.initialize.asymmetric(2, 4, seed=1), dataset)
    with pytest.raises(InvalidInputError, match="sign of their labels"):
        group_flow(sf.ReLUNetwork(network.inner, -network.outer, scale=0.5), dataset)
    with pytest.raises(InvalidInputError, match="norm of the neuron"):
        group_flow(sf.ReLUNetwork(network.inner, 0.5 * network.outer, scale=0.5), dataset)
    with pytest.raises(InvalidInputError, match="scale 1/width"):
        group_flow(sf.ReLUNetwork(network.inner, network.outer), dataset)
    with pytest.raises(InvalidInputError, match="alignments"):
        GroupFlow(10, [1.0], [1.5], [1.0])
    for wrong in ([3.0, 6.0], [0.5, 9.5]):
        with pytest.raises(InvalidInputError, match="sizes: must be >= 1 and add up to 10"):
            GroupFlow(10, [1.0, 1.0], [0.5, 0.5], [1.0, 1.0], sizes=wrong)
    with pytest.raises(InvalidInputError, match="excess: must be >= 0"):
        GroupFlow(10, [1.0], [0.5], [1.0], excess=[-0.1])


@pytest.mark.parametrize("wrong", [0.7, 2, 0, -0.1, "a", float("nan")])
def test_windows_are_between_a_level_below_one_half_and_its_mirror(wrong: Any) -> None:
    flow = GroupFlow(100.0, [1.0, 2.0], [0.5, 0.5], [1.0, 1.0])
    for call in (flow.windows, flow.limit_windows):
        with pytest.raises(InvalidInputError, match="epsilon: must"):
            call(wrong)
    if wrong != 0.7:
        with pytest.raises(InvalidInputError, match="level: must"):
            flow.transition_times(wrong)


def test_a_flow_has_a_sample_per_group_and_a_unit_of_time_from_two_on() -> None:
    with pytest.raises(InvalidInputError, match=r"size: must be at least the number 1 of groups, got 0\.1"):
        GroupFlow(0.1, [1.0], [0.5], [1.0])
    lone = GroupFlow(1, [1.0], [0.5], [1.0])
    with pytest.raises(InvalidInputError, match="needs more than one sample"):
        lone.limit_windows(0.25)
    with pytest.raises(InvalidInputError, match="needs more than one sample"):
        lone.windows(0.25)
    assert GroupFlow(2, [1.0], [0.5], [1.0]).unit > 0


def printed_problem(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """Groups of four and two samples, negative off the group and a part off the data; |a| = ‖w‖: (9)."""
    rng = np.random.default_rng(seed)
    basis = orthonormal(6, 8, seed=seed).inputs
    labels = np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0]) * rng.uniform(0.5, 2.0, 6)
    on = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]], dtype=bool)
    size = rng.uniform(0.1, 0.9, (2, 6))
    inner = np.where(on, size, -size) @ basis
    rest = rng.normal(size=(2, 8))
    inner += 0.5 * (rest - rest @ basis.T @ basis)
    outer = np.array([1.0, -1.0]) * np.linalg.norm(inner, axis=1)
    return sf.ReLUNetwork(inner, outer, scale=0.5), sf.Dataset(basis, labels)


@pytest.mark.parametrize("seed", range(4))
def test_unequal_groups_and_the_printed_start_follow_the_flow_of_the_whole_network(seed: int) -> None:
    network, dataset = printed_problem(seed)
    flow = group_flow(network, dataset)
    np.testing.assert_array_equal(flow.sizes, [4, 2])
    assert np.all(flow.excess > 0.1)
    times = np.linspace(0.0, 12.0, 25)
    states = weights_over_time(network, dataset, times)
    inner, outer = states[:, :16].reshape(-1, 2, 8), states[:, 16:]
    z = np.maximum(inner @ dataset.inputs.T, 0.0)
    residual = dataset.targets - np.einsum("tj,tji->ti", outer, z) / 2
    losses = 0.5 * np.mean(residual**2, axis=1)
    np.testing.assert_allclose(flow.square_norms(times), np.sum(z * z, axis=2), rtol=1e-9)
    np.testing.assert_allclose(flow.loss(times), losses, rtol=1e-8)
    # −L' = p‖∇L‖², by the definition (5).
    pull = (z > 0) * residual[:, None] / 12
    slope = np.sum((outer[:, :, None] * pull) ** 2, axis=(1, 2)) + np.sum(np.sum(pull * z, 2) ** 2, 1)
    np.testing.assert_allclose(flow.curvature(times), 2 * slope / losses, rtol=1e-7)


def test_the_curvature_is_the_decay_of_the_loss_at_any_time_and_size() -> None:
    """Against a difference of ln L; at times whose loss underflows, against the slowest rate."""
    flow = GroupFlow(60, [1.0, 1.5], [0.4, 0.9], [0.7, 1.2], sizes=[40, 20], excess=[0.3, 0.0])
    for time in (0.0, 5.0, 30.0, 90.0):
        at = np.array([time, time + 1e-3, time + 2e-3])
        slope = -np.diff(np.log(flow.loss(at)[[0, 2]]))[0] / 2e-3
        assert flow.curvature(at[1]) == pytest.approx(slope, rel=1e-6)
    late = GroupFlow(10, [1.0], [0.5], [1.0])
    assert late.loss(1e5) == 0.0
    # The part across the labels falls like e^{−λ₊t}, the loss like its square: μ → 2ω.
    assert late.curvature(1e5) == pytest.approx(late.rates[0], rel=1e-12)


def test_the_rate_turns_from_one_over_n_to_one_over_its_root() -> None:
    """[weak_interaction] §4.2, one group: nμ(0) = 4, √n μ = 2 at t_n and 4 after it."""
    for size in (1e4, 1e16, 1e30):
        flow = GroupFlow(size, [1.0], [1.0], [1.0])
        assert size * flow.curvature(0.0) == pytest.approx(4.0, rel=3 / np.sqrt(size))
        assert np.sqrt(size) * flow.curvature(flow.unit) == pytest.approx(2.0, rel=3 / np.sqrt(size))
    assert np.sqrt(size) * flow.curvature(1.5 * flow.unit) == pytest.approx(4.0, rel=1e-6)


def test_transitions_of_unequal_groups_tend_to_their_limits() -> None:
    errors = []
    for size in (1e6, 1e30, 1e100):
        flow = GroupFlow(size, [1.0, 2.0], [0.3, 0.8], [1.0, 0.5], sizes=[0.9 * size, 0.1 * size])
        np.testing.assert_allclose(flow.limit_transitions, [1 / np.sqrt(1.8), 0.5 / np.sqrt(0.2)])
        errors.append(np.max(np.abs(flow.transition_times(0.5) / flow.unit - flow.limit_transitions)))
        np.testing.assert_allclose(flow.windows(0.1), flow.limit_windows(0.1), rtol=10 * size**-0.5 + 1e-12)
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    np.testing.assert_allclose(flow.limit_loss([0.1, 0.8, 1.2]), [0.65, 0.2, 0.0])
