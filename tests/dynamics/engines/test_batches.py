"""Mini-batch descent: beside plain descent, a plain loop, and what sampling theory says of its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.protocol import flatten
from tests.rounding import assert_rounded

DATA = sf.data.GENERATORS["sphere"](12, 4, seed=1)
SIGNS = sf.Dataset(DATA.inputs, np.sign(DATA.targets))
NET = sf.initialize.balanced(9, 4, init_scale=0.5, seed=2)
LINE = sf.data.GENERATORS["curve"]("sin_pi", 10)
UNIT = sf.Dataset(0.5 * (LINE.inputs + 1), LINE.targets)
CASES: list[tuple[Any, sf.Dataset, Any, str]] = [
    (NET, DATA, sf.SquareLoss(), "dense"),
    (NET, DATA, sf.SquareLoss("sum"), "dense"),
    (NET, DATA, sf.SquareLoss(), "lanes"),
    (NET, DATA, sf.SquareLoss("sum"), "lanes"),
    (sf.ReLUNetwork(NET.inner, NET.outer, slope=0.1, scale=0.5), SIGNS, sf.LogisticLoss(), "lanes"),
    (NET, SIGNS, sf.LogisticLoss(), "dense"),
    (sf.initialize.he_knots(6), LINE, sf.SquareLoss(), "dense"),
    (sf.initialize.uniform_positions(5, sharpness=0.2), UNIT, sf.NormLoss(), "dense"),
    (sf.initialize.uniform_cuboids(4, 4, sharpness=0.3), DATA, sf.SquareLoss(), "dense"),
    (sf.LogScaledNetwork(NET.inner, NET.outer, np.full(9, -0.1)), DATA, sf.SquareLoss(), "dense"),
]


@pytest.mark.parametrize(("network", "data", "loss", "engine"), CASES)
def test_a_batch_of_all_samples_is_descent_to_the_last_bit(
    network: Any, data: sf.Dataset, loss: Any, engine: str
) -> None:
    options: Any = {"step": 0.01, "steps": 60, "epsilon": 0.5, "loss": loss, "engine": engine}
    plain = sf.gradient_descent(network, data, **options)
    run = sf.stochastic_descent(network, data, batch=data.size, seed=3, **options)
    np.testing.assert_array_equal(flatten(run.final), flatten(plain.final))
    np.testing.assert_array_equal(run.losses, plain.losses)
    assert run.statistics["epochs"] == 60


def by_hand(order: np.ndarray, shifts: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Descent of NET on rows of samples, step 0.02, written out."""
    inner, outer = NET.inner.copy(), NET.outer.copy()
    for row, shift, factor in zip(order, shifts, factors, strict=True):
        x, y = DATA.inputs[row], DATA.targets[row] + shift
        z = x @ inner.T
        residual = (np.maximum(z, 0) @ outer - y) / len(row)
        pull = (z > 0) * residual[:, None]
        step = 0.02 * factor
        inner, outer = inner - step * outer[:, None] * (pull.T @ x), outer - step * np.sum(pull * z, axis=0)
    return np.concatenate([inner.ravel(), outer])


@pytest.mark.parametrize("engine", ["dense", "lanes"])
@pytest.mark.parametrize("replacement", [True, False])
def test_the_steps_are_those_of_a_plain_loop(engine: str, replacement: bool) -> None:
    """On the same samples, with noise and a schedule, cut into pieces by the record."""
    from shallowflow.dynamics.clock.problem import BatchTask
    from shallowflow.dynamics.engines.sweeps import Batches

    steps, seed = 600, np.random.SeedSequence(5)
    factors = 1.0 / (1.0 + np.arange(steps) / 100)
    task = BatchTask(NET, DATA, sf.SquareLoss(), batch=5, replacement=replacement, noise=0.3, seed=seed)
    order, shifts = Batches(task).take(steps)
    run = sf.stochastic_descent(
        NET,
        DATA,
        step=0.02,
        steps=steps,
        batch=5,
        replacement=replacement,
        noise=0.3,
        schedule=lambda k: 1.0 / (1.0 + k / 100),
        seed=np.random.SeedSequence(5),
        engine=engine,
        record=sf.Record.every(7),
    )
    assert_rounded(flatten(run.final), by_hand(order, shifts, factors), 100 * steps)


def test_an_epoch_has_every_sample_once_and_replacement_repeats_some() -> None:
    from shallowflow.dynamics.clock.problem import BatchTask
    from shallowflow.dynamics.engines.sweeps import Batches

    task = BatchTask(NET, DATA, sf.SquareLoss(), batch=4, seed=np.random.SeedSequence(1))
    order, _ = Batches(task).take(9)
    for epoch in order.reshape(3, 12):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(12))
    assert not np.array_equal(order[:3], order[3:6])
    again = BatchTask(NET, DATA, sf.SquareLoss(), batch=12, replacement=True, seed=np.random.SeedSequence(1))
    drawn, _ = Batches(again).take(100)
    assert all(len(np.unique(row)) < 12 for row in drawn)


