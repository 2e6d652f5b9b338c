"""Plain gradient flow against closed forms, small-step descent, and its own invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.choice import names_of
from shallowflow.models import Loss

seeds = st.integers(0, 10_000)
ordinary = settings(deadline=None, derandomize=True, max_examples=15)


def random_problem(seed: int, slope: float = 0.0) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    rng = np.random.default_rng(seed)
    size, dimension, width = rng.integers(2, 6), rng.integers(1, 4), rng.integers(1, 7)
    dataset = sf.Dataset(rng.standard_normal((size, dimension)), rng.standard_normal(size))
    inner = 0.5 * rng.standard_normal((width, dimension))
    return sf.ReLUNetwork(inner, 0.5 * rng.standard_normal(width), slope=slope), dataset


def balance(network: sf.ReLUNetwork) -> Floats:
    return np.asarray(network.outer**2 - (network.inner**2).sum(axis=1))


@ordinary
@given(seeds, st.sampled_from([0.0, 0.3]))
def test_balance_is_conserved_and_the_loss_does_not_rise(seed: int, slope: float) -> None:
    """Lemma 1 of [early_alignment], through crossings and sliding."""
    network, dataset = random_problem(seed, slope)
    trajectory = sf.gradient_flow(network, dataset, until=5.0, tolerance=1e-9)
    assert trajectory.outcome.ok, trajectory.outcome
    final = trajectory.final
    assert isinstance(final, sf.ReLUNetwork)
    np.testing.assert_allclose(balance(final), balance(network), atol=1e-7)
    assert np.all(np.diff(trajectory.losses) <= 1e-9)


@ordinary
@given(seeds)
def test_rotations_and_permutations_commute_with_the_flow(seed: int) -> None:
    network, dataset = random_problem(seed)
    rng = np.random.default_rng(seed + 1)
    rotation, _ = np.linalg.qr(rng.standard_normal((dataset.dimension, dataset.dimension)))
    points, neurons = rng.permutation(dataset.size), rng.permutation(network.width)
    turned = sf.ReLUNetwork(network.inner[neurons] @ rotation, network.outer[neurons])
    moved = sf.Dataset(dataset.inputs[points] @ rotation, dataset.targets[points])
    one = sf.gradient_flow(network, dataset, until=1.0, tolerance=1e-10).final
    two = sf.gradient_flow(turned, moved, until=1.0, tolerance=1e-10).final
    np.testing.assert_allclose(one(dataset.inputs[points]), two(moved.inputs), atol=1e-7)


def test_one_neuron_on_one_point_follows_the_closed_form() -> None:
    """Balanced neuron, one unit input: p = a·w obeys p' = 2p(y − p), the logistic curve."""
    start, target = 0.01, 2.0
    root = np.sqrt(start)
    trajectory = sf.gradient_flow(
        sf.ReLUNetwork([[root]], [root]), sf.Dataset([[1.0]], [target]), until=4.0, tolerance=1e-11
    )
    for t in np.linspace(0.0, 4.0, 23):
        network = trajectory(t)
        expected = target / (1.0 + (target / start - 1.0) * np.exp(-2 * target * t))
        assert network([[1.0]])[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("loss", [sf.SquareLoss("sum"), sf.LogisticLoss()])
def test_agrees_with_scipy_where_no_gate_changes(loss: Loss) -> None:
    """Positive inputs and positive inner weights stay positive over a short time."""
    rng = np.random.default_rng(2)
    inputs, targets = rng.uniform(0.5, 1.5, (4, 2)), np.array([1.0, -1.0, 1.0, 1.0])
    network = sf.ReLUNetwork(rng.uniform(0.5, 1.0, (3, 2)), rng.standard_normal(3), scale=0.5)

    def velocity(_: float, theta: Floats) -> Floats:
        inner, outer = theta[:6].reshape(3, 2), theta[6:]
        z = inputs @ inner.T
        slopes = loss.slopes(0.5 * z @ outer, targets)
        return -2.0 * 0.5 * np.concatenate([0.1 * np.outer(outer, slopes @ inputs).ravel(), slopes @ z])

    theta = np.concatenate([network.inner.ravel(), network.outer])
    reference = solve_ivp(velocity, (0, 0.5), theta, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    trajectory = sf.gradient_flow(
        network, sf.Dataset(inputs, targets), until=0.5, loss=loss, speed=2.0, epsilon=0.1, tolerance=1e-11
    )
    final = trajectory.final
    assert isinstance(final, sf.ReLUNetwork)
    assert trajectory.events == ()
    np.testing.assert_allclose(np.concatenate([final.inner.ravel(), final.outer]), reference, atol=1e-9)


@pytest.mark.parametrize("kind", ["relu", "knots"])
def test_descent_converges_to_the_flow_at_first_order(kind: str) -> None:
    """Through crossings and sliding, whose phase makes the error uneven: order 1 over a factor of 16."""
    network: sf.ReLUNetwork | sf.KnotNetwork
    if kind == "relu":
        dataset = sf.data.GENERATORS["three_points"]()
        network = sf.initialize.balanced(12, 2, init_scale=0.3, seed=1)
    else:
        dataset = sf.data.GENERATORS["curve"]("sin_pi", 15)
        network = sf.initialize.he_knots(6, seed=4)
    flow = sf.gradient_flow(network, dataset, until=4.0, tolerance=1e-10)
    assert flow.statistics["events"]
    exact = flow.final(dataset.inputs)
    errors = []
    for steps in (1_000, 16_000):
        final = sf.gradient_descent(network, dataset, step=4.0 / steps, steps=steps).final
        errors.append(np.abs(final(dataset.inputs) - exact).max())
    assert errors[0] < 1e-2
    order = np.log(errors[0] / errors[1]) / np.log(16)
    assert order == pytest.approx(1.0, abs=0.15)


def sliding_problem() -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """One neuron with a = 1, pulled towards point 1 and pushed off point 0 when it is active there.

    Inputs e₁ and e₂, targets −1 and +1 (½ mean). With w = (u, v), u > 0 the first coordinate falls until
    u = 0. There the gate of point 0 is off and u stays; a and v go on as a balanced pair.
    """
    return sf.ReLUNetwork([[0.1, 0.5]], [1.0]), sf.Dataset(np.eye(2), [-1.0, 1.0])


@pytest.mark.parametrize(("engine", "kind"), [("walls", "off"), ("cones", "slide")])
def test_a_pushed_neuron_leaves_the_point_for_ever(engine: str, kind: str) -> None:
    """It stays at u = 0, where it arrived: beyond it, or on it."""
    network, dataset = sliding_problem()
    trajectory = sf.gradient_flow(network, dataset, until=20.0, engine=engine)
    assert [event.kind for event in trajectory.events] == [kind]
    final = trajectory.final
    assert isinstance(final, sf.ReLUNetwork)
    assert final.inner[0, 0] == pytest.approx(0.0, abs=1e-10)
    assert trajectory.losses[-1] == pytest.approx(0.25, abs=1e-6)


def test_a_neuron_between_two_forces_slides_on_the_minimal_norm_element() -> None:
    """Points x₀ = (1, 0) with y₀ < 0 and x₁ = (1, 1) with y₁ > 0, outer weight positive.

    At w = (0, v): off at point 0, ẇ₁ > 0 pushes it on; on at point 0, the strong y₀ pushes it off.
    So it slides: w₁ stays 0 while v and a grow, until h(x₁) = a·v fits y₁ = 1.
    """
    network = sf.ReLUNetwork([[0.2, 0.3]], [0.5])
    dataset = sf.Dataset([[1.0, 0.0], [1.0, 1.0]], [-5.0, 1.0])
    trajectory = sf.gradient_flow(network, dataset, until=100.0, tolerance=1e-10)
    assert trajectory.outcome.ok
    assert "slide" in {event.kind for event in trajectory.events}
    start = next(event.time for event in trajectory.events if event.kind == "slide")
    for t in np.linspace(start, 100.0, 7):
        sliding = trajectory(t)
        assert isinstance(sliding, sf.ReLUNetwork)
        assert sliding.inner[0, 0] == pytest.approx(0.0, abs=1e-8)
    assert trajectory.final([[1.0, 1.0]])[0] == pytest.approx(1.0, abs=1e-6)
    assert trajectory.final([[1.0, 0.0]])[0] == pytest.approx(0.0, abs=1e-9)


def test_descent_chatters_where_the_flow_slides() -> None:
    network = sf.ReLUNetwork([[0.2, 0.3]], [0.5])
    dataset = sf.Dataset([[1.0, 0.0], [1.0, 1.0]], [-5.0, 1.0])
    flow = sf.gradient_flow(network, dataset, until=3.0).final
    errors = []
    for steps in (3_000, 30_000):
        final = sf.gradient_descent(network, dataset, step=3.0 / steps, steps=steps).final
        errors.append(np.abs(final(dataset.inputs) - flow(dataset.inputs)).max())
    assert errors[1] < 0.2 * errors[0]
    assert errors[0] < 1e-2


def test_a_knot_that_passes_the_last_point_dies() -> None:
    network = sf.KnotNetwork([0.9], [1.0])
    trajectory = sf.gradient_flow(network, sf.Dataset([[0.0], [1.0]], [0.0, -3.0]), until=50.0)
    assert [event.kind for event in trajectory.events] == ["death"]
    assert trajectory.final([1.0])[0] == pytest.approx(0.0, abs=1e-9)


def test_the_path_is_a_solution_everywhere() -> None:
    """dθ/dt of the interpolated path equals −∇L at times between the steps."""
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(8, 2, init_scale=0.3, seed=2)
    trajectory = sf.gradient_flow(network, dataset, until=6.0, tolerance=1e-10)
    h = 1e-5
    for t in np.random.default_rng(0).uniform(h, 6 - h, 40):
        here, after, before = trajectory(t), trajectory(t + h), trajectory(t - h)
        assert isinstance(here, sf.ReLUNetwork)
        slopes = sf.SquareLoss().slopes(here(dataset.inputs), dataset.targets)
        gradient = here.pullback(dataset.inputs, slopes)["outer"]
        speed = (after.outer - before.outer) / (2 * h)
        np.testing.assert_allclose(speed, -gradient, atol=1e-6)


def test_records_choose_what_is_kept() -> None:
    network, dataset = random_problem(3)
    dense = sf.gradient_flow(network, dataset, until=2.0)
    chosen = sf.gradient_flow(network, dataset, until=2.0, record=sf.Record.at([0.5, 1.5]))
    assert list(chosen.times) == [0.0, 0.5, 1.5, 2.0]
    np.testing.assert_allclose(chosen(1.5).outer, dense(1.5).outer, rtol=1e-12)
    bare = sf.gradient_flow(network, dataset, until=2.0, record=sf.Record.geometric(10, networks=False))
    assert len(bare.losses) == 11
    with pytest.raises(sf.InvalidInputError, match="networks were recorded at 2 times only"):
        bare(0.7)
    tiny = sf.gradient_flow(network, dataset, until=2.0, record=sf.Record.every(1, max_bytes=10))
    assert tiny.outcome.status == "memory"
    assert "max_bytes" in tiny.outcome.advice


def sine_runs(seed: int, divisors: tuple[int, ...]) -> tuple[float, list[float]]:
    """Loss of the flow on sin 5πx where 10⁷ descent steps at rate 10⁻³ arrive, and of descent at 10⁻³/d."""
    dataset = sf.data.GENERATORS["curve"]("sin_5pi", 500)
    network = sf.initialize.he_knots(100, seed=seed)
    step, steps = 2e-3, 10_000_000  # a rate on the mean squared error is twice the step on ½·mean
    flow = sf.gradient_flow(network, dataset, until=step * steps)
    descents = (
        sf.gradient_descent(network, dataset, step=step / divisor, steps=steps * divisor)
        for divisor in divisors
    )
    return float(flow.losses[-1]), [float(descent.losses[-1]) for descent in descents]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ten_million_steps_on_the_sine_arrive_where_the_flow_does(seed: int) -> None:
    flow, (descent,) = sine_runs(seed, (1,))
    assert descent == pytest.approx(flow, rel=0.01)


@pytest.mark.slow
def test_descent_on_another_branch_comes_over_to_the_flow_as_the_step_shrinks() -> None:
    """Seed 3: at rate 10⁻³ one crossing among some 1,900 falls out the other way, and the losses differ."""
    flow, descents = sine_runs(3, (1, 2, 4))
    distances = [abs(descent / flow - 1) for descent in descents]
    assert 0.02 < distances[0] < 0.06
    assert distances[1] < 0.01
    assert distances[2] < 1e-4


@pytest.mark.parametrize("seed", range(12))
def test_two_engines_agree_on_knots(seed: int) -> None:
    """Independent engines: explicit steps with minimal-norm gates, implicit steps with verdicts.

    Both hold a knot until the pull exceeds their errors, so releases agree less closely than crossings.
    """
    dataset = sf.data.GENERATORS["curve"]("sin_pi", 15)
    network = sf.initialize.he_knots(6, seed=seed)
    dense = sf.gradient_flow(network, dataset, until=20.0, tolerance=1e-10, engine="dense")
    stages = sf.gradient_flow(network, dataset, until=20.0, tolerance=1e-10, engine="stages")
    one = [(event.kind, event.neuron, event.point) for event in dense.events]
    two = [(event.kind, event.neuron, event.point) for event in stages.events]
    assert one == two
    times = [[event.time for event in run.events] for run in (dense, stages)]
    np.testing.assert_allclose(times[0], times[1], rtol=1e-4)
    for t in (3.0, 11.7, 20.0):
        np.testing.assert_allclose(dense(t)(dataset.inputs), stages(t)(dataset.inputs), atol=1e-6)


def test_many_coinciding_hyperplanes_do_not_stop_the_flow() -> None:
    """In one dimension all hyperplanes are the origin: a neuron meets them all at once."""
    rng = np.random.default_rng(35)
    dataset = sf.Dataset(rng.standard_normal((6, 1)), 2 * rng.standard_normal(6))
    network = sf.ReLUNetwork(0.5 * rng.standard_normal((20, 1)), 0.5 * rng.standard_normal(20), slope=0.2)
    trajectory = sf.gradient_flow(network, dataset, until=30.0)
    assert trajectory.outcome.ok, trajectory.outcome
    assert np.all(np.diff(trajectory.losses) <= 1e-8)


def test_bad_input_is_named() -> None:
    network, dataset = random_problem(0)
    with pytest.raises(sf.InvalidInputError, match="until: must be > 0, got -1"):
        sf.gradient_flow(network, dataset, until=-1.0)
    with pytest.raises(sf.InvalidInputError, match="sharpness must be > 0"):
        sf.gradient_flow(sf.StepNetwork([0.5], [1.0]), sf.Dataset([[0.5]], [1.0]), until=1.0)


def test_cones_refuse_a_loss_that_they_do_not_know() -> None:
    data = sf.data.GENERATORS["three_points"]()
    with pytest.raises(sf.InvalidInputError, match=r"'cones' needs .* the square or logistic loss.*NormLoss"):
        sf.gradient_flow(
            sf.initialize.balanced(4, 2, init_scale=0.1), data, until=0.1, loss=sf.NormLoss(), engine="cones"
        )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("width", [5, 1500])
def test_data_beyond_all_squares_end_in_an_outcome(width: int) -> None:
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(1e200 * rng.standard_normal((6, 2)), 1e200 * rng.standard_normal(6))
    trajectory = sf.gradient_flow(sf.initialize.balanced(width, 2, init_scale=0.1), dataset, until=1.0)
    assert trajectory.outcome.status == "diverged"
    assert trajectory.outcome.advice == "rescale the data."
    assert trajectory.final == trajectory.initial
    assert trajectory.times.tolist() == [0.0]


@pytest.mark.parametrize("dimension", [2, 3])
def test_fewer_points_than_dimensions_are_no_obstacle(dimension: int) -> None:
    """One neuron, one unit input: what is orthogonal to it does not move."""
    point, across = np.eye(dimension)[:1], np.eye(dimension)[1]
    network = sf.ReLUNetwork([0.6 * point[0] + 0.3 * across], [0.5])
    final = sf.gradient_flow(network, sf.Dataset(point, [1.0]), until=50.0).final
    assert isinstance(final, sf.ReLUNetwork)
    assert final(point)[0] == pytest.approx(1.0, abs=1e-7)
    assert final.inner[0, 1] == pytest.approx(0.3, abs=1e-12)


STARTS = {
    "pushed": [0.0, 1.0, -1.0, 2.0],
    "held": [0.0, -2.0, 1.0, 1.0],
    "repelled": [0.0, 2.0, 0.0, 0.0],
}
"""Targets at −½, 0, ½, 1 for a neuron ½ σ(x): both sides push its kink at 0 the same way, to 0, off 0."""
FLOWS = {"walls": "two-valued", "cones": "", "stages": "two-valued", "dense": "two-valued"}
"""Engines of the flow with hyperplanes, and what they say of a start on one that repels."""


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("engine", FLOWS)
def test_every_engine_starts_on_a_hyperplane_by_one_rule(engine: str, start: str) -> None:
    dataset = sf.Dataset(np.array([[-0.5], [0.0], [0.5], [1.0]]), STARTS[start])
    network: sf.KnotNetwork | sf.ReLUNetwork = sf.KnotNetwork([0.0], [0.5])
    if engine in ("walls", "cones"):
        network, dataset = sf.ReLUNetwork([[1.0, 0.0]], [0.5]), dataset.with_bias()
    run = sf.gradient_flow(network, dataset, until=0.5, engine=engine)
    descent = sf.gradient_descent(network, dataset, step=1e-4, steps=5000)
    assert run.losses[-1] == pytest.approx(descent.losses[-1], abs=1e-4)
    end = run.final
    assert isinstance(end, sf.KnotNetwork | sf.ReLUNetwork)
    kink = end.knots[0] if isinstance(end, sf.KnotNetwork) else -end.inner[0, 1] / end.inner[0, 0]
    found = [(round(event.time, 12), event.kind, event.point) for event in run.events]
    if start == "held":
        assert kink == 0.0
        assert found == [(0.0, "slide", 1)]
    elif start == "repelled":
        assert kink > 0.03
        assert found == ([(0.0, FLOWS[engine], 1)] if FLOWS[engine] else [])
    else:
        assert kink < 0


def test_every_engine_of_the_flow_is_asked_how_it_starts() -> None:
    """Leaps keep zeros, as [incremental] has it (σ'(0) = 0); networks of steps have no hyperplanes."""
    assert set(names_of("gradient_flow")) == {"auto", *FLOWS, "leaps", "smooth"}
    network = sf.ReLUNetwork([[0.5, 0.0], [0.0, 0.0]], [0.6, 0.1])
    dataset = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    zeros = sf.gradient_flow(network, dataset, until=3.0, engine="leaps").final
    leaving = sf.gradient_flow(network, dataset, until=3.0, engine="walls")
    assert isinstance(zeros, sf.ReLUNetwork)
    assert not zeros.inner[[0, 1, 1], [1, 0, 1]].any()
    final = leaving.final
    assert isinstance(final, sf.ReLUNetwork)
    assert (final.inner[[0, 1, 1], [1, 0, 1]] > 0).all()
    assert {event.kind for event in leaving.events if event.time == 0} == {"two-valued"}
