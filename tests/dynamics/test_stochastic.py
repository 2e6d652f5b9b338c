"""Stochastic descent: engines, borders, and the flow that it follows for small steps."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Seed
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.problem import SampledTask, Sampling
from shallowflow.dynamics.engines.steps import HatSteps, PlainSteps, PlateauSteps
from shallowflow.models.networks import KnotNetwork, StepNetwork

TARGET = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])
START = sf.initialize.uniform_positions(6, sharpness=0.05, seed=1)


def test_small_steps_follow_the_population_flow() -> None:
    flow = sf.population_flow(START, TARGET, until=3.0, epsilon=0.1)
    run = sf.stochastic_descent(START, TARGET, step=1e-6, steps=3_000_000, epsilon=0.1, noise=0.5, seed=3)
    assert run.times[-1] == pytest.approx(3.0)
    assert run.losses[-1] == pytest.approx(flow.losses[-1], rel=0.01)
    first, second = flow.final, run.final
    assert isinstance(first, StepNetwork)
    assert isinstance(second, StepNetwork)
    np.testing.assert_allclose(second.positions, first.positions, atol=3e-3)


def test_recorded_losses_are_exact_and_without_the_noise() -> None:
    run = sf.stochastic_descent(START, TARGET, step=1e-3, steps=1000, noise=1.0)
    for time, value in zip(run.times, run.losses, strict=True):
        assert value == sf.landscape.population_loss(run(float(time)), TARGET)


def test_the_seed_decides() -> None:
    def final(seed: Seed) -> float:
        run = sf.stochastic_descent(START, TARGET, step=1e-3, steps=500, seed=seed)
        return float(run.losses[-1])

    assert final(1) == final(np.random.SeedSequence(1))
    assert final(1) != final(2)
    assert final(None) != final(None)


@pytest.mark.parametrize("engine", ["plain", "dense"])
def test_a_generator_is_copied_so_that_the_run_can_be_made_again(engine: str) -> None:
    def final(seed: Seed) -> float:
        run = sf.stochastic_descent(START, TARGET, step=1e-3, steps=50, seed=seed, engine=engine)
        return float(run.losses[-1])

    rng = np.random.default_rng(7)
    first = final(rng)
    assert final(rng) == first
    assert rng.random() == np.random.default_rng(7).random()
    assert final(rng) != first


def test_many_neurons_take_the_hats_and_batches_the_plain_loop() -> None:
    """In long runs; in short ones it matters what is compiled already."""
    few, wide = (sf.initialize.uniform_positions(m, sharpness=1e-3, seed=0) for m in (20, 200))
    overlapping = sf.initialize.uniform_positions(5, sharpness=0.2, seed=0)
    taken = list[object]()
    for network, batch in ((few, 1), (wide, 1), (overlapping, 1), (few, 5)):
        sampling = Sampling(1e-4, 1e-4, 0.0, batch, np.random.SeedSequence(0))
        task = SampledTask(network, TARGET, None, sampling, 10**10)
        taken.append(chosen_engine("stochastic_descent", "auto", task).func)
    assert taken == [PlateauSteps, HatSteps, PlainSteps, PlainSteps]


def test_two_dimensions_and_knots_are_trained_with_a_slow_inner_layer() -> None:
    steps = sf.PiecewiseConstant([0.4], [0.0, 1.0])
    cuboids = sf.initialize.uniform_cuboids(5, 2, sharpness=0.1, seed=0)
    run = sf.stochastic_descent(
        cuboids, sf.Additive([steps, steps]), step=0.02, steps=300, epsilon=1e-9, batch=200
    )
    assert run.losses[-1] < 0.2 * run.losses[0]
    np.testing.assert_allclose(run.final.parameters["positions"], cuboids.positions, atol=1e-6)
    line = sf.PiecewiseAffine([0.0, 0.5, 1.0], [0.0, 0.0, 1.0])
    knots = sf.initialize.uniform_knots(5, seed=0)
    descent = sf.stochastic_descent(knots, line, step=0.3, steps=200, batch=100, epsilon=0.1, noise=0.1)
    assert descent.statistics["engine"] == "dense"
    assert descent.losses[-1] < 0.05 * descent.losses[0]
    assert isinstance(descent.final, KnotNetwork)


def test_the_dense_engine_agrees_with_the_compiled_one_on_average() -> None:
    """Other random numbers, same gradients: batches large enough that both follow the flow."""
    options = {"step": 1e-2, "steps": 200, "epsilon": 0.1, "batch": 2000}
    compiled = sf.stochastic_descent(START, TARGET, engine="plain", **options)  # type: ignore[arg-type]
    dense = sf.stochastic_descent(START, TARGET, engine="dense", **options)  # type: ignore[arg-type]
    assert dense.losses[-1] == pytest.approx(compiled.losses[-1], rel=0.02)


def test_too_large_a_step_is_said_to_diverge() -> None:
    run = sf.stochastic_descent(START, TARGET, step=5.0, steps=2000)
    assert run.outcome.status == "diverged"
    assert "smaller step" in run.outcome.advice


def test_what_does_not_fit_is_refused() -> None:
    line = sf.PiecewiseAffine([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match="network, target"):
        sf.stochastic_descent(START, line, step=0.1, steps=10)
    with pytest.raises(sf.InvalidInputError, match=r"'hats' needs .*batch 1, got .*batch 3"):
        sf.stochastic_descent(START, TARGET, step=0.1, steps=10, batch=3, engine="hats")
    with pytest.raises(sf.InvalidInputError, match="needs a StepNetwork"):
        sf.stochastic_descent(sf.initialize.uniform_knots(3), line, step=0.1, steps=10, engine="plateaus")
    with pytest.raises(sf.InvalidInputError, match="box_slope"):
        sf.stochastic_descent(START, TARGET, step=0.1, steps=10, engine="dense", box_slope=True)
    with pytest.raises(sf.InvalidInputError, match="sharpness must be > 0"):
        sf.stochastic_descent(sf.StepNetwork([0.5], [0.0]), TARGET, step=0.1, steps=10)
    with pytest.raises(sf.InvalidInputError, match="loss: must be"):
        sf.stochastic_descent(START, TARGET, step=0.1, steps=10, engine="dense", loss=sf.LogisticLoss())


@pytest.mark.parametrize("jump", [-0.2, 0.0, 1.0, 1.5])
def test_jumps_outside_the_interval_are_refused(jump: float) -> None:
    target = sf.PiecewiseConstant(sorted([jump, 0.5]), [0.0, 1.0, 2.0])
    line = sf.initialize.uniform_positions(3, sharpness=0.1, seed=0)
    plane = sf.initialize.uniform_cuboids(3, 2, sharpness=0.1, seed=0)
    message = r"target: must have its jumps inside \(0, 1\)"
    for engine in ("auto", "plain", "dense"):
        with pytest.raises(sf.InvalidInputError, match=message):
            sf.stochastic_descent(line, target, step=0.1, steps=1, engine=engine)
    with pytest.raises(sf.InvalidInputError, match=message):
        sf.stochastic_descent(plane, sf.Additive([target, target]), step=0.1, steps=1)