@pytest.mark.parametrize("loss", [sf.SquareLoss(), sf.SquareLoss("sum")])
@pytest.mark.parametrize(("batch", "replacement"), [(1, True), (5, True), (5, False)])
def test_one_step_is_unbiased_and_as_noisy_as_sampling_theory_says(
    loss: sf.SquareLoss, batch: int, replacement: bool
) -> None:
    """Mean over 4,000 seeds within 5 standard errors; variance Σ/b, times (n − b)/(n − 1) if none repeats.

    A variance of 4,000 draws is known to 5·√(κ/4000), κ the kurtosis: 15 % is 5 of these for κ = 3.6.
    """
    draws, n = 4000, DATA.size
    options: Any = {"step": 1.0, "steps": 1, "loss": loss, "engine": "dense"}
    record = sf.Record.every(1)
    whole = flatten(sf.gradient_descent(NET, DATA, **options).final) - flatten(NET)
    moves = np.array(
        [
            flatten(
                sf.stochastic_descent(
                    NET, DATA, batch=batch, replacement=replacement, seed=i, record=record, **options
                ).final
            )
            - flatten(NET)
            for i in range(draws)
        ]
    )
    factor = 1.0 if loss.reduction == "mean" else float(n)
    single = np.array([-factor * gradient_of(k) for k in range(n)])
    np.testing.assert_allclose(single.mean(axis=0), whole, atol=1e-12)
    expected = single.var(axis=0) / batch * (1.0 if replacement else (n - batch) / (n - 1))
    moving = expected > 1e-12 * expected.max()
    errors = np.abs(moves.mean(axis=0) - whole)[moving] / np.sqrt(expected[moving] / draws)
    assert errors.max() < 5.0
    assert moves.var(axis=0).sum() == pytest.approx(expected.sum(), rel=0.15)


def gradient_of(k: int) -> np.ndarray:
    """∇½(h(x_k) − y_k)² at NET."""
    residual = NET.predict(DATA.inputs[k : k + 1]) - DATA.targets[k]
    parts = NET.pullback(DATA.inputs[k : k + 1], residual)
    return np.concatenate([parts["inner"].ravel(), parts["outer"]])


def test_label_noise_adds_its_own_variance() -> None:
    """At an interpolator only the noise moves: Var = (noise²/3)/b · mean of squared features, full batch."""
    inputs = np.eye(4)
    network = sf.ReLUNetwork(np.eye(4), np.ones(4))
    data = sf.Dataset(inputs, np.ones(4))
    moves = np.array(
        [
            sf.stochastic_descent(
                network, data, step=1.0, steps=1, batch=4, noise=0.6, seed=i, record=sf.Record.every(1)
            ).final.outer
            - 1.0
            for i in range(3000)
        ]
    )
    # a_j moves by shift_j/4, shift uniform in ±0.6.
    assert np.abs(moves).max() <= 0.15
    assert np.abs(moves.mean(axis=0)).max() < 5 * 0.15 / np.sqrt(3 * 3000)
    np.testing.assert_allclose(moves.var(axis=0), 0.15**2 / 3, rtol=0.1)


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    options: Any = {"step": 0.02, "steps": 50, "batch": 3}
    first, second, other = (sf.stochastic_descent(NET, DATA, seed=s, **options) for s in (4, 4, 5))
    assert first.final == second.final
    assert first.final != other.final


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 13}, r"^batch: must be <= 12, got 13$"),
        ({"schedule": [1.0, 2.0]}, r"^schedule: must be 5 factors >= 0, one per step"),
        ({"schedule": lambda k: -1.0}, r"^schedule: must be 5 factors >= 0"),
        ({"box_slope": True}, r"^box_slope: is for samples of a target"),
        ({"engine": "hats"}, r"^engine: must be one of auto, dense, lanes; got 'hats'"),
        ({"noise": -1.0}, r"^noise: must be >= 0"),
    ],
)
def test_borders(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.InvalidInputError, match=message):
        sf.stochastic_descent(NET, DATA, step=0.1, steps=5, **options)


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="noise: must be 0 for the logistic loss"):
        sf.stochastic_descent(NET, SIGNS, step=0.1, steps=5, loss=sf.LogisticLoss(), noise=0.1)
    target, steps = sf.PiecewiseConstant([0.5], [0.0, 1.0]), sf.initialize.uniform_positions(4, sharpness=0.1)
    with pytest.raises(sf.InvalidInputError, match="replacement, schedule: are for a Dataset"):
        sf.stochastic_descent(steps, target, step=0.1, steps=5, replacement=True)
    with pytest.raises(sf.InvalidInputError, match="'lanes' needs a ReLUNetwork"):
        sf.stochastic_descent(sf.initialize.he_knots(3), LINE, step=0.1, steps=5, engine="lanes")


def test_a_step_too_large_ends_with_an_outcome() -> None:
    for engine in ("dense", "lanes"):
        run = sf.stochastic_descent(NET, DATA, step=100.0, steps=500, batch=3, engine=engine)
        assert not run.outcome.ok
        assert np.isfinite(flatten(run.final)).all()
