"""Modules and networks, both ways. Needs torch: `make test-torch` makes an environment that has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.errors import InvalidInputError

torch: Any = pytest.importorskip("torch", reason="torch is not installed: `make test-torch` has it")

from shallowflow.probes import from_torch, to_torch  # noqa: E402


def module(d: int, m: int, bias: bool = True, last: bool = True, kind: Any = None, slope: float = 0.0) -> Any:
    middle = torch.nn.LeakyReLU(slope) if slope else torch.nn.ReLU()
    kind = kind or torch.float64
    return torch.nn.Sequential(
        torch.nn.Linear(d, m, bias=bias, dtype=kind), middle, torch.nn.Linear(m, 1, bias=last, dtype=kind)
    )


def inputs(x: np.ndarray, bias: bool) -> np.ndarray:
    return np.column_stack([x, np.ones(len(x))]) if bias else x


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("bias", "last"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("slope", [0.0, 0.01])
@pytest.mark.parametrize("seed", range(5))
def test_the_round_trip_is_exact(kind: Any, bias: bool, last: bool, slope: float, seed: int) -> None:
    torch.manual_seed(seed)
    d, m = 1 + seed, 3 + 4 * seed
    one = module(d, m, bias, last, kind, slope)
    network = from_torch(one)
    assert network.width == m + last
    x = np.random.default_rng(seed).standard_normal((30, d))
    expected = one(torch.tensor(x, dtype=kind))[:, 0].detach().double().numpy()
    rounding = (d + m + 4) * torch.finfo(kind).eps * (1 + np.abs(expected).max())
    np.testing.assert_allclose(network(inputs(x, bias)), expected, rtol=0, atol=rounding)
    other = module(d, m, bias, last, kind, slope)
    to_torch(network, other)
    for mine, theirs in zip(other.parameters(), one.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("bias", [True, False])
def test_descent_is_that_of_torch(bias: bool) -> None:
    torch.manual_seed(0)
    one = module(3, 12, bias, last=False)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    data = sf.Dataset(x, y).with_bias() if bias else sf.Dataset(x, y)
    run = sf.gradient_descent(from_torch(one), data, step=2 * 0.05, steps=500)
    optimiser = torch.optim.SGD(one.parameters(), lr=0.05)
    for _ in range(500):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(one(torch.tensor(x))[:, 0], torch.tensor(y)).backward()
        optimiser.step()
    found, theirs = run.final, from_torch(one)
    assert isinstance(found, sf.ReLUNetwork)
    np.testing.assert_allclose(found.inner, theirs.inner, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.outer, theirs.outer, rtol=0, atol=1e-10)


def test_without_a_module_one_is_made() -> None:
    network = sf.initialize.gaussian(5, 3, init_scale=1.0, slope=0.1, seed=0)
    x = np.random.default_rng(0).standard_normal((10, 2))
    made = to_torch(network)
    np.testing.assert_allclose(
        made(torch.tensor(x))[:, 0].detach().numpy(), network(inputs(x, True)), rtol=1e-13, atol=1e-14
    )
    plain = to_torch(network, bias=False)
    z = np.random.default_rng(1).standard_normal((10, 3))
    np.testing.assert_allclose(
        plain(torch.tensor(z))[:, 0].detach().numpy(), network(z), rtol=1e-13, atol=1e-14
    )


def test_knots_and_output_factors() -> None:
    knots = sf.KnotNetwork([0.0, 0.5], [1.0, -2.0])
    x = np.linspace(-1, 1, 9)
    made = to_torch(knots)
    np.testing.assert_allclose(made(torch.tensor(x[:, None]))[:, 0].detach().numpy(), knots(x), atol=1e-15)
    scaled = sf.ReLUNetwork([[1.0, 0.5]], [2.0], scale=0.25)
    assert float(to_torch(scaled)[2].weight.detach()) == 0.5


def test_a_recording_of_torch_becomes_a_story() -> None:
    torch.manual_seed(0)
    one = module(1, 20)
    x = np.linspace(-1, 1, 50)
    data = sf.Dataset(x[:, None], np.sin(3 * x)).with_bias()
    optimiser, kept = torch.optim.SGD(one.parameters(), lr=0.05), []
    for _ in range(200):
        kept.append(from_torch(one))
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(one(torch.tensor(x[:, None]))[:, 0], torch.tensor(data.targets))
        loss.backward()
        optimiser.step()
    run = sf.Trajectory.from_snapshots(0.1 * np.arange(200), kept, data, step=0.1)
    assert 2 * run.losses[-1] == pytest.approx(float(loss.detach()), rel=1e-12)
    assert sf.story(run).end is not None


def test_a_float32_module_takes_an_escape_back() -> None:
    torch.manual_seed(1)
    one = module(1, 12, kind=torch.float32)
    x = np.linspace(-1, 1, 40)
    data = sf.Dataset(x[:, None], np.sin(6 * x)).with_bias()
    network = from_torch(one)
    found = sf.escape(network, data, move="outer")
    assert isinstance(found.network, sf.ReLUNetwork)
    to_torch(found.network, one)
    outputs = one(torch.tensor(x[:, None], dtype=torch.float32))[:, 0].detach().numpy()
    np.testing.assert_allclose(outputs, found.network(data.inputs), atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: torch.nn.Linear(2, 1), "got Linear"),
        (
            lambda: torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)),
            "got Linear, Tanh, Linear",
        ),
        (
            lambda: torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)),
            "the last layer is",
        ),
        (lambda: module(2, 3, bias=False, last=True), "an output bias without inner biases"),
        (lambda: 3, "must be a torch.nn.Module, got int"),
    ],
)
def test_what_is_not_understood_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        from_torch(wrong())


def test_what_does_not_fit_is_refused() -> None:
    network = sf.initialize.gaussian(5, 3, init_scale=1.0, seed=0)
    with pytest.raises(InvalidInputError, match=r"shape \(5, 2\), got \(4, 2\)"):
        to_torch(network, module(2, 4, last=False))
    with pytest.raises(InvalidInputError, match="none of them is a constant"):
        to_torch(network, module(2, 4))
    with pytest.raises(InvalidInputError, match=r"its slope is 0\.2"):
        to_torch(network, module(2, 5, slope=0.2))
    with pytest.raises(InvalidInputError, match="if and only if bias"):
        to_torch(network, module(2, 5), bias=False)
    with pytest.raises(InvalidInputError, match="must be a ReLUNetwork or a KnotNetwork"):
        to_torch(sf.initialize.uniform_positions(3, sharpness=0.1))  # type: ignore[arg-type]
