"""Balance, and the nature of stationary points against the loss itself, probed around them."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import balance, least_squares, nature
from shallowflow.models.loss import Loss

DATA = three_points()
LINE = least_squares(DATA).coefficients


def line_network(*extra: tuple[list[float], float], slope: float = 0.0) -> sf.ReLUNetwork:
    """A network that is the least-squares line on the data, with further neurons (w, a)."""
    inner, outer = [LINE / 2.0, *(np.array(w) for w, _ in extra)], [2.0, *(a for _, a in extra)]
    return sf.ReLUNetwork(np.array(inner), outer, slope=slope)


def test_neurons_are_classified() -> None:
    network = sf.ReLUNetwork([[3.0, 4.0], [0.6, 0.8], [1.0, 0.0]], [-5.0, 2.0, 0.5])
    found = balance(network)
    np.testing.assert_allclose(found.values, [0.0, 3.0, -0.75], atol=1e-14)
    assert found.kinds == ("balanced", "dominated", "unbalanced")
    assert found.kind == "unbalanced"
    assert not found.keeps_signs


def test_the_initialisations_are_what_their_names_say() -> None:
    assert balance(sf.initialize.balanced(200, 3, seed=0)).kind == "balanced"
    assert balance(sf.initialize.dominated(200, 3, seed=0)).kind == "dominated"
    assert balance(sf.initialize.gaussian(200, 3, seed=0)).kind == "unbalanced"
    assert balance(sf.ReLUNetwork([[1.0], [1.0]], [1.0, 2.0])).kind == "mixed"


CASES: dict[str, tuple[sf.ReLUNetwork, str]] = {
    "the line alone": (line_network(), "local minimum"),
    "with a zero neuron": (line_network(([0.0, 0.0], 0.0)), "saddle"),
    "with a dead neuron": (line_network(([-1.0, -2.0], 1.0)), "local minimum"),
    "with a dead neuron of no weight": (line_network(([-1.0, -2.0], 0.0)), "local minimum"),
    "with a negative neuron at zero": (line_network(([0.0, 0.0], -1.0)), "local minimum"),
    "with a positive neuron at zero": (line_network(([0.0, 0.0], 1.0)), "saddle"),
    "with a neuron across, off": (line_network(([1.0, 0.2], 0.0)), "not stationary"),
    "on the border, negative": (line_network(([-1.0, 0.125], -1.0)), "not stationary"),
    "on the border of the dead, negative": (line_network(([-1.0, -0.75], -1.0)), "local minimum"),
    "on the border of the dead, positive": (line_network(([-1.0, -0.75], 1.0)), "saddle"),
}


def lowest_nearby(network: sf.ReLUNetwork, radius: float, loss: Loss, seed: int = 0) -> float:
    """The lowest loss among many networks around: random, one neuron at a time too."""
    rng = np.random.default_rng(seed)
    lowest = np.inf
    for trial in range(4_000):
        inner, outer = rng.standard_normal(network.inner.shape), rng.standard_normal(network.width)
        if trial % 2:
            chosen = np.arange(network.width) == rng.integers(network.width)
            inner, outer = inner * chosen[:, None], outer * chosen
        moved = network.moved(
            {"inner": network.inner + radius * inner, "outer": network.outer + radius * outer}
        )
        lowest = min(lowest, loss.value(moved(DATA.inputs), DATA.targets))
    return lowest


@pytest.mark.parametrize("name", CASES)
def test_the_nature_is_what_probing_the_loss_shows(name: str) -> None:
    network, kind = CASES[name]
    found = nature(network, DATA)
    assert found.kind == kind
    here = sf.SquareLoss().value(network(DATA.inputs), DATA.targets)
    gain = here - lowest_nearby(network, 1e-4, sf.SquareLoss())
    assert (gain > 1e-12) == (kind != "local minimum")
    assert found.zero_neurons == int(name == "with a zero neuron")


def test_the_direction_of_a_saddle_lowers_the_loss_at_its_rate() -> None:
    network, _ = CASES["with a zero neuron"]
    found = nature(network, DATA)
    size, start = 1e-3, sf.SquareLoss().value(network(DATA.inputs), DATA.targets)
    losses = []
    for sign in (1.0, -1.0):
        inner, outer = network.inner.copy(), network.outer.copy()
        inner[found.neuron] += size * found.direction
        outer[found.neuron] += size * sign
        moved = network.moved({"inner": inner, "outer": outer})
        losses.append(sf.SquareLoss().value(moved(DATA.inputs), DATA.targets))
    assert (start - min(losses)) / size**2 == pytest.approx(found.rate, rel=1e-3)


@pytest.mark.parametrize("start", ["balanced", "dominated"])
def test_training_on_the_three_points_ends_in_a_local_minimum(start: str) -> None:
    """[early_alignment] §5 has that for dominated starts, and for balanced ones unless neurons vanish."""
    network = getattr(sf.initialize, start)(40, 2, init_scale=1e-3, seed=0)
    assert nature(network, DATA).kind == "not stationary"
    final = sf.gradient_descent(network, DATA, step=0.2, steps=4_000).final
    assert isinstance(final, sf.ReLUNetwork)
    found = nature(final, DATA)
    assert found.kind == "local minimum"
    assert found.zero_neurons == 0
    vanished = final.moved(
        {name: np.append(v, np.zeros((1, *v.shape[1:])), axis=0) for name, v in final.parameters.items()}
    )
    assert nature(vanished, DATA).kind == "saddle"


def test_an_interpolating_network_is_a_minimum_for_both_losses() -> None:
    fit = sf.ReLUNetwork([[-4.4, -2.2], [1.12, 0.66], [0.0, 0.0]], [1.0, 1.0, 0.0])
    assert nature(fit, DATA).kind == "local minimum"
    labelled = Dataset([[1.0], [-1.0]], [1.0, -1.0])
    assert nature(sf.ReLUNetwork([[1.0]], [1.0]), labelled, loss=sf.LogisticLoss()).kind == "not stationary"
    # With labels of both signs at one input the loss is least at output 0; g = 0 there.
    twice = Dataset([[1.0], [1.0]], [1.0, -1.0])
    assert nature(sf.ReLUNetwork([[-1.0]], [1.0]), twice, loss=sf.LogisticLoss()).kind == "local minimum"


def test_other_networks_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be a ReLUNetwork, got KnotNetwork"):
        balance(sf.KnotNetwork([0.0], [1.0]))  # type: ignore[arg-type]
