"""Descent in the span of few inputs: the steps of descent in all dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.engines.spanned import spanned
from shallowflow.dynamics.path import flatten


@pytest.mark.parametrize("engine", ["fused", "lanes", "patterns"])
@pytest.mark.parametrize("loss", [sf.SquareLoss(), sf.LogisticLoss()])
@pytest.mark.parametrize("size", [3, 20, 40])
def test_the_steps_are_those_in_all_dimensions(size: int, loss: Any, engine: str) -> None:
    """A repeated input, a zero input and a dependent one do no harm."""
    rng = np.random.default_rng(size)
    inputs = rng.standard_normal((size, 60)) / np.sqrt(60)
    if size > 3:
        inputs[4], inputs[5], inputs[6] = inputs[3], 0.0, inputs[1] - 2.0 * inputs[2]
    dataset = sf.Dataset(inputs, np.sign(rng.standard_normal(size)))
    network = sf.ReLUNetwork(rng.standard_normal((30, 60)), rng.standard_normal(30) / 6, slope=0.1)
    options: dict[str, Any] = {"step": 0.05, "steps": 200, "loss": loss, "epsilon": 0.5}
    expected = sf.gradient_descent(network, dataset, engine="dense", **options)
    small = spanned(network, dataset)
    assert small.network.dimension == small.dataset.dimension == size
    found = sf.gradient_descent(small.network, small.dataset, engine=engine, **options)
    assert expected.losses[-1] < 0.9 * expected.losses[0]
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-12, atol=1e-14)
    assert isinstance(found.final, sf.ReLUNetwork)
    lifted = small.lifted(found.final)
    np.testing.assert_allclose(flatten(lifted), flatten(expected.final), rtol=0, atol=1e-13)
    assert (lifted.slope, lifted.scale) == (network.slope, network.scale)
