"""Losses of predictions against targets, with their slopes.

All are functions of the vector of predictions h: `value` is the loss, `slopes` its gradient ∂L/∂h_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from shallowflow.arrays import Floats, one_of
from shallowflow.errors import InvalidInputError


@runtime_checkable
class Loss(Protocol):
    """What an engine asks of a loss."""

    def value(self, predictions: Floats, targets: Floats) -> float:
        """Return L."""
        ...

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        """Return ∂L/∂h_k, (n,)."""
        ...

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        """Return ∂²L/∂h_k², (n,)."""
        ...

    def check(self, targets: Floats) -> None:
        """Refuse targets for which the loss has no meaning."""
        ...


@dataclass(frozen=True)
class SquareLoss:
    """½·mean or ½·sum of (h_k − y_k)².

    "mean": [early_alignment], [incremental], [weak_interaction]; "sum": [plateau] (2.1).
    """

    reduction: str = "mean"

    def __post_init__(self) -> None:
        one_of(self.reduction, "reduction", ("mean", "sum"))

    def weight(self, size: int) -> float:
        """Return the factor of ½Σr²: 1/n for the mean, 1 for the sum."""
        return 1.0 / size if self.reduction == "mean" else 1.0

    def value(self, predictions: Floats, targets: Floats) -> float:
        """Return the loss."""
        residual = predictions - targets
        return 0.5 * self.weight(len(targets)) * float(residual @ residual)

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        """Return (h_k − y_k), divided by n for the mean."""
        return self.weight(len(targets)) * (predictions - targets)

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        """Return 1, divided by n for the mean."""
        return np.full(len(targets), self.weight(len(targets)))

    def check(self, targets: Floats) -> None:
        """Every finite target is welcome."""


@dataclass(frozen=True)
class LogisticLoss:
    """mean of ln(1 + exp(−h_k y_k)) for labels y_k = ±1, [early_alignment] §2."""

    def value(self, predictions: Floats, targets: Floats) -> float:
        """Return the loss."""
        return float(np.mean(np.logaddexp(0.0, -predictions * targets)))

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        """Return −y_k / (1 + exp(h_k y_k)) / n."""
        margin = predictions * targets
        return -targets * np.exp(-np.logaddexp(0.0, margin)) / len(targets)

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        """Return p_k (1 − p_k) / n with p_k = 1/(1 + exp(h_k y_k))."""
        slopes = np.abs(self.slopes(predictions, targets))
        return slopes * (1.0 - len(targets) * slopes)

    def check(self, targets: Floats) -> None:
        """Refuse labels other than ±1."""
        wrong = np.abs(targets) != 1
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InvalidInputError(
                f"targets: must be +1 or -1 for the logistic loss, got {targets[k]:g} at index {k}"
            )


@dataclass(frozen=True)
class NormLoss:
    """‖h − y‖₂/n: neither squared nor halved; what the published code of [two_timescale] §6 minimises.

    A descent on it takes steps that do not shrink with the residual: it ends by hovering, not by converging.
    """

    def value(self, predictions: Floats, targets: Floats) -> float:
        """Return the loss."""
        return float(np.linalg.norm(predictions - targets)) / len(targets)

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        """Return (h_k − y_k)/(n‖h − y‖₂); zero where all residuals vanish."""
        residual = predictions - targets
        norm = float(np.linalg.norm(residual))
        slopes: Floats = residual / (len(targets) * norm) if norm > 0 else np.zeros_like(residual)
        return slopes

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        """Return 1/(n‖h − y‖₂), the largest curvature in any direction."""
        norm = float(np.linalg.norm(predictions - targets))
        return np.full(len(targets), 1.0 / (len(targets) * max(norm, 1e-300)))

    def check(self, targets: Floats) -> None:
        """Every finite target is welcome."""
