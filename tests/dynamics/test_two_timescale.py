"""The two-timescale limit beside independent integrators and the population flow with small ε."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.models.networks import StepNetwork

TARGET = sf.PiecewiseConstant([0.2, 0.35, 0.5, 0.65, 0.8], [1.0, 5.0, 1.0, 3.0, 1.0, 5.0])


def regular(per_piece: int, seed: int, sharpness: float = 0.0) -> StepNetwork:
    """Return a network with that many neurons on every piece of `TARGET`, in random order."""
    rng = np.random.default_rng(seed)
    edges = np.concatenate([[0.0], TARGET.breakpoints, [1.0]])
    u = np.concatenate([a + (b - a) * rng.uniform(0.05, 0.95, per_piece) for a, b in pairwise(edges)])
    return StepNetwork(rng.permutation(u), np.zeros(len(u)), 0.0, sharpness)


def means(u: Floats, target: sf.PiecewiseConstant) -> Floats:
    """Return the mean of f* between neighbouring positions, from an antiderivative."""
    edges = np.concatenate([[0.0], u, [1.0]])
    knots = np.concatenate([[0.0], target.breakpoints, [1.0]])
    sums = np.concatenate([[0.0], np.cumsum(np.diff(knots) * target.values)])
    found: Floats = np.diff(np.interp(edges, knots, sums)) / np.diff(edges)
    return found


def velocity(u: Floats, target: sf.PiecewiseConstant) -> Floats:
    c, f = means(u, target), target(u)
    return -0.5 * ((f - c[:-1]) ** 2 - (f - c[1:]) ** 2)


def first_event(u: Floats, target: sf.PiecewiseConstant, until: float) -> float:
    """Return when a position first reaches a jump, by SciPy's own event location."""
    side = np.sign(u[:, None] - target.breakpoints)

    def distance(_: float, y: Floats) -> float:
        return float((side * (y[:, None] - target.breakpoints)).min())

    distance.terminal = True  # type: ignore[attr-defined]
    solution = solve_ivp(
        lambda _, y: velocity(y, target),
        (0, until),
        u,
        method="DOP853",
        events=distance,
        rtol=1e-13,
        atol=1e-15,
        max_step=until / 20,
    )
    return float(solution.t[-1])


