"""`diagnose`: sentences and cures on constructed states, JSON, figures."""

from __future__ import annotations

import json

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
    documented = (
        "loss baseline loss_name census floors anatomy forecast exit sharpness step cure expects text"
    )
    assert set(content) == {"schema", "step_times_sharpness", *documented.split()}
    assert content["census"]["awake"] == 44
    assert sum(content["anatomy"].values()) == pytest.approx(1.0)
    assert isinstance(found.figure(), Figure)
    assert str(found) == found.text() == content["text"]
