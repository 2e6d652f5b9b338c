"""The plain compiled loop beside a NumPy loop; the fast kernels beside the plain one."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.problem import Sampling
from shallowflow.dynamics.engines.steps import PlainSteps
from shallowflow.models.networks import StepNetwork
from tests.dynamics.ticks import steps_made
from tests.kernels.steps.step_sgd_runs import ENGINES, python_twin, sampling, task, trained

LONG = 100_000


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_plain_loop_is_formula_9(noise: float, box: bool) -> None:
    network = sf.initialize.uniform_positions(7, sharpness=0.2, outer=np.linspace(-1, 1, 7), seed=2)
    # At ten times this step the map itself is chaotic: a start moved by 1e-15 ends 1e-3 away.
    chosen = sampling(0.3, step=1e-3, noise=noise, box=box)
    found = trained("plain", network, chosen, 2000)
    u, a, offset = python_twin(network, chosen, 2000)
    np.testing.assert_allclose(found.positions, u, atol=1e-12)
    np.testing.assert_allclose(found.outer, a, atol=1e-12)
    assert float(found.offset) == pytest.approx(offset, abs=1e-12)


@pytest.mark.parametrize("epsilon", [2e-5, 0.1])
@pytest.mark.parametrize("width", [20, 200])
@pytest.mark.parametrize("name", ["plateaus", "hats"])
def test_fast_kernels_make_the_plain_steps(name: str, width: int, epsilon: float) -> None:
    """On the paper's target, noise and η = 4·10⁻³; with 200 neurons the windows overlap."""
    network = sf.initialize.uniform_positions(width, sharpness=4e-3, seed=1)
    chosen = sampling(epsilon)
    plain, fast = trained("plain", network, chosen, LONG), trained(name, network, chosen, LONG)
    np.testing.assert_allclose(fast.positions, plain.positions, atol=1e-12)
    np.testing.assert_allclose(fast.outer, plain.outer, atol=1e-12)
    assert float(fast.offset) == pytest.approx(float(plain.offset), abs=1e-12)
    assert np.abs(plain.positions - network.positions).max() > (1e-7 if epsilon < 1e-4 else 1e-3)


def test_hats_make_the_plain_steps_over_several_blocks() -> None:
    network = sf.initialize.uniform_positions(2500, sharpness=2e-4, seed=1)
    chosen = sampling(0.1)
    plain, fast = trained("plain", network, chosen, 20_000), trained("hats", network, chosen, 20_000)
    np.testing.assert_allclose(fast.positions, plain.positions, atol=1e-12)
    np.testing.assert_allclose(fast.outer, plain.outer, atol=1e-12)
    assert np.abs(plain.outer).max() > 1e-3


@pytest.mark.parametrize("name", ["plateaus", "hats"])
def test_neurons_that_pass_each_other_keep_their_names(name: str) -> None:
    """At ε = 1 and a large step neurons jump over several neighbours; the map is chaotic, so few steps."""
    rng = np.random.default_rng(4)
    network = StepNetwork(rng.uniform(-0.1, 1.1, 30), rng.normal(size=30), 0.2, 0.02)
    chosen = sampling(1.0, step=1e-3)
    plain, fast = trained("plain", network, chosen, 60), trained(name, network, chosen, 60)
    before = np.argsort(np.argsort(network.positions))
    assert np.sum(np.argsort(np.argsort(plain.positions)) != before) > 10
    np.testing.assert_allclose(fast.positions, plain.positions, atol=1e-11)
    np.testing.assert_allclose(fast.outer, plain.outer, atol=1e-11)


@pytest.mark.parametrize("name", ENGINES)
def test_a_run_that_blows_up_says_after_how_many_steps(name: str) -> None:
    network = sf.initialize.uniform_positions(20, sharpness=4e-3, seed=1)
    engine = ENGINES[name](task(network, sampling(1e-5, step=0.5)))
    done = steps_made(engine, 10_000)
    assert 0 < done < 10_000
    plain = PlainSteps(task(network, sampling(1e-5, step=0.5)))
    assert abs(done - steps_made(plain, 10_000)) <= 1


def test_a_batch_averages_its_samples() -> None:
    """One step of batch 500 moves by the mean of 500 steps from the same place, on the same stream."""
    network = sf.initialize.uniform_positions(6, sharpness=0.2, outer=np.ones(6), seed=3)
    seed = np.random.SeedSequence(1)
    engine = PlainSteps(task(network, Sampling(1e-3, 1e-4, 1.0, 500, seed)))
    steps_made(engine, 1)
    moved = engine.network()
    # Steps so small that 500 of them see the same network: their sum is the gradient of the batch.
    tiny = trained("plain", network, Sampling(1e-9, 1e-10, 1.0, 1, seed), 500)
    for name in ("positions", "outer"):
        step = getattr(tiny, name) - getattr(network, name)
        np.testing.assert_allclose(
            getattr(moved, name) - getattr(network, name), 1e6 / 500 * step, rtol=1e-4, atol=1e-12
        )
