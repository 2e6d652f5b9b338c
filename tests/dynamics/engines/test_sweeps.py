"""The engines for wide sweeps: the iterates of the dense engine, single precision, choice, early stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.dynamics import descent
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.errors import InvalidInputError
from tests.rounding import assert_rounded


def rotation(dimension: int, seed: int) -> Floats:
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((dimension, dimension)))
    return np.asarray(basis)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 60),
    dimension=st.integers(1, 12),
    width=st.integers(1, 19),
    slope=st.sampled_from([0.0, 0.2]),
    epsilon=st.sampled_from([1.0, 0.25]),
    reduction=st.sampled_from(["mean", "sum"]),
)
def test_the_iterates_are_those_of_the_dense_engine(
    seed: int, size: int, dimension: int, width: int, slope: float, epsilon: float, reduction: str
) -> None:
    """Step by step along a run, on random problems with a repeated input, a zero input and a dead neuron.

    Each engine adds up in its own order. What they round differently may grow over many steps: where a neuron
    chatters, or the step is too large.
    """
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((size, dimension)) / np.sqrt(dimension)
    inputs[-1] = inputs[0]
    if size > 3:
        inputs[1] = 0.0
    dataset = sf.Dataset(inputs, rng.standard_normal(size))
    start = sf.initialize.asymmetric(width, dimension, slope=slope, seed=seed)
    inner = np.array(start.inner)
    inner[0] = 0.0
    network = sf.ReLUNetwork(inner, start.outer, slope=slope, scale=start.scale)
    options: dict[str, Any] = {"step": 0.1, "epsilon": epsilon, "loss": sf.SquareLoss(reduction)}
    for steps in (1, 1, 20, 1, 60, 1):
        following = sf.gradient_descent(network, dataset, engine="dense", steps=steps, **options)
        assume(following.outcome.status != "diverged")
        if steps == 1:
            for engine in ("fused", "lanes"):
                trajectory = sf.gradient_descent(network, dataset, engine=engine, steps=1, **options)
                assert_same_step(trajectory, following, dataset)
        assert isinstance(following.final, sf.ReLUNetwork)
        network = following.final


@pytest.mark.parametrize("engine", ["fused", "lanes"])
def test_many_steps_are_those_of_the_dense_engine(engine: str) -> None:
    """While the loss falls at every step, rounding does not grow."""
    dataset, network = sphere(30, 12, seed=0), sf.initialize.asymmetric(16, 12, seed=1)
    options: dict[str, Any] = {"step": 8.0, "steps": 100, "record": sf.Record.every(1)}
    reference = sf.gradient_descent(network, dataset, engine="dense", **options)
    trajectory = sf.gradient_descent(network, dataset, engine=engine, **options)
    assert np.all(np.diff(reference.losses) < 0)
    operations = 100 * (30 + 12 + 16)
    assert_rounded(trajectory.losses, reference.losses, operations)
    for time in reference.times:
        assert_rounded(flatten(trajectory(time)), flatten(reference(time)), operations)


def assert_same_step(found: sf.Trajectory, expected: sf.Trajectory, dataset: sf.Dataset) -> None:
    """Assert equality but for rounding, relative to the step's largest numbers."""
    old, new = expected.initial, expected.final
    operations = dataset.size + dataset.dimension + old.width
    theta = max(float(np.max(np.abs(flatten(one)))) for one in (old, new))
    assert_rounded(flatten(found.final), flatten(new), 4 * operations, size=theta)
    # A residual is a difference: its rounding is that of the label and the prediction.
    largest = max(np.max(np.abs(one.predict(dataset.inputs) - dataset.targets)) for one in (old, new))
    size = float(np.sqrt(dataset.size) * (largest + 2 * np.max(np.abs(dataset.targets))))
    assert_rounded(np.sqrt(found.losses), np.sqrt(expected.losses), 4 * operations, size=size)


@pytest.mark.parametrize("dimension", [30, 41])
def test_decoupled_descent_is_dense_descent_on_a_rotated_orthogonal_family(dimension: int) -> None:
    """Over a whole training, from the start to a loss near rounding."""
    axes = orthogonal(30, dimension, seed=4)
    turn = rotation(dimension, seed=5)
    dataset = sf.Dataset(axes.inputs @ turn, axes.targets)
    network = sf.initialize.asymmetric(26, dimension, seed=6)
    options: dict[str, Any] = {"step": 26.0, "steps": 2000, "record": sf.Record.every(100)}
    dense = sf.gradient_descent(network, dataset, engine="dense", **options)
    decoupled = sf.gradient_descent(network, dataset, engine="decoupled", **options)
    assert dense.losses[-1] < 1e-12 * dense.losses[0]
    for time in dense.times:
        np.testing.assert_allclose(flatten(decoupled(time)), flatten(dense(time)), rtol=0, atol=1e-10)


