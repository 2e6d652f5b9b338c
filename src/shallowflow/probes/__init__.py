"""The PyTorch front (extra `torch`): modules become networks, and networks modules. Nothing else imports
torch."""

from shallowflow.probes.modules import from_torch, to_torch

__all__ = ["from_torch", "to_torch"]
