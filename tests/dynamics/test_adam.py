"""Adam against a textbook loop with explicit sums, for every kind of network."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.baselines import adam
from shallowflow.dynamics.clock.protocol import flatten, unflatten
from shallowflow.models import Loss, Network

F1 = sf.data.GENERATORS["curve"]("sin_pi", 100)


def textbook_adam(gradient: object, theta: Floats, steps: int, step: float) -> Floats:
    """Kingma & Ba (2015), Algorithm 1, one number at a time."""
    assert callable(gradient)
    values = theta.tolist()
    first, second = [0.0] * len(values), [0.0] * len(values)
    for t in range(1, steps + 1):
        for i, g in enumerate(gradient(np.array(values)).tolist()):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g * g
            corrected = second[i] / (1 - 0.999**t)
            values[i] -= step * first[i] / (1 - 0.9**t) / (math.sqrt(corrected) + 1e-8)
    return np.array(values)


def numerical_gradient(network: Network, dataset: sf.Dataset, loss: Loss, theta: Floats) -> Floats:
    """Central differences of the loss, independent of `pullback`; smooth networks and tiny steps only."""

    def value(shifted: Floats) -> float:
        return loss.value(unflatten(network, shifted).predict(dataset.inputs), dataset.targets)

    h = 1e-6
    return np.array([(value(theta + h * e) - value(theta - h * e)) / (2 * h) for e in np.eye(len(theta))])


def knot_gradient(theta: Floats, x: Floats, y: Floats) -> Floats:
    """The gradient of ½ mean r² for f(x) = Σ c relu(x − b), sum by sum."""
    width = len(theta) // 2
    total = np.zeros_like(theta)
    for p, q in zip(x, y, strict=True):
        residual = sum(theta[width + j] * max(p - theta[j], 0.0) for j in range(width)) - q
        for j in range(width):
            if p > theta[j]:
                total[j] -= residual * theta[width + j] / len(x)
                total[width + j] += residual * (p - theta[j]) / len(x)
    return total


@pytest.mark.parametrize("engine", ["dense", "sweep"])
def test_knot_network_follows_the_textbook(engine: str) -> None:
    network = sf.initialize.he_knots(6, seed=1)
    dataset = sf.data.GENERATORS["curve"]("sin_pi", 25)
    x, y = dataset.inputs[:, 0], dataset.targets
    expected = textbook_adam(lambda theta: knot_gradient(theta, x, y), flatten(network), 150, 1e-2)
    trajectory = adam(network, dataset, step=1e-2, steps=150, engine=engine)
    np.testing.assert_allclose(flatten(trajectory.final), expected, atol=1e-12)
    assert trajectory.statistics["engine"] == engine


@pytest.mark.parametrize(
    ("network", "loss"),
    [
        (sf.initialize.gaussian(4, 2, init_scale=2.0, slope=0.1, seed=3), sf.SquareLoss()),
        (sf.initialize.gaussian(4, 2, init_scale=2.0, seed=3), sf.LogisticLoss()),
    ],
)
def test_relu_network_follows_the_textbook(network: sf.ReLUNetwork, loss: Loss) -> None:
    dataset = sf.Dataset([[0.3, 1.0], [-0.7, 1.0], [0.9, 1.0]], [1.0, -1.0, 1.0])

    def gradient(theta: Floats) -> Floats:
        return numerical_gradient(network, dataset, loss, theta)

    expected = textbook_adam(gradient, flatten(network), 20, 1e-3)
    trajectory = adam(network, dataset, step=1e-3, steps=20, loss=loss)
    np.testing.assert_allclose(flatten(trajectory.final), expected, atol=1e-6)
    assert np.abs(flatten(trajectory.final) - flatten(network)).max() > 5e-3


def test_step_network_follows_the_textbook() -> None:
    x = np.linspace(0, 1, 21)
    dataset = sf.Dataset(x[:, None], sf.PiecewiseConstant([0.5], [0.0, 1.0])(x))
    network = sf.StepNetwork([0.4, 0.7], [0.5, -0.2], 0.1, sharpness=0.5)
    loss = sf.SquareLoss("sum")

    def gradient(theta: Floats) -> Floats:
        return numerical_gradient(network, dataset, loss, theta)

    expected = textbook_adam(gradient, flatten(network), 40, 1e-3)
    final = adam(network, dataset, step=1e-3, steps=40, loss=loss).final
    np.testing.assert_allclose(flatten(final), expected, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_the_engines_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = rng.choice(rng.uniform(-1, 1, 20), 50)
    dataset = sf.Dataset(inputs[:, None], np.sin(4 * inputs))
    network = sf.initialize.he_knots(12, seed=seed)
    record = sf.Record.every(50)
    dense = adam(network, dataset, steps=300, engine="dense", record=record, loss=sf.SquareLoss("sum"))
    sweep = adam(network, dataset, steps=300, record=record, loss=sf.SquareLoss("sum"))
    np.testing.assert_allclose(sweep.path.recorded(), dense.path.recorded(), atol=1e-11)
    np.testing.assert_allclose(sweep.losses, dense.losses, rtol=1e-10)
    assert list(sweep.times) == [0, 50, 100, 150, 200, 250, 300]


def test_it_trains_faster_than_descent_on_f1() -> None:
    """[plateau] Fig. 9: with default settings, 10⁴ steps."""
    network = sf.initialize.he_knots(10, seed=0)
    trained = adam(network, F1, steps=10_000)
    descended = sf.gradient_descent(network, F1, step=1e-3, steps=10_000)
    assert trained.outcome.ok
    assert trained.losses[-1] < 0.1 * descended.losses[-1]


def test_progress_ends_at_one_and_changes_nothing() -> None:
    network = sf.initialize.he_knots(10, seed=2)
    for engine, steps in (("sweep", 5000), ("dense", 100)):
        seen: list[float] = []
        watched = adam(network, F1, steps=steps, engine=engine, progress=seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == 1.0
        assert watched.final == adam(network, F1, steps=steps, engine=engine).final


def test_without_networks_the_first_and_the_last_are_kept() -> None:
    network = sf.initialize.he_knots(10, seed=2)
    whole = adam(network, F1, steps=30, record=sf.Record.every(10))
    losses = adam(network, F1, steps=30, record=sf.Record.every(10, networks=False))
    assert np.array_equal(losses.losses, whole.losses)
    assert list(losses.path.times) == [0.0, 30.0]
    assert (losses.initial, losses.final) == (network, whole.final)


@pytest.mark.parametrize("engine", ["dense", "sweep"])
def test_trouble_is_an_outcome(engine: str) -> None:
    network = sf.initialize.he_knots(10, seed=2)
    overflow = adam(network, F1, step=1e200, steps=100, engine=engine, record=sf.Record.every(1))
    assert overflow.outcome.status == "diverged"
    assert np.isfinite(overflow.losses).all()
    assert np.isfinite(flatten(overflow.final)).all()
    rising = adam(network, F1, step=10.0, steps=1, engine=engine)
    assert rising.outcome.status == "unstable"
    assert "smaller step" in rising.outcome.advice


def test_bad_options_are_named() -> None:
    network = sf.initialize.he_knots(3)
    with pytest.raises(sf.InvalidInputError, match="step: must be > 0"):
        adam(network, F1, step=0.0, steps=1)
    with pytest.raises(sf.InvalidInputError, match=r"betas\[1\]: must lie in \[0, 1\)"):
        adam(network, F1, steps=1, betas=(0.9, 1.0))
    with pytest.raises(sf.InvalidInputError, match="betas: must be a pair"):
        adam(network, F1, steps=1, betas=(0.9,))  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="engine: must be one of auto, dense, sweep"):
        adam(network, F1, steps=1, engine="magic")
    labels = sf.Dataset(F1.inputs, np.sign(F1.inputs[:, 0]))
    with pytest.raises(sf.InvalidInputError, match="'sweep' needs a KnotNetwork and the square loss"):
        adam(network, labels, steps=1, engine="sweep", loss=sf.LogisticLoss())
