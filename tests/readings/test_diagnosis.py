"""`diagnose`: sentences whose numbers are recomputed from the raw parameters, cures on constructed states,
JSON."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.errors import InvalidInputError
from shallowflow.experiments import Figure

G = sf.data.GENERATORS
THREE = G["three_points"]()


@pytest.fixture(scope="module")
def three() -> sf.Trajectory:
    start = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    return sf.gradient_flow(start, THREE, until=200.0, engine="cones")


def test_a_stuck_network(three: sf.Trajectory) -> None:
    found = sf.diagnose(three.final, THREE)  # type: ignore[arg-type]
    assert found.cure == "grow"
    text = found.text()
    assert "62 of 200 neurons are awake and act as 1 on these data; 128 are dead; 10 are dormant." in text
    assert "no training can get below 0.08752" in text
    assert "at the floor of its pattern" in text


def test_a_start(three: sf.Trajectory) -> None:
    found = sf.diagnose(three.initial, THREE)  # type: ignore[arg-type]
    assert found.cure == "wait"
    assert found.exit is not None
    assert found.exit.frozen
    reached = float(three.times[np.argmax(three.losses <= 0.95 * three.losses[0])])
    assert found.exit.time == pytest.approx(reached, rel=0.03)


def test_a_dead_network_and_a_fit() -> None:
    dead = sf.ReLUNetwork([[-1.0, -5.0]] * 3, [1.0] * 3)
    assert sf.diagnose(dead, THREE).cure == "restart"
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    fit = sf.diagnose(sf.ReLUNetwork([[1.0, 1.0]], [1.0]), data)
    assert fit.cure == "none"
    assert fit.fitted
    assert "the data are fitted" in fit.text()


def test_an_unsolved_outer_layer_and_the_step() -> None:
    x = np.linspace(-1, 1, 60)
    data = sf.Dataset(x[:, None], np.sin(3 * x)).with_bias()
    rng = np.random.default_rng(0)
    network = sf.ReLUNetwork(rng.standard_normal((30, 2)), 0.1 * rng.standard_normal(30))
    found = sf.diagnose(network, data, step=0.1)
    assert found.cure == "outer"
    largest = float(np.linalg.eigvalsh(network.tangent_kernel(data.inputs) / 60)[-1])
    assert f"step × λ_max = {0.1 * largest:.3g}" in found.text()
    assert found.expects is not None
    assert found.floors is not None
    assert found.expects == found.floors.feature


def test_speed_divides_times(three: sf.Trajectory) -> None:
    once, thrice = (sf.diagnose(three(9.0), THREE, speed=speed) for speed in (1.0, 3.0))  # type: ignore[arg-type]
    assert once.exit is not None
    assert thrice.exit is not None
    assert thrice.exit.time == pytest.approx(once.exit.time / 3)
    assert once.forecast is not None
    assert thrice.forecast is not None
    assert thrice.forecast.reach == pytest.approx(once.forecast.reach / 3)


def test_the_logistic_loss_has_a_census_and_a_clock_and_no_floors() -> None:
    data = sf.Dataset(THREE.inputs, [1.0, -1.0, 1.0])
    start = sf.initialize.balanced(20, 2, init_scale=1e-3, seed=0)
    found = sf.diagnose(start, data, loss=sf.LogisticLoss())
    assert found.floors is None
    assert found.anatomy is None
    assert found.exit is not None
    assert "with the logistic loss a fit has no lowest point" in found.text()
    with pytest.raises(InvalidInputError, match=r"must be SquareLoss\(\) or LogisticLoss\(\)"):
        sf.diagnose(start, data, loss=sf.NormLoss())


def test_json_has_a_schema_and_figures_are_figures(three: sf.Trajectory) -> None:
    found = sf.diagnose(three(9.0), THREE)  # type: ignore[arg-type]
    content = json.loads(found.to_json())
    assert content["schema"] == "shallowflow/diagnosis/1"
    assert content["census"]["awake"] == 44
    assert sum(content["anatomy"].values()) == pytest.approx(1.0)
    assert isinstance(found.figure(), Figure)
    assert str(found) == found.text() == content["text"]


def random_state(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """A network after a short training: small or large start, with or without noise, d from 1 to 5."""
    rng = np.random.default_rng(seed)
    d, n, m = int(rng.integers(1, 6)), int(rng.integers(3, 30)), int(rng.integers(1, 15))
    data = sf.Dataset(rng.standard_normal((n, d)), rng.standard_normal(n))
    start = sf.initialize.balanced(m, d, init_scale=10.0 ** rng.uniform(-3, 0.3), seed=seed)
    run = sf.gradient_descent(start, data, step=0.02, steps=int(10 ** rng.uniform(0, 3)), engine="dense")
    assert isinstance(run.final, sf.ReLUNetwork)
    return run.final, data


def brute_floor(network: sf.ReLUNetwork, data: sf.Dataset, which: list[int]) -> tuple[float, bool]:
    columns = [(data.inputs @ network.inner[j] > 0)[:, None] * data.inputs for j in which]
    matrix = np.hstack(columns) if columns else np.zeros((data.size, 1))
    best = np.linalg.lstsq(matrix, data.targets, rcond=1e-10)[0]
    size = float(np.linalg.norm(matrix, 2))
    rank = int(np.linalg.matrix_rank(matrix, tol=1e-9 * max(size, 1e-300)))
    return 0.5 * float(np.mean((matrix @ best - data.targets) ** 2)), rank == data.size


def contradictions(network: sf.ReLUNetwork, data: sf.Dataset) -> list[str]:
    """Return what the sentences say that the raw parameters do not."""
    found = sf.diagnose(network, data, effort=200)
    text, wrong = found.text(), []
    z = network.inner @ data.inputs.T
    residual = np.maximum(z, 0).T @ network.outer - data.targets
    value = 0.5 * float(np.mean(residual**2))
    alive = [j for j in range(network.width) if np.any(z[j] > 0)]
    sizes = {j: abs(network.outer[j]) * np.sqrt(np.mean(np.maximum(z[j], 0) ** 2)) for j in alive}
    order = sorted(alive, key=lambda j: sizes[j])
    summed = np.cumsum([sizes[j] for j in order])
    dormant = [j for j, total in zip(order, summed, strict=True) if total <= 0.01 * np.sqrt(2 * value)]
    awake = [j for j in alive if j not in dormant]
    acting = len({(tuple(z[j] > 0), network.outer[j] > 0) for j in awake})
    said = {
        rf"^Loss {value:.4g} ": True,
        rf"\b{len(awake)} of {network.width} neurons? (is|are) awake": True,
        rf"act(s)? as {acting} on": acting < len(awake),
        rf"\b{network.width - len(alive)} (is|are) dead": len(alive) < network.width,
        rf"\b{len(dormant)} (is|are) dormant": bool(dormant),
    }
    (every, can), (own, own_can) = (
        brute_floor(network, data, w) for w in (list(range(network.width)), awake)
    )
    said["No floor: the pattern can interpolate|there is no floor"] = can
    said[rf"below {re.escape(f'{every:.4g}')}"] = not can
    if not own_can and not can and dormant and own > 1.002 * every:
        said[rf"awake neurons cannot get below {re.escape(f'{own:.4g}')}"] = True
    gates = (z > 0).astype(float)
    kernel = np.maximum(z, 0).T @ np.maximum(z, 0)
    kernel += (gates.T @ (network.outer[:, None] ** 2 * gates)) * (data.inputs @ data.inputs.T)
    largest = float(np.linalg.eigvalsh(kernel / data.size)[-1])
    said[rf"λ_max = {re.escape(f'{largest:.4g}')}"] = True
    for pattern, expected in said.items():
        if bool(re.search(pattern, text, re.MULTILINE)) != expected:
            wrong.append(f"{pattern!r} expected {expected} in:\n{text}")
    return wrong


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_no_sentence_contradicts_the_parameters(start: int) -> None:
    for seed in range(start, start + 20):
        assert contradictions(*random_state(seed)) == []
