"""The critical scale of initialisation: below it networks end in the least-squares line, above they fit.

[early_alignment] Theorems 2 and 4 say that there is a λ̃ > 0 below which the flow ends in the line, but give
no number. On one start and its multiples it can be measured: the flow either stays at the line's loss or
leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Seed, count, one_of, positive
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.spurious import least_squares
from shallowflow.models import initialize
from shallowflow.models.networks import ReLUNetwork

STARTS = ("balanced", "dominated", "gaussian")
LEFT = 0.5
"""A flow has left the line when its loss is below this share of the line's."""
FITTED = 1e-12


@dataclass(frozen=True)
class CriticalScale:
    """λ_c lies in [low, high]: the flow ends in the line at low, and leaves it at high.

    low = 0: it leaves the line even at the smallest scale tried; high = ∞: it stays even at the largest.
    """

    low: float
    high: float

    @property
    def value(self) -> float:
        """The geometric mean of the two, or the one that is finite and positive (then only a bound)."""
        if self.low == 0 or np.isinf(self.high):
            return self.high if self.low == 0 else self.low
        return float(np.sqrt(self.low * self.high))

    @property
    def found(self) -> bool:
        """Whether both ends were seen."""
        return self.low > 0 and bool(np.isfinite(self.high))

    def __str__(self) -> str:
        if not self.found:
            return f"below {self.high:.2g}" if self.low == 0 else f"above {self.low:.2g}"
        return f"{self.low:.2g} to {self.high:.2g}"


def critical_scale(
    dataset: Dataset,
    init: str = "balanced",
    *,
    width: int = 50,
    seed: Seed = 0,
    smallest: float = 1e-7,
    largest: float = 1.0,
    halvings: int = 6,
    until: float = 400.0,
) -> CriticalScale:
    """Return between which scales the flow from one start changes from the line to a better fit.

    init: "balanced", "dominated" or "gaussian", whose weights are multiplied by λ; halvings: of the interval
    [smallest, largest] of λ, on a logarithmic axis, taking it that there is one change. until: of each flow.

    Examples
    --------
    >>> data = Dataset([[-0.95], [0.0], [0.95]], [1.0, 0.05, 1.0]).with_bias()
    >>> found = critical_scale(data, width=20, halvings=3, until=100.0)
    >>> found.found, found.low < found.high
    (True, True)
    """
    one_of(init, "init", STARTS)
    width, halvings = count(width, "width"), count(halvings, "halvings")
    low, high = positive(smallest, "smallest"), positive(largest, "largest")
    if low >= high:
        raise InvalidInputError(f"smallest: must be below largest, got {low:g} and {high:g}")
    line = least_squares(checked_dataset(dataset))
    if line.loss <= FITTED * float(np.mean(dataset.targets**2)):
        raise InvalidInputError("dataset: the least-squares line fits it: there is nothing to leave")
    make = getattr(initialize, init)

    def stays(scale: float) -> bool:
        start: ReLUNetwork = make(width, dataset.dimension, init_scale=scale, seed=seed)
        record = Record.geometric(2, networks=False)
        return bool(gradient_flow(start, dataset, until=until, record=record).losses[-1] > LEFT * line.loss)

    if not stays(low):
        return CriticalScale(0.0, low)
    if stays(high):
        return CriticalScale(high, np.inf)
    for _ in range(halvings):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if stays(middle) else (low, middle)
    return CriticalScale(low, high)