@pytest.mark.parametrize("seed", range(4))
def test_with_two_neurons_per_piece_hits_come_at_the_closed_form_times(seed: int) -> None:
    network = regular(2, seed)
    expected = sf.hitting_times(network, TARGET)
    trajectory = sf.two_timescale_limit(network, TARGET, until=1.1 * float(expected.max()))
    hits = {event.point: event.time for event in trajectory.events}
    assert [event.kind for event in trajectory.events] == ["hit"] * 5
    np.testing.assert_allclose([hits[i] for i in range(5)], expected, atol=1e-10)
    assert trajectory.statistics["integrated"] == 0
    assert trajectory.losses[-1] == pytest.approx(0, abs=1e-28)
    first = first_event(np.sort(network.positions), TARGET, 1.0)
    assert float(expected.min()) == pytest.approx(first, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_the_path_is_that_of_an_integrator(seed: int) -> None:
    network = regular(2, seed)
    hit = float(sf.hitting_times(network, TARGET).min())
    trajectory = sf.two_timescale_limit(network, TARGET, until=2 * hit)
    order = np.argsort(network.positions)
    for share in (0.2, 0.77):
        solution = solve_ivp(
            lambda _, y: velocity(y, TARGET),
            (0, share * hit),
            network.positions[order],
            method="DOP853",
            rtol=1e-12,
            atol=1e-14,
        )
        then = trajectory(share * hit)
        assert isinstance(then, StepNetwork)
        np.testing.assert_allclose(then.positions[order], solution.y[:, -1], atol=1e-9)
        plateaus = np.cumsum(np.concatenate([[float(then.offset)], then.outer[order]]))
        np.testing.assert_allclose(plateaus, means(then.positions[order], TARGET), atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_without_the_assumption_events_come_at_the_integrators_times(seed: int) -> None:
    """Few neurons: several jumps per interval, neurons between two jumps, edges."""
    rng = np.random.default_rng(100 + seed)
    u = np.sort(rng.uniform(0.05, 0.95, 5))
    network = StepNetwork(u, np.zeros(5))
    trajectory = sf.two_timescale_limit(network, TARGET, until=5.0)
    assert trajectory.statistics["integrated"] > 0  # type: ignore[operator]
    assert trajectory.events[0].time == pytest.approx(first_event(u, TARGET, 5.0), abs=1e-10)
    assert np.all(np.diff(trajectory.losses) <= 1e-12)


def test_the_general_flow_follows_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """With closed forms switched off everything is integrated, and ends the same."""
    network = regular(2, 7)
    closed = sf.two_timescale_limit(network, TARGET, until=0.5)
    monkeypatch.setattr("shallowflow.dynamics.heaviside.closed_form", lambda *_: None)
    general = sf.two_timescale_limit(network, TARGET, until=0.5)
    assert general.statistics["closed forms"] == 0
    assert [(e.kind, e.neuron, e.point) for e in general.events] == [
        (e.kind, e.neuron, e.point) for e in closed.events
    ]
    np.testing.assert_allclose([e.time for e in general.events], [e.time for e in closed.events], atol=1e-10)
    first, second = closed.final, general.final
    assert isinstance(first, StepNetwork)
    assert isinstance(second, StepNetwork)
    np.testing.assert_allclose(second.positions, first.positions, atol=1e-10)


def test_neurons_at_equal_distances_meet_at_the_jump() -> None:
    target = sf.PiecewiseConstant([0.5], [0.0, 2.0])
    trajectory = sf.two_timescale_limit(StepNetwork([0.375, 0.625], [0.0, 0.0]), target, until=1.0)
    assert sorted((e.kind, e.neuron) for e in trajectory.events) == [("hit", 0), ("hit", 1)]
    assert trajectory.events[0].time == pytest.approx(8 * 0.125 / 4)
    assert trajectory.losses[-1] == 0


def test_a_neuron_passes_a_jump_that_does_not_hold_it() -> None:
    """A tall jump far to the right drags the only neuron through a small one."""
    target = sf.PiecewiseConstant([0.5, 0.9], [0.0, 0.1, 5.0])
    trajectory = sf.two_timescale_limit(StepNetwork([0.3], [0.0]), target, until=5.0)
    assert [(e.kind, e.point) for e in trajectory.events] == [("pass", 0), ("hit", 1)]
    final = trajectory.final
    assert isinstance(final, StepNetwork)
    assert final.positions[0] == 0.9


def test_a_held_neuron_is_let_go_when_its_neighbour_has_arrived() -> None:
    """Both neurons sit on jumps; none of them is pulled off unless the jump beside asks for it."""
    target = sf.PiecewiseConstant([0.2, 0.6], [0.0, 0.05, 4.0])
    trajectory = sf.two_timescale_limit(StepNetwork([0.2], [0.0]), target, until=5.0)
    final = trajectory.final
    assert isinstance(final, StepNetwork)
    assert final.positions[0] == 0.6
    assert [e.kind for e in trajectory.events] == ["hit"]


@pytest.mark.parametrize(
    ("breaks", "covered", "remaining"),
    [
        ([0.3, 0.6], [], 0.3),  # equal lengths: c_0 = 0, nothing pulls
        ([0.35, 0.6], [0, 1], 0.0),  # first piece longer: neurons come and cover both jumps
        ([0.25, 0.6], [1], 2 * 0.25 * 0.35 / 0.6),  # second piece longer: one neuron stops at its right end
    ],
)
def test_the_counterexample_hangs_on_the_lengths(
    breaks: list[float], covered: list[int], remaining: float
) -> None:
    """[two_timescale] App. D.1: values 1, −1, 0 and all neurons on the last piece."""
    u = np.linspace(0.65, 0.95, 6)
    target = sf.PiecewiseConstant(breaks, [1.0, -1.0, 0.0])
    trajectory = sf.two_timescale_limit(StepNetwork(u, np.zeros(6)), target, until=3000.0)
    assert sorted({e.point for e in trajectory.events if e.kind == "hit"}) == covered
    assert trajectory.losses[-1] == pytest.approx(remaining, abs=1e-12)


@pytest.mark.parametrize("stiff", [False, True])
def test_with_sharpness_the_limit_is_that_of_small_epsilon(stiff: bool) -> None:
    network = regular(2, 3, sharpness=0.01)
    limit = sf.two_timescale_limit(network, TARGET, until=0.02, stiff=stiff)
    distances = []
    for epsilon in (1e-4, 2.5e-5):
        flow = sf.population_flow(network, TARGET, until=0.02 / epsilon, epsilon=epsilon)
        a, b = limit.final, flow.final
        assert isinstance(a, StepNetwork)
        assert isinstance(b, StepNetwork)
        distances.append(float(np.abs(a.positions - b.positions).max()))
    assert distances[1] < 0.35 * distances[0]
    assert distances[1] < 5e-3


def test_with_sharpness_the_envelope_theorem_holds() -> None:
    """du/dτ is minus the gradient of u ↦ L(a*(u), u): the loss falls at the rate ‖∇‖²."""
    network = regular(2, 1, sharpness=0.01)
    trajectory = sf.two_timescale_limit(network, TARGET, until=1e-3)
    start, dt = trajectory.initial, 1e-5
    assert isinstance(start, StepNetwork)
    gradient = sf.landscape.population_gradient(start, TARGET)
    losses = [sf.landscape.population_loss(trajectory(t), TARGET) for t in (0.0, dt, 2 * dt)]
    rate = (-3 * losses[0] + 4 * losses[1] - losses[2]) / (2 * dt)
    assert rate == pytest.approx(-float(gradient["positions"] @ gradient["positions"]), rel=1e-4)
    np.testing.assert_allclose(gradient["outer"], 0.0, atol=1e-12)


def test_the_run_says_when_it_leaves_the_domain() -> None:
    inside = sf.two_timescale_limit(
        StepNetwork([0.3, 0.7], [0.0, 0.0], 0.0, 0.01), sf.PiecewiseConstant([0.5], [0.0, 1.0]), until=0.1
    )
    assert inside.statistics["left 𝒰 at"] == np.inf
    outside = sf.two_timescale_limit(
        StepNetwork([0.3, 0.31], [0.0, 0.0], 0.0, 0.01), sf.PiecewiseConstant([0.5], [0.0, 1.0]), until=0.1
    )
    assert outside.statistics["left 𝒰 at"] == 0.0


def test_positions_outside_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match=r"positions must lie in \[0, 1\]"):
        sf.two_timescale_limit(StepNetwork([1.5], [0.0]), TARGET, until=1.0)


@pytest.mark.parametrize(("position", "place"), [(0.2, 0.5), (0.05, 0.9), (0.9, 0.3), (0.6, 0.5)])
def test_a_neuron_on_one_side_only_hits_when_the_limit_says_so(position: float, place: float) -> None:
    network, target = StepNetwork([position], [0.0]), sf.PiecewiseConstant([place], [0.0, 1.0])
    (time,) = sf.hitting_times(network, target)
    hits = [e.time for e in sf.two_timescale_limit(network, target, until=2 * time).events if e.kind == "hit"]
    assert hits == pytest.approx([time], rel=1e-9)
    # The paper's motion against the edge at distance b: 2d(3b² + 3bd + d²)/(3s²b²), here 1.032.
    if position == 0.2:
        assert time == pytest.approx(1.032)
