"""The flow by walls on 500 degenerate problems, and on problems of all sizes.

A degenerate problem has repeated, opposite, collinear or zero inputs, zero neurons, data and weights on a
lattice, or neurons that start on walls or at w = 0. What a run must agree with (a finer tolerance, the flow
by cones, small steps of descent, the same problem written in another way) it agrees with, or an event
"two-valued" says that the solution is not unique. `make test` looks at the first few, the slow tests at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.models import Loss

PROBLEMS, QUICK = 500, 12
UNTIL, TIMES = 4.0, np.linspace(0.4, 4.0, 10)
LOSSES_AGREE, WEIGHTS_AGREE, DESCENT_AGREES = 1e-7, 1e-6, 3e-3
"""Of the losses times 1 + L(0); of the weights times 1 + max|θ|; of descent by 5·10⁻⁴, times 1 + L(0)."""
Problem = tuple[sf.ReLUNetwork, sf.Dataset, Loss]


def some(seeds: range) -> list[Any]:
    """Parts of the problems: the first few, and all in the slow tests."""
    rest = [pytest.param(k, marks=pytest.mark.slow, id=f"{k[0]}-{k[-1]}") for k in in_parts(seeds[QUICK:])]
    return [pytest.param(seeds[:QUICK], id="quick"), *rest]


def in_parts(seeds: range) -> list[range]:
    return [seeds[start : start + 100] for start in range(0, len(seeds), 100)]


parts = pytest.mark.parametrize("seeds", some(range(PROBLEMS)))


def degenerate_problem(seed: int) -> Problem:
    """A random problem with at least one of the degeneracies."""
    rng = np.random.default_rng([26, seed])
    d, n, m = int(rng.integers(1, 7)), int(rng.integers(1, 8)), int(rng.integers(1, 10))
    chosen = rng.random(7) < 0.4
    chosen[rng.integers(7)] = True
    repeated, opposite, collinear, origin, lattice, on_walls, zeros = chosen
    inputs, inner = rng.normal(size=(n, d)), 0.4 * rng.normal(size=(m, d))
    if lattice:
        inputs = rng.integers(-2, 3, (n, d)).astype(np.float64)
        inner = 0.25 * rng.integers(-2, 3, (m, d)).astype(np.float64)
    more = [inputs]
    more += [inputs[rng.integers(n, size=2)]] * int(repeated)
    more += [-inputs[rng.integers(n, size=1)]] * int(opposite)
    more += [rng.uniform(-2, 2) * inputs[rng.integers(n, size=1)]] * int(collinear)
    more += [np.zeros((1, d))] * int(origin)
    inputs = np.concatenate(more)
    if on_walls:
        for j in rng.integers(m, size=2):
            x = inputs[rng.integers(len(inputs))]
            inner[j] -= x * (inner[j] @ x) / max(float(x @ x), 1e-300)
    ratio = float(rng.choice([0.3, 1.0, 3.0]))
    outer = ratio * np.maximum(np.linalg.norm(inner, axis=1), 0.1) * rng.choice([-1.0, 1.0], m)
    if zeros:
        inner[0] = 0.0
        outer[0] *= float(rng.random() < 0.5)
    targets = rng.normal(size=len(inputs)) if not lattice else rng.integers(-2, 3, len(inputs)).astype(float)
    loss: Loss = sf.SquareLoss()
    if rng.random() < 0.25:
        loss, targets = sf.LogisticLoss(), np.where(targets > 0, 1.0, -1.0)
    return sf.ReLUNetwork(inner, outer, float(rng.choice([0.0, 0.2]))), sf.Dataset(inputs, targets), loss


def flow(network: sf.ReLUNetwork, dataset: sf.Dataset, **options: Any) -> sf.Trajectory:
    chosen: dict[str, Any] = {"engine": "walls", "until": UNTIL, "record": sf.Record.at(TIMES)}
    trajectory = sf.gradient_flow(network, dataset, **chosen | options)
    assert trajectory.outcome.ok, trajectory.outcome
    return trajectory


def final(trajectory: sf.Trajectory) -> sf.ReLUNetwork:
    assert isinstance(trajectory.final, sf.ReLUNetwork)
    return trajectory.final


def two_valued(trajectory: sf.Trajectory) -> bool:
    """Whether the run says that its solution is one of several; the events and the promise say it alike."""
    said = any(event.kind == "two-valued" for event in trajectory.events)
    assert said == bool(trajectory.statistics["two-valued"])
    assert said == ("one of several" in str(trajectory.statistics["accuracy"]))
    return said


def apart(one: sf.Trajectory, other: sf.Trajectory) -> float:
    """The largest difference of the losses, in units of 1 + L(0)."""
    return float(np.abs(one.losses - other.losses).max()) / (1.0 + float(one.losses[0]))


def off(one: sf.ReLUNetwork, inner: Floats, outer: Floats) -> float:
    """The largest difference of the weights, in units of 1 + max|θ|."""
    size = 1.0 + max(float(np.abs(inner).max()), float(np.abs(outer).max()))
    return float(max(np.abs(one.inner - inner).max(), np.abs(one.outer - outer).max())) / size


@parts
def test_a_hundredth_of_the_tolerance_changes_nothing(seeds: range) -> None:
    """Nor does the loss ever rise, and a² − ‖w‖² stays."""
    worst, said = 0.0, 0
    for seed in seeds:
        network, dataset, loss = degenerate_problem(seed)
        coarse, fine = (flow(network, dataset, loss=loss, tolerance=t) for t in (1e-8, 1e-10))
        if apart(coarse, fine) > LOSSES_AGREE and two_valued(coarse):
            said += 1
        else:
            worst = max(worst, apart(coarse, fine))
            assert apart(coarse, fine) <= LOSSES_AGREE, seed
        assert np.diff(coarse.losses).max() <= 1e-13 * (1.0 + coarse.losses[0]), seed
        end = final(coarse)
        kept, start = (net.outer**2 - np.sum(net.inner**2, axis=1) for net in (end, network))
        np.testing.assert_allclose(kept, start, rtol=0, atol=1e-9 * (1 + np.abs(end.outer).max() ** 2))
    assert said <= len(seeds) // 50, worst


@parts
def test_small_steps_of_descent_come_to_it(seeds: range) -> None:
    """Where descent is defined by the flow: no neuron starts on a wall, none has two ways."""
    worst, compared = 0.0, 0
    for seed in seeds:
        network, dataset, loss = degenerate_problem(seed)
        z = network.preactivations(dataset.inputs[np.any(dataset.inputs != 0, axis=1)])
        living = network.outer != 0
        run = flow(network, dataset, loss=loss)
        if np.any(np.abs(z[living]) < 1e-12) or two_valued(run):
            continue
        descent = sf.gradient_descent(network, dataset, step=5e-4, steps=8000, loss=loss)
        difference = abs(float(descent.losses[-1] - run.losses[-1])) / (1.0 + float(run.losses[0]))
        worst, compared = max(worst, difference), compared + 1
        assert difference <= DESCENT_AGREES, seed
    assert compared >= len(seeds) // 6, worst


@parts
def test_cones_agree_in_the_plane(seeds: range) -> None:
    """Or one of them says that there are two ways."""
    worst, compared, said = 0.0, 0, 0
    for seed in seeds:
        network, dataset, loss = degenerate_problem(seed)
        if network.dimension != 2 or not dataset.inputs.any():
            continue
        one, other = (flow(network, dataset, loss=loss, engine=engine) for engine in ("walls", "cones"))
        compared += 1
        if apart(one, other) > LOSSES_AGREE and (two_valued(one) or other.statistics["two-valued"]):
            said += 1
            continue
        worst = max(worst, apart(one, other))
        assert apart(one, other) <= LOSSES_AGREE, seed
    assert said <= compared // 8, worst


def rewritten(network: sf.ReLUNetwork, dataset: sf.Dataset, seed: int) -> dict[str, tuple[Any, ...]]:
    """The same problem in other words: network, data, speed, and how to read the weights of the original."""
    rng, n = np.random.default_rng(seed), dataset.size
    inner, outer, slope = network.inner, network.outer, network.slope
    inputs, targets = dataset.inputs, dataset.targets
    half, turn = np.sqrt(0.5), np.linalg.qr(rng.normal(size=(inputs.shape[1],) * 2))[0]
    split = sf.ReLUNetwork(
        np.vstack([half * inner[:1], inner[1:], half * inner[:1]]),
        np.concatenate([half * outer[:1], outer[1:], half * outer[:1]]),
        slope,
    )
    share = np.ones((len(outer), 1))
    share[0] = half
    m = len(outer)
    return {
        "an input at the origin": (
            network,
            sf.Dataset(np.vstack([inputs, 0 * inputs[:1]]), np.append(targets, 1.0)),
            (n + 1) / n,
            lambda net: (net.inner, net.outer),
        ),
        "a zero neuron": (
            sf.ReLUNetwork(np.vstack([inner, 0 * inner[:1]]), np.append(outer, 0.0), slope),
            dataset,
            1.0,
            lambda net: (net.inner[:m], net.outer[:m]),
        ),
        "every sample twice": (
            network,
            sf.Dataset(np.vstack([inputs, inputs]), np.concatenate([targets, targets])),
            1.0,
            lambda net: (net.inner, net.outer),
        ),
        "a split neuron": (
            split,
            dataset,
            1.0,
            lambda net: (net.inner[:m] / share, net.outer[:m] / share[:, 0]),
        ),
        "a rotation": (
            sf.ReLUNetwork(inner @ turn, outer, slope),
            sf.Dataset(inputs @ turn, targets),
            1.0,
            lambda net: (net.inner @ turn.T, net.outer),
        ),
    }


@parts
def test_what_must_change_nothing_changes_nothing(seeds: range) -> None:
    worst, said, count = 0.0, 0, 0
    for seed in seeds:
        network, dataset, loss = degenerate_problem(seed)
        plain = flow(network, dataset, loss=loss, tolerance=1e-9)
        for name, (other, data, speed, read) in rewritten(network, dataset, seed).items():
            run = flow(other, data, loss=loss, tolerance=1e-9, speed=speed)
            difference, count = off(final(plain), *read(final(run))), count + 1
            if difference > WEIGHTS_AGREE and two_valued(run):
                said += 1
                continue
            worst = max(worst, difference)
            assert difference <= WEIGHTS_AGREE, (seed, name)
    assert said <= count // 40, worst


def sized_problem(seed: int) -> Problem:
    """A problem with d of 1 to 60, n of 1 to 100, m of 1 to 300, both losses, slopes, special inputs."""
    rng = np.random.default_rng([60, seed])
    d, n, m = (int(np.exp(rng.uniform(0, np.log(most + 1)))) for most in (60, 100, 300))
    inputs, inner = rng.normal(size=(n, d)) * 1.5 / np.sqrt(d), rng.normal(size=(m, d)) / np.sqrt(m * d)
    special = (inputs[:1], -inputs[:1], 0.5 * inputs[-1:], 0 * inputs[:1])
    inputs = np.concatenate([inputs, *(special[k] for k in np.flatnonzero(rng.random(4) < 0.3))])
    targets = rng.normal(size=len(inputs))
    loss: Loss = sf.SquareLoss()
    if rng.random() < 0.4:
        loss, targets = sf.LogisticLoss(), np.where(targets > 0, 1.0, -1.0)
    outer = float(rng.choice([0.3, 1.0, 3.0])) * np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], m)
    return sf.ReLUNetwork(inner, outer, float(rng.choice([0.0, 0.1]))), sf.Dataset(inputs, targets), loss


def before_events(seed: int) -> float:
    """Compare with SciPy at 10⁻¹² on the stretch before the first event; return the largest difference."""
    network, dataset, loss = sized_problem(seed)
    run = flow(network, dataset, loss=loss, until=1.0, record=None)
    until = min([0.9 * event.time for event in run.events[:1]] + [1.0])
    inputs, targets, shape = dataset.inputs, dataset.targets, network.inner.shape
    gates = np.where(network.preactivations(inputs) > 0, 1.0, network.slope)

    def velocity(_: float, theta: Floats) -> Floats:
        inner, outer = theta[: -shape[0]].reshape(shape), theta[-shape[0] :]
        z = gates * (inner @ inputs.T)
        push = -gates * loss.slopes(outer @ z, targets)
        return np.concatenate(
            [(outer[:, None] * (push @ inputs)).ravel(), np.einsum("jk,jk->j", push, inner @ inputs.T)]
        )

    theta = np.concatenate([network.inner.ravel(), network.outer])
    found = solve_ivp(velocity, (0, until), theta, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    now = run(until)
    assert isinstance(now, sf.ReLUNetwork)
    return float(np.abs(np.concatenate([now.inner.ravel(), now.outer]) - found).max())


seeds_of_hypothesis = st.integers(0, 1_000_000)
few, many = (settings(deadline=None, derandomize=True, max_examples=count) for count in (5, 100))


def check_size(seed: int) -> None:
    """SciPy; half the tolerance; another order of neurons and samples; the loss; the balance."""
    assert before_events(seed) < 1e-8
    network, dataset, loss = sized_problem(seed)
    options: dict[str, Any] = {"loss": loss, "until": 1.5, "record": sf.Record.at([0.3, 0.7, 1.1, 1.5])}
    whole, half = (flow(network, dataset, tolerance=t, **options) for t in (1e-8, 5e-9))
    end = final(whole)
    balance = end.outer**2 - np.sum(end.inner**2, axis=1)
    start = network.outer**2 - np.sum(network.inner**2, axis=1)
    np.testing.assert_allclose(balance, start, rtol=0, atol=1e-9)
    assert np.diff(whole.losses).max() <= 1e-13 * (1.0 + whole.losses[0])
    if two_valued(whole):
        return
    assert apart(whole, half) < LOSSES_AGREE
    rng = np.random.default_rng(seed)
    neurons, samples = rng.permutation(network.width), rng.permutation(dataset.size)
    turn = np.linalg.qr(rng.normal(size=(network.dimension,) * 2))[0]
    other = sf.ReLUNetwork(network.inner[neurons] @ turn, network.outer[neurons], network.slope)
    data = sf.Dataset(dataset.inputs[samples] @ turn, dataset.targets[samples])
    moved = final(flow(other, data, **options))
    assert off(moved, end.inner[neurons] @ turn, end.outer[neurons]) < WEIGHTS_AGREE


@few
@given(seeds_of_hypothesis)
def test_problems_of_all_sizes(seed: int) -> None:
    check_size(seed)


@pytest.mark.slow
@many
@given(seeds_of_hypothesis)
def test_many_problems_of_all_sizes(seed: int) -> None:
    check_size(seed)