def test_single_precision_gives_the_same_verdicts() -> None:
    """Some of these networks fit their data within the steps, some do not."""
    verdicts = []
    for seed in range(10):
        dataset = sphere(30 + 15 * (seed % 4), 10, seed=seed)
        network = sf.initialize.asymmetric(30, 10, seed=seed)
        losses = [
            sf.gradient_descent(
                network, dataset, step=30.0, steps=300, engine="fused", precision=precision
            ).losses[-1]
            for precision in ("double", "single")
        ]
        converged = [loss < 0.5 / dataset.size for loss in losses]
        assert converged[0] == converged[1]
        assert losses[0] != losses[1]
        verdicts.append(converged[0])
    assert len(set(verdicts)) == 2


def test_auto_takes_the_engine_that_fits_the_data() -> None:
    steps: dict[str, Any] = {"step": 1.0, "steps": 3000, "record": sf.Record.geometric(3, networks=False)}
    network = sf.initialize.asymmetric(20, 40)
    expected = {"decoupled": orthogonal(35, 40), "fused": sphere(41, 40)}
    for name, dataset in expected.items():
        assert sf.gradient_descent(network, dataset, **steps).statistics["engine"] == name
    single = sf.gradient_descent(network, expected["fused"], step=1.0, steps=5, precision="single")
    assert single.statistics["engine"] in ("fused", "lanes")
    assert single.statistics["precision"] == "single"


def test_what_does_not_fit_is_refused() -> None:
    network, dataset = sf.initialize.asymmetric(4, 3), sphere(5, 3)
    with pytest.raises(InvalidInputError, match="orthogonal inputs"):
        sf.gradient_descent(network, dataset, step=0.1, steps=5, engine="decoupled")
    with pytest.raises(InvalidInputError, match="'single' needs one of the engines"):
        sf.gradient_descent(network, dataset, step=0.1, steps=5, engine="dense", precision="single")
    with pytest.raises(InvalidInputError, match="precision"):
        sf.gradient_descent(network, dataset, step=0.1, steps=5, precision="half")


@pytest.mark.parametrize("engine", ["dense", "fused", "lanes", "decoupled"])
def test_descent_stops_at_the_first_recorded_loss_below_the_level(engine: str) -> None:
    dataset, network = orthogonal(10, 12, seed=1), sf.initialize.asymmetric(20, 12, seed=1)
    options: dict[str, Any] = {
        "step": 20.0,
        "steps": 400,
        "record": sf.Record.every(7, networks=False),
        "engine": engine,
    }
    whole = sf.gradient_descent(network, dataset, **options)
    stopped = sf.gradient_descent(network, dataset, stop_below=1e-3, **options)
    last = int(np.argmax(whole.losses < 1e-3))
    assert stopped.outcome.status == "converged"
    np.testing.assert_allclose(stopped.losses, whole.losses[: last + 1])
    predicted = stopped.final(dataset.inputs)
    assert sf.SquareLoss().value(predicted, dataset.targets) == pytest.approx(stopped.losses[-1])
    at_once = sf.gradient_descent(network, dataset, stop_below=1e9, **options)
    assert len(at_once.losses) == 1


@pytest.mark.parametrize("engine", ["fused", "lanes", "decoupled"])
def test_a_step_too_large_ends_in_an_outcome(engine: str) -> None:
    dataset, network = orthogonal(10, 12), sf.initialize.asymmetric(20, 12, slope=0.1)
    with np.errstate(all="ignore"):
        trajectory = sf.gradient_descent(network, dataset, step=1e7, steps=500, engine=engine)
    assert trajectory.outcome.status == "diverged"
    assert np.isfinite(trajectory.losses).all()


def test_stability_of_a_larger_problem_is_the_largest_eigenvalue() -> None:
    """The Lanczos value beside the full decomposition."""
    dataset, network = sphere(150, 20), sf.initialize.asymmetric(10, 20)
    found = descent.stability(Task(network, dataset, sf.SquareLoss(), 2.0, steps=10_000))
    kernel = network.tangent_kernel(dataset.inputs)
    assert found == pytest.approx(2.0 * np.linalg.eigvalsh(kernel)[-1] / 150, rel=1e-5)
    for steps, known in ((10, False), (10_000, True)):
        task = Task(network, dataset, sf.SquareLoss(), 2.0, steps=steps)
        assert (descent.stability(task) is not None) == known
