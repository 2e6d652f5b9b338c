"""How many knots? The criterion, and what it says about noise that is correlated.

With K knots, R_K the least Σ w r², ν_K = n − 2K − 2 degrees of freedom, a cost c per knot, and n points that
count as n/τ (`noise.correlation`), the least

    C_K = (ν_K/τ) log(R_K/R_0) + c K log(n/τ)

wins: Schwarz's criterion (1978) with ν_K in the place of n, which keeps small n from being interpolated, and
two parameters per knot, its place and its turn. c = 2, and 2.5 where the noise is correlated, since τ is then
an estimate. On white noise alone it places a knot in 8 % of data sets of 20 points, 5 % of 50, then ever
fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.estimators.noise import WHITE, Correlation, correlation, explained_by

COST, COST_CORRELATED = 2.0, 2.5
FEW = 20
"""Up to so many knots are judged first when the whole path wants more: noise may be correlated."""
ROUNDING = 1e-28
"""Mean squares below this (of targets in [−1, 1]) are rounding."""


class Fitted(NamedTuple):
    """Knots (K,), the loss R_K (scatter included), and residuals √w r at the points (m,)."""

    knots: Floats
    loss: float
    rest: Floats


class Choice(NamedTuple):
    """The number of knots, the criterion of every number, and the correlation it reckons with."""

    number: int
    values: dict[int, float]
    noise: Correlation


def criterion(
    losses: Mapping[int, float], size: float, total: float, tau: float = 1.0, per_knot: int = 2
) -> dict[int, float]:
    """Return C_K for every K of `losses` (R_K by K, R_0 among them).

    Symbols: `size` n; `total`, Σ w in the units of R; τ; `per_knot`, the parameters of a knot. Numbers that
    leave no degree of freedom are ∞.
    """
    cost = (COST if tau == 1.0 else COST_CORRELATED) * per_knot / 2
    least = ROUNDING * total
    start = np.log(max(losses[0], least))
    found = {}
    for number, loss in losses.items():
        freedom = size - per_knot * number - 2
        if freedom <= 0 or size <= tau:
            found[number] = np.inf if number else 0.0
            continue
        gain = np.log(max(loss, least)) - start
        found[number] = float(freedom / tau * gain + cost * number * np.log(size / tau))
    return found


def choose(fits: Mapping[int, Fitted], size: float, total: float) -> Choice:
    """Return the number of knots of least criterion among fits by their number of knots.

    ρ is that of the fit which white noise would call for. If that has more than 20 knots, noise with a
    correlation of neighbours may have called for them: so it is asked first whether such noise, around 20
    knots or fewer, explains the data. If it does not, the curve has many bends, and what correlation is left
    is that of pieces which are not quite straight: it does not count. With fewer knots ρ is taken again.
    """
    losses = {number: fit.loss for number, fit in fits.items()}
    white = criterion(losses, size, total)

    def noise(number: int) -> Correlation:
        if fits[number].loss <= ROUNDING * total:
            return WHITE
        return correlation(fits[number].rest, 2 * number + 2)

    first = _least({number: value for number, value in white.items() if number <= FEW})
    found = noise(first)
    if _least(white) > FEW and not explained_by(fits[first].rest, found.rho):
        found = WHITE
    values = criterion(losses, size, total, found.tau) if found.tau > 1 else white
    number = _least(values)
    again = noise(number)
    if 1 < found.tau < again.tau and explained_by(fits[number].rest, again.rho):
        # Too many knots had eaten some of the correlation.
        found, values = again, criterion(losses, size, total, again.tau)
    return Choice(_least(values), values, found)


def _least(values: Mapping[int, float]) -> int:
    """Return the least number with the least value."""
    return min(sorted(values), key=lambda number: values[number])
