"""The PyTorch front (extra `torch`): `from_torch` and `to_torch`. Nothing else imports torch.

Understood is `Sequential(Linear(d, m), ReLU or LeakyReLU, Linear(m, 1))`, or any module that has two such
layers and one such activation in this order. An inner bias is a constant coordinate: the network then takes
`data.with_bias()`. An output bias c is one more neuron with inner weights (0, …, 0, 1) and outer weight c,
which is exact as a function.

Units: PyTorch's `MSELoss` is the mean of squares, shallowflow's `SquareLoss` half of it. Descent with `lr` on
the one is descent with `step = 2·lr` on the other. The neuron that stands for an output bias has two weights
where PyTorch trains one number, so that training a network from a module with an output bias is not step for
step PyTorch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

if TYPE_CHECKING:
    import torch


EXPECTED = "must be two Linear layers with a ReLU or LeakyReLU between them and one output"


def from_torch(module: torch.nn.Module) -> ReLUNetwork:
    """Return a two-layer PyTorch module as a network, in double precision, exactly.

    With an inner bias the inputs get a coordinate 1 (`Dataset.with_bias`); an output bias becomes one more
    neuron.

    Examples
    --------
    ::

        module = torch.nn.Sequential(torch.nn.Linear(1, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
        network = from_torch(module)              # 51 neurons on inputs (x, 1)
        sf.diagnose(network, data.with_bias())
    """
    first, slope, last = _layers(module)
    inner, outer = _numbers(first.weight), _numbers(last.weight)[0]
    if first.bias is not None:
        inner = np.column_stack([inner, _numbers(first.bias)])
    if last.bias is not None:
        if first.bias is None:
            raise InvalidInputError(
                "module: an output bias without inner biases has no place in a network on these inputs; "
                "use Linear(m, 1, bias=False), or biases in both layers"
            )
        constant = np.zeros(inner.shape[1])
        constant[-1] = 1.0
        inner, outer = np.vstack([inner, constant]), np.append(outer, _numbers(last.bias))
    return ReLUNetwork(inner, outer, slope)


def to_torch(
    network: ReLUNetwork | KnotNetwork, module: torch.nn.Module | None = None, *, bias: bool | None = None
) -> torch.nn.Module:
    """Write a network into a module of its shape, in place, and return it; without one make one (float64).

    bias: whether the last input coordinate is the constant 1, so that its weights are inner biases; by
    default as the module has it, and true without a module. A neuron (0, …, 0, c) with c ≥ 0 becomes the
    output bias where the module has one neuron fewer than the network; otherwise the output bias is set to 0.
    The output factor goes into the outer weights. A `KnotNetwork` becomes ReLU(x − knot), inner weights 1.
    """
    import torch

    plain = _as_relu(network)
    if module is None:
        given = True if bias is None else bias
        inputs = plain.dimension - given
        middle = torch.nn.LeakyReLU(plain.slope) if plain.slope else torch.nn.ReLU()
        layers = (
            torch.nn.Linear(inputs, plain.width, bias=given, dtype=torch.float64),
            middle,
            torch.nn.Linear(plain.width, 1, bias=False, dtype=torch.float64),
        )
        module = torch.nn.Sequential(*layers)
    first, slope, last = _layers(module)
    if slope != plain.slope:
        raise InvalidInputError(f"module: its slope is {slope:g}, the network's {plain.slope:g}")
    if bias is not None and bias != (first.bias is not None):
        raise InvalidInputError("module: must have inner biases if and only if bias is true")
    inner, outer = plain.inner, plain.scale * plain.outer
    constant = 0.0
    if last.bias is not None and plain.width == len(first.weight) + 1:
        inner, outer, constant = _without_constant(inner, outer)
    wanted = (len(outer), inner.shape[1] - (first.bias is not None))
    if wanted != tuple(first.weight.shape):
        raise InvalidInputError(
            f"module: its first layer must have the shape {wanted}, got {tuple(first.weight.shape)}"
        )
    with torch.no_grad():
        weights = inner[:, :-1] if first.bias is not None else inner
        first.weight.copy_(torch.tensor(np.array(weights)))
        if first.bias is not None:
            first.bias.copy_(torch.tensor(np.array(inner[:, -1])))
        last.weight.copy_(torch.tensor(np.array(outer[None])))
        if last.bias is not None:
            last.bias.fill_(constant)
    return module


def _layers(module: object) -> tuple[torch.nn.Linear, float, torch.nn.Linear]:
    """Return the two layers of a module and the slope between them, or say why it is not understood."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise InvalidInputError(f"module: must be a torch.nn.Module, got {type(module).__name__}")
    leaves = [one for one in module.modules() if not list(one.children())]
    parts = [one for one in leaves if not isinstance(one, torch.nn.Identity | torch.nn.Flatten)]
    names = ", ".join(type(one).__name__ for one in parts)
    if len(parts) != 3:
        raise InvalidInputError(f"module: {EXPECTED}; got {names or 'nothing'}")
    first, middle, last = parts
    if not isinstance(first, torch.nn.Linear) or not isinstance(last, torch.nn.Linear):
        raise InvalidInputError(f"module: {EXPECTED}; got {names}")
    if isinstance(middle, torch.nn.LeakyReLU):
        slope = float(middle.negative_slope)
        if not 0 <= slope < 1:
            raise InvalidInputError(f"module: the slope of LeakyReLU must lie in [0, 1), got {slope:g}")
    elif isinstance(middle, torch.nn.ReLU):
        slope = 0.0
    else:
        raise InvalidInputError(f"module: {EXPECTED}; got {names}")
    if last.out_features != 1 or last.in_features != first.out_features:
        raise InvalidInputError(f"module: {EXPECTED}; the last layer is {last}")
    return first, slope, last


def _numbers(tensor: torch.Tensor) -> Floats:
    return np.array(tensor.detach().cpu().double().numpy())


def _as_relu(network: object) -> ReLUNetwork:
    if isinstance(network, KnotNetwork):
        inner = np.column_stack([np.ones(network.width), -network.knots])
        return ReLUNetwork(inner, network.outer)
    if not isinstance(network, ReLUNetwork):
        raise InvalidInputError(
            f"network: must be a ReLUNetwork or a KnotNetwork, got {type(network).__name__}"
        )
    return network


def _without_constant(inner: Floats, outer: Floats) -> tuple[Floats, Floats, float]:
    """Return the neurons without the one that is a constant, and that constant."""
    found = np.flatnonzero(~inner[:, :-1].any(axis=1) & (inner[:, -1] >= 0))
    if not found.size:
        raise InvalidInputError(
            "network: has one neuron more than the module, and none of them is a constant that could be its "
            "output bias (training has turned it); make a new module with to_torch(network)"
        )
    keep = np.arange(len(outer)) != found[-1]
    return inner[keep], outer[keep], float(inner[found[-1], -1] * outer[found[-1]])
