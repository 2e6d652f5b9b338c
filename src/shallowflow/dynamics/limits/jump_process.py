"""Algorithm 1 of [incremental] from a mask matrix: which neuron jumps when, and which points it fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints
from shallowflow.landscape.geometry.orthonormal import checked_mask, first_of_kind

TIE = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class JumpProcess(FrozenArrays):
    """Algorithm 1 without its inputs: J jumps of m neurons on n points.

    jump_times (J,) accelerated; neurons (J,), the first of its kind; fitted: the points of each jump;
    exponents (J + 1, m): ρ at the start and right after each jump (twins carry their group's, a fitted
    neuron 0); rates (J + 1, m): dρ/dτ on each plateau; losses (J + 1,); groups (m,): the first neuron with
    the same mask; ties: jumps whose neuron was not the only one to reach zero; unfitted: points left at the
    end.
    """

    jump_times: Floats
    neurons: Ints
    fitted: tuple[Ints, ...]
    exponents: Floats
    rates: Floats
    losses: Floats
    groups: Ints
    ties: tuple[int, ...]
    unfitted: Ints
    squared_norm: float

    @property
    def interpolates(self) -> bool:
        """Whether every point is fitted at the end."""
        return not self.unfitted.size

    @property
    def gaps(self) -> Floats:
        """Gap of each jump (J,): |ρ| of the next neuron that shares a point with the one that jumps.

        The flow's parameters differ from the limit's by about α^gap; ∞ where no one shares a point.
        """
        found = np.full(len(self.neurons), np.inf)
        for i, neuron in enumerate(self.neurons):
            shares = (
                (self.rates[i + 1] < self.rates[i]) & (self.groups != neuron) & (self.exponents[i + 1] < 0)
            )
            if shares.any():
                found[i] = float(-self.exponents[i + 1][shares].max())
        return found

    @property
    def settling(self) -> Floats:
        """Growth of ρ until the next jump (J,), least of the neurons that turn at a jump and jump later.

        Times ln(1/α) it must be large for the first-order correction: else they are turned again before they
        have settled. ∞ where no such neuron turns.
        """
        found = np.full(len(self.neurons), np.inf)
        for i, wait in enumerate(np.diff(self.jump_times)):
            turns = (self.rates[i + 1] < self.rates[i]) & np.isin(self.groups, self.neurons[i + 1 :])
            if turns.any():
                found[i] = float(self.rates[i + 1][turns].min() * wait)
        return found


def jump_process(mask: Bools, targets: Floats) -> JumpProcess:
    """Run Algorithm 1 on a mask matrix (n, m) and labels (n,): O(n·m), whatever the number of jumps.

    γ_j = (1/n) √(Σ_{k ∈ M_j ∩ S} y_k²) over the unfitted points S; the next jump is that of the least
    −ρ_j/γ_j. For data too large to hold their inputs; else call `saddle_to_saddle`.

    Examples
    --------
    >>> process = jump_process(np.array([[True, True], [False, True]]), np.array([3.0, 4.0]))
    >>> process.jump_times, process.neurons, process.interpolates
    (array([0.4]), array([1]), True)
    """
    targets = checked_mask(mask, targets)
    n, m = mask.shape
    groups, squares = first_of_kind(mask), targets**2
    alive = groups == np.arange(m)
    left, rows = np.arange(n), mask
    exponents, now = np.full(m, -1.0), 0.0
    times, neurons, fitted, ties = list[float](), list[int](), list[Ints](), list[int]()
    history, rates, losses = [exponents[groups]], list[Floats](), [float(squares.sum()) / (2 * n)]
    while True:
        rate = np.where(alive, np.sqrt(squares[left] @ rows) / n, 0.0)
        rates.append(rate[groups])
        if not rate.any():
            break
        waits = np.divide(-exponents, rate, out=np.full(m, np.inf), where=rate > 0)
        j = int(np.argmin(waits))
        now += float(waits[j])
        if np.sum(waits - waits[j] <= TIE * max(now, 1e-300)) > 1:
            ties.append(len(times))
        exponents = np.minimum(exponents + rate * waits[j], 0.0)
        exponents[j], alive[j] = 0.0, False
        chosen = rows[:, j]
        times.append(now)
        neurons.append(j)
        fitted.append(left[chosen])
        left, rows = left[~chosen], rows[~chosen]
        history.append(exponents[groups])
        losses.append(float(squares[left].sum()) / (2 * n))
    return JumpProcess(
        np.array(times),
        np.array(neurons, dtype=np.int64),
        tuple(fitted),
        np.array(history),
        np.array(rates),
        np.array(losses),
        groups,
        tuple(ties),
        left,
        2.0 * sum(float(np.sqrt(squares[points].sum())) for points in fitted),
    )
