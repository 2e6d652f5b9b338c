"""The border: what each check of `arrays.py` lets pass, at its boundaries, and what `public` refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import (
    FrozenArrays,
    flag,
    increasing,
    mask,
    members,
    numbers,
    one_of,
    probability,
    public,
    seed_sequence,
)
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.models import Loss, Network, ReLUNetwork

RELU = ReLUNetwork([[1.0, 0.0]], [2.0])
WIDER = ReLUNetwork([[1.0, 0.0], [0.0, 1.0]], [2.0, 3.0])
PLANE, LINE = Dataset([[1.0, 0.0]], [1.0]), Dataset([[1.0]], [1.0])


@public
def seen(network: Network, dataset: Dataset, loss: Loss | None = None, step: float = 1.0) -> str:
    """Return what was given."""
    return f"{network.width} {dataset.dimension} {loss} {step:g}"


@public
def of_a_relu(network: ReLUNetwork) -> int:
    """Return the width."""
    return network.width


@public
def along(
    trajectory: sf.Trajectory[Any], dataset: Dataset | None = None, network: Network | None = None
) -> int:
    """Return the number of records."""
    return len(trajectory.times)


@public
def power(base: float) -> float:
    """Return base**300."""
    return float(np.float64(base) ** 300)


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must not be a masked array"):
        numbers(np.ma.masked_array([1.0, 2.0], [True, False]), "x", 1)


def test_equal_neighbours_do_not_increase_and_the_first_descent_is_named() -> None:
    np.testing.assert_array_equal(increasing([0.0, 1.0], "t"), [0.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"got 1\.0 before 1\.0 at index 1$"):
        increasing([0.0, 1.0, 1.0], "t")
    with pytest.raises(InvalidInputError, match=r"got 1\.0 before 0\.5 at index 1$"):
        increasing([0.0, 1.0, 0.5, 2.0], "t")


def test_checks_return_what_they_let_pass() -> None:
    assert probability(0.25, "p") == 0.25
    assert members(iter((1, 2)), "x", "integers", int) == (1, 2)
    assert one_of("a", "x", ("a", "b")) == "a"
    assert flag(np.True_, "x") is True
    assert mask(None, "x", 2) is None
    np.testing.assert_array_equal(mask([True, False], "x", 2), [True, False])
    assert seed_sequence(0).entropy == 0


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1])
def test_a_probability_lies_strictly_between_0_and_1(value: float) -> None:
    with pytest.raises(InvalidInputError, match=r"^p: must lie in \(0, 1\), got"):
        probability(value, "p")


@pytest.mark.parametrize("value", ["ab", b"ab", 3, [1, "b"]])
def test_what_is_no_sequence_of_its_kind_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^x: must be a sequence of integers, got"):
        members(value, "x", "integers", int)


@pytest.mark.parametrize("value", [[True], (True, False), "ab", 1])
def test_a_mask_has_its_size(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^x: must be 2 booleans, got"):
        mask(value, "x", 2)


def test_an_array_is_not_equal_to_what_is_none() -> None:
    class Held(FrozenArrays):
        def __init__(self, value: object) -> None:
            self.value = value

    assert Held(np.array(1.0)) != Held(1.0)
    assert Held(1.0) != Held(np.array(1.0))
    assert Held(1) != Held(1.0)


def test_public_functions_take_objects_of_their_kinds_only() -> None:
    assert seen(RELU, PLANE) == "1 2 None 1"
    assert seen(RELU, PLANE, None, step=2.0) == "1 2 None 2"
    assert seen(RELU, dataset=PLANE, loss=sf.LogisticLoss()) == "1 2 LogisticLoss() 1"
    with pytest.raises(InvalidInputError, match=r"^dataset: must be a Dataset, got 3$"):
        seen(RELU, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"^loss: must be a Loss or None, got 'square'$"):
        seen(RELU, PLANE, "square")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"^step: must be a single value, got \[1\.0\]$"):
        seen(RELU, PLANE, step=[1.0])  # type: ignore[arg-type]


def test_a_network_of_another_kind_is_the_functions_own_business() -> None:
    other = sf.KnotNetwork([0.0], [1.0])
    assert of_a_relu(other) == 1  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"^network: must be a ReLUNetwork, got 3$"):
        of_a_relu(3)  # type: ignore[arg-type]


def test_network_data_and_run_must_fit() -> None:
    run = sf.gradient_descent(RELU, PLANE, step=0.1, steps=2)
    assert along(run) == along(run, PLANE) == along(run, PLANE, RELU) == along(run, network=RELU) == 3
    rule = r"^dataset: inputs must have the network's dimension 2, got 1$"
    for call in (lambda: seen(RELU, LINE), lambda: along(run, LINE), lambda: along(run, LINE, RELU)):
        with pytest.raises(InvalidInputError, match=rule):
            call()
    rule = r"^trajectory: must be a run of the network, of width 2, got one of width 1$"
    with pytest.raises(InvalidInputError, match=rule):
        along(run, network=WIDER)


def test_what_overflows_is_refused_unless_the_caller_deals_with_it() -> None:
    assert power(2.0) == 2.0**300
    with pytest.raises(InvalidInputError, match=r"^power: cannot be computed in double precision"):
        power(100.0)
    with np.errstate(over="ignore"):
        assert power(100.0) == np.inf
