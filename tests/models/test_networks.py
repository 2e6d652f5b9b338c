"""Networks: values by plain loops, gradients by finite differences, value semantics, borders."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import (
    NETWORKS,
    AdditiveStepNetwork,
    CubicStep,
    KnotNetwork,
    LeakyReLU,
    Network,
    ReLUNetwork,
    StepNetwork,
)
from tests.rounding import assert_rounded

LOSSES: list[Loss] = [SquareLoss("mean"), SquareLoss("sum"), LogisticLoss()]
WIDTHS, SIZES, DIMENSIONS = st.integers(1, 5), st.integers(1, 6), st.integers(1, 4)
SEEDS = st.integers(0, 2**32 - 1)

Builder = Callable[[np.random.Generator, int, int], Network]


def relu(rng: np.random.Generator, width: int, dimension: int) -> Network:
    return ReLUNetwork(rng.standard_normal((width, dimension)), rng.standard_normal(width))


def leaky(rng: np.random.Generator, width: int, dimension: int) -> Network:
    inner, outer = rng.standard_normal((width, dimension)), rng.standard_normal(width)
    return ReLUNetwork(inner, outer, slope=0.3, scale=1 / width)


def knot(rng: np.random.Generator, width: int, dimension: int) -> Network:
    return KnotNetwork(rng.standard_normal(width), rng.standard_normal(width))


def step(rng: np.random.Generator, width: int, dimension: int) -> Network:
    return StepNetwork(rng.standard_normal(width), rng.standard_normal(width), rng.standard_normal(), 1.5)


BUILDERS: list[Builder] = [relu, leaky, knot, step]
every_network = pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)


def example(build: Builder, seed: int = 0, width: int = 3, dimension: int = 2) -> Network:
    return build(np.random.default_rng(seed), width, dimension)


def by_hand(network: Network, x: Floats) -> float:
    """The network at one point, neuron by neuron in Python floats."""
    total = 0.0
    if isinstance(network, ReLUNetwork):
        for w, a in zip(network.inner, network.outer, strict=True):
            z = math.fsum(u * v for u, v in zip(w, x, strict=True))
            total += network.scale * a * (z if z > 0 else network.slope * z)
    elif isinstance(network, KnotNetwork):
        for b, c in zip(network.knots, network.outer, strict=True):
            total += c * max(x[0] - b, 0.0)
    elif isinstance(network, StepNetwork):
        total = float(network.offset)
        for u, a in zip(network.positions, network.outer, strict=True):
            z = (x[0] - u) / network.sharpness
            total += a * (min(max(4 * (z + 0.5) ** 3, 0), 0.5) + min(max(0.5 - 4 * (0.5 - z) ** 3, 0), 0.5))
    return total


@every_network
@settings(deadline=None, derandomize=True, max_examples=40)
@given(width=WIDTHS, size=SIZES, dimension=DIMENSIONS, seed=SEEDS)
def test_values_are_the_formula_neuron_by_neuron(
    build: Builder, width: int, size: int, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    network = build(rng, width, dimension)
    inputs = 2 * rng.standard_normal((size, network.dimension))
    expected = [by_hand(network, x) for x in inputs]
    np.testing.assert_allclose(network(inputs), expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(network.predict(inputs), network(inputs))
    if network.dimension == 1:
        np.testing.assert_array_equal(network(inputs[:, 0]), network(inputs))


@every_network
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(deadline=None, derandomize=True, max_examples=60)
@given(width=WIDTHS, size=SIZES, dimension=DIMENSIONS, seed=SEEDS)
def test_gradients_agree_with_central_differences(
    build: Builder, loss: Loss, width: int, size: int, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    network = build(rng, width, dimension)
    inputs = rng.standard_normal((size, network.dimension))
    targets = rng.choice([-1.0, 1.0], size)
    assume(np.abs(network.preactivations(inputs)).min() > 1e-3)

    def at(name: str, values: Floats) -> float:
        return loss.value(network.moved({name: values}).predict(inputs), targets)

    gradient = network.pullback(inputs, loss.slopes(network.predict(inputs), targets))
    assert list(gradient) == list(network.PARAMETERS)
    h = 1e-5
    for name, values in network.parameters.items():
        measured = np.empty(values.shape)
        for index in np.ndindex(values.shape):
            there, back = values.copy(), values.copy()
            there[index] += h
            back[index] -= h
            measured[index] = (at(name, there) - at(name, back)) / (2 * h)
        assert gradient[name].shape == values.shape
        np.testing.assert_allclose(gradient[name], measured, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("build", [relu, leaky, knot])
def test_pullback_takes_other_gates(build: Builder) -> None:
    rng = np.random.default_rng(4)
    network = build(rng, 3, 2)
    assert isinstance(network, ReLUNetwork | KnotNetwork)
    inputs, covector = rng.standard_normal((4, network.dimension)), rng.standard_normal(4)
    gates = rng.uniform(size=(3, 4))
    gradient = network.pullback(inputs, covector, gates)
    z = network.preactivations(inputs)
    size = float(
        np.abs(covector).sum() * max(np.abs(network.outer).max() * np.abs(inputs).max(), np.abs(z).max())
    )
    for j in range(3):
        weights = [covector[k] * gates[j, k] for k in range(4)]
        outer = sum(weights[k] * z[j, k] for k in range(4))
        if isinstance(network, ReLUNetwork):
            inner = sum(network.outer[j] * weights[k] * inputs[k] for k in range(4))
            assert_rounded(gradient["inner"][j], network.scale * inner, 10, size=size)
            outer = network.scale * outer
        else:
            assert_rounded(gradient["knots"][j], -network.outer[j] * sum(weights), 10, size=size)
        assert_rounded(gradient["outer"][j], outer, 10, size=size)


@every_network
@pytest.mark.parametrize("epsilon", [1.0, 0.01])
def test_the_tangent_kernel_is_that_of_the_pullbacks(build: Builder, epsilon: float) -> None:
    rng = np.random.default_rng(8)
    network = build(rng, 4, 3)
    inputs = rng.standard_normal((5, network.dimension))
    rows = []
    for unit in np.eye(5):
        gradient = network.pullback(inputs, unit)
        weight = {name: 1.0 if name in ("outer", "offset") else math.sqrt(epsilon) for name in gradient}
        rows.append(np.concatenate([weight[name] * np.ravel(part) for name, part in gradient.items()]))
    jacobian = np.array(rows)
    np.testing.assert_allclose(
        network.tangent_kernel(inputs, epsilon), jacobian @ jacobian.T, rtol=1e-12, atol=1e-13
    )


def test_relu_is_off_at_its_kink() -> None:
    covector = np.ones(1)
    gradient = ReLUNetwork([[1.0, 0.0]], [2.0]).pullback(np.array([[0.0, 1.0]]), covector)
    assert gradient["inner"].tolist() == [[0.0, 0.0]]
    assert KnotNetwork([0.5], [2.0]).pullback(np.array([[0.5]]), covector)["knots"].tolist() == [0.0]


def test_a_step_network_of_sharpness_zero_is_heaviside_and_has_no_gradient() -> None:
    network = StepNetwork([0.25, 0.5], [1.0, 2.0], offset=10.0)
    np.testing.assert_array_equal(network([0.0, 0.25, 0.4, 0.5, 1.0]), [10.0, 10.5, 11.0, 12.0, 13.0])
    with pytest.raises(InvalidInputError, match=r"^sharpness: must be > 0, got 0$"):
        network.pullback(np.array([[0.3]]), np.ones(1))


@every_network
def test_parameters_and_shapes(build: Builder) -> None:
    network = example(build, width=4, dimension=3)
    assert type(network) in NETWORKS
    assert network.width == 4
    assert network.dimension == (3 if isinstance(network, ReLUNetwork) else 1)
    assert tuple(network.parameters) == network.PARAMETERS
    assert network(np.empty((0, network.dimension))).shape == (0,)
    inputs = np.ones((5, network.dimension))
    assert network.preactivations(inputs).shape == (4, 5)


def test_activations_are_those_of_the_network() -> None:
    assert ReLUNetwork([[1.0]], [1.0], slope=0.25).activation == LeakyReLU(0.25)
    assert StepNetwork([0.0], [1.0], sharpness=0.5).activation == CubicStep(0.5)


@every_network
def test_arrays_are_read_only(build: Builder) -> None:
    network = example(build)
    for values in (*network.parameters.values(), *network.moved(network.parameters).parameters.values()):
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0.0
    with pytest.raises(AttributeError, match="cannot assign to field"):
        network.outer = np.zeros(3)  # type: ignore[misc]


def test_the_callers_arrays_are_copied() -> None:
    inner, vector, offset = np.ones((2, 3)), np.ones(2), np.array(1.0)
    networks = [
        ReLUNetwork(inner, vector),
        KnotNetwork(vector, vector),
        StepNetwork(vector, vector, offset, 0.5),
    ]
    inner[:], vector[:], offset[...] = 7.0, 7.0, 7.0
    for network in networks:
        for values in network.parameters.values():
            np.testing.assert_array_equal(values, np.ones(values.shape))


@every_network
def test_moved_changes_what_it_is_told(build: Builder) -> None:
    network = example(build)
    before = copy.deepcopy(network)
    outer = np.array([5.0, 6.0, 7.0])
    moved = network.moved({"outer": outer})
    assert network == before
    assert type(moved) is type(network)
    np.testing.assert_array_equal(moved.outer, outer)
    assert moved != network
    assert moved.moved({"outer": network.outer}) == network
    assert outer.flags.writeable


@every_network
def test_a_descent_step_by_moved_keeps_shapes(build: Builder) -> None:
    network = example(build)
    inputs = np.ones((2, network.dimension))
    gradient = network.pullback(inputs, np.ones(2))
    moved = network.moved({name: v - 0.5 * gradient[name] for name, v in network.parameters.items()})
    for name, values in moved.parameters.items():
        assert values.shape == network.parameters[name].shape
        assert not values.flags.writeable
        np.testing.assert_array_equal(values, network.parameters[name] - 0.5 * gradient[name])


@every_network
def test_equality_is_by_value(build: Builder) -> None:
    network, twin, other = example(build, 1), example(build, 1), example(build, 2)
    assert network == twin
    assert network is not twin
    assert network != other
    assert network != "network"
    with pytest.raises(TypeError, match="unhashable"):
        hash(network)


def test_equality_sees_constants_and_kinds() -> None:
    assert ReLUNetwork([[1.0]], [1.0]) != ReLUNetwork([[1.0]], [1.0], slope=0.1)
    assert ReLUNetwork([[1.0]], [1.0]) != ReLUNetwork([[1.0]], [1.0], scale=2.0)
    assert StepNetwork([1.0], [1.0], 0.0, 0.5) != StepNetwork([1.0], [1.0], 0.0, 0.6)
    assert KnotNetwork([1.0], [1.0]) != StepNetwork([1.0], [1.0])
    assert KnotNetwork([1.0], [1.0]) != KnotNetwork([1.0, 1.0], [1.0, 1.0])


@every_network
def test_copies_and_pickles_are_equal_and_read_only(build: Builder) -> None:
    network = example(build)
    for twin in (copy.copy(network), copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert twin == network
        assert all(not values.flags.writeable for values in twin.parameters.values())
    diverged = network.moved({"outer": np.full(3, np.inf)})
    assert pickle.loads(pickle.dumps(diverged)) == diverged


def test_repr_is_readable() -> None:
    assert (
        repr(KnotNetwork([0.0, 1.0], [2.0, 3.0]))
        == "KnotNetwork(knots=array([0., 1.]), outer=array([2., 3.]))"
    )
    wide = repr(StepNetwork(np.ones(2000), np.ones(2000), 0.5))
    assert wide == (
        "StepNetwork(positions=an array of shape (2000,), outer=an array of shape (2000,), "
        "offset=array(0.5), sharpness=0.0)"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReLUNetwork(np.empty((0, 2)), []), r"^inner: must not be empty, got shape \(0, 2\)$"),
        (lambda: ReLUNetwork([1.0, 2.0], [1.0, 2.0]), r"^inner: must have 2 axes, got shape \(2,\)"),
        (
            lambda: ReLUNetwork([[1.0, np.nan]], [1.0]),
            r"^inner: entries must be finite, got nan at index \(0, 1\)$",
        ),
        (lambda: ReLUNetwork([[1.0]], [1.0, 2.0]), r"^inner, outer: must have equal lengths, got 1 and 2$"),
        (lambda: ReLUNetwork([[1.0]], [1.0], slope=-0.1), r"^slope: must lie in \[0, 1\), got -0\.1$"),
        (lambda: ReLUNetwork([[1.0]], [1.0], scale=-2), r"^scale: must be > 0, got -2$"),
        (lambda: ReLUNetwork([["a"]], [1.0]), r"^inner: must be an array of numbers, got \[\['a'\]\]$"),
        (lambda: KnotNetwork([], []), r"^knots: must not be empty, got shape \(0,\)$"),
        (lambda: KnotNetwork([[1.0]], [1.0]), r"^knots: must have 1 axis, got shape \(1, 1\)$"),
        (lambda: KnotNetwork([1.0], [1.0, 2.0]), r"^knots, outer: must have equal lengths, got 1 and 2$"),
        (lambda: StepNetwork([], []), r"^positions: must not be empty, got shape \(0,\)$"),
        (lambda: StepNetwork([1.0], [1.0], [1.0]), r"^offset: must have 0 axes, got shape \(1,\)$"),
        (lambda: StepNetwork([1.0], [1.0], np.inf), r"^offset: entries must be finite, got inf$"),
        (lambda: StepNetwork([1.0], [1.0], 0.0, -1), r"^sharpness: must be >= 0, got -1$"),
        (lambda: StepNetwork([1.0], [2.0, 1.0]), r"^positions, outer: must have equal lengths, got 1 and 2$"),
    ],
)
def test_networks_refuse_with_name_rule_and_value(make: Callable[[], Network], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0, 2.0], r"^x: must have shape \(k, 2\), got \(2,\)$"),
        ([[1.0, 2.0, 3.0]], r"^x: must have shape \(k, 2\), got \(1, 3\)$"),
        ([[1.0, np.nan]], r"^x: entries must be finite, got nan at index \(0, 1\)$"),
        ([[1.0, 2.0], [3.0]], r"^x: must be an array of numbers, got "),
        ("ab", r"^x: must be an array of numbers, got 'ab'$"),
    ],
)
def test_calls_refuse_with_name_rule_and_value(x: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ReLUNetwork([[1.0, 2.0]], [1.0])(x)


def test_networks_on_the_line_refuse_wrong_shapes() -> None:
    for network in (KnotNetwork([0.0], [1.0]), StepNetwork([0.0], [1.0])):
        with pytest.raises(InvalidInputError, match=r"^x: must have shape \(k, 1\), got \(\)$"):
            network(0.5)
        with pytest.raises(InvalidInputError, match=r"^x: must have shape \(k, 1\), got \(1, 2\)$"):
            network([[0.5, 1.0]])


def test_the_additive_network_is_a_sum_of_step_networks_with_their_gradients() -> None:
    rng = np.random.default_rng(0)
    network = AdditiveStepNetwork(rng.random((4, 3)), rng.normal(size=(4, 3)), 0.7, 0.3)
    inputs, covector = rng.random((20, 3)), rng.normal(size=20)
    parts = [network.coordinate(k) for k in range(3)]
    expected = 0.7 + sum(part(inputs[:, k]) for k, part in enumerate(parts))
    np.testing.assert_allclose(network(inputs), expected, atol=1e-14)
    gradient = network.pullback(inputs, covector)
    for k, part in enumerate(parts):
        one = part.pullback(inputs[:, [k]], covector)
        np.testing.assert_allclose(gradient["positions"][:, k], one["positions"], atol=1e-14)
        np.testing.assert_allclose(gradient["outer"][:, k], one["outer"], atol=1e-14)
    np.testing.assert_allclose(gradient["offset"], covector.sum())
    jacobian = np.array(
        [
            np.concatenate([np.sqrt(0.4) * g["positions"].ravel(), g["outer"].ravel(), [g["offset"]]])
            for g in (network.pullback(inputs, row) for row in np.eye(20))
        ]
    )
    np.testing.assert_allclose(network.tangent_kernel(inputs, 0.4), jacobian @ jacobian.T, atol=1e-12)
    assert network.preactivations(inputs).shape == (12, 20)
    with pytest.raises(InvalidInputError, match="equal shapes"):
        AdditiveStepNetwork([[0.1]], [[1.0, 2.0]])
