"""The border of what is said about ReLU networks on data: a network and a data set that fit each other."""

from __future__ import annotations

from shallowflow.arrays import shown
from shallowflow.data.dataset import checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork


def check_relu_problem(network: object, dataset: object, *, log_scaled: bool = False) -> None:
    """Refuse anything but a `ReLUNetwork` (or, if welcome, a `LogScaledNetwork`) on data of its dimension."""
    kinds = (ReLUNetwork, LogScaledNetwork) if log_scaled else (ReLUNetwork,)
    if not isinstance(network, kinds):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidInputError(f"network: must be a {words}, got {shown(network)}")
    found = checked_dataset(dataset)
    if network.dimension != found.dimension:
        raise InvalidInputError(
            f"dataset: inputs must have the network's dimension {network.dimension}, got {found.dimension}"
        )
