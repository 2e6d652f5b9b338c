"""Is there a break at all? Simulated sup-F tests, with a null of correlated noise where the data are.

T = max_c a_c²/((‖My‖² − max a²)/ν) over places c of one more knot (`intervals`), M the projection that takes
out the fit without it. Under the null y is noise, so that T is a function of the noise alone: p is the share
of simulated T* at least as large, (1 + #{T* ≥ T})/(B + 1), exact for white Gaussian noise at any n.

Correlated noise is drawn as AR(1). From 100 points on ρ is that of the residuals with the best further knot,
plus k (1 + 2ρ)/m for the k parameters fitted; below, that of the residuals without it: then the level is
right, at the price of power.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.estimators.intervals import Model, hinges
from shallowflow.estimators.noise import LARGEST_RHO

DRAWS = 999
PLACES = 80
"""Candidates for the place of a further knot, at equal numbers of points."""
FEW_POINTS = 100


def further_knot(model: Model, rng: np.random.Generator) -> float:
    """Return the p-value of one more knot anywhere, given those of the model."""
    x = model.points.x
    return _p_value(model, np.quantile(x, np.linspace(0, 1, PLACES + 2)[1:-1]), None, rng)


def each_knot(model: Model, rng: np.random.Generator) -> list[float]:
    """Return the p-value of every knot: of a break between its neighbours, given the others."""
    found = []
    for k, knot in enumerate(model.knots):
        low = model.knots[k - 1] if k > 0 else model.points.x[0]
        high = model.knots[k + 1] if k + 1 < len(model.knots) else model.points.x[-1]
        inside = model.points.x[(model.points.x > low) & (model.points.x < high)]
        places = np.quantile(inside, np.linspace(0, 1, PLACES)) if len(inside) else np.empty(0)
        found.append(_p_value(model, np.unique(np.append(places, knot)), k, rng))
    return found


def _p_value(model: Model, places: Floats, without: int | None, rng: np.random.Generator) -> float:
    Z, places, Q = hinges(model, np.unique(places), without)
    if len(places) == 0:
        return 1.0
    y = model.root * model.points.y
    rest = y - Q @ (Q.T @ y)
    scatter = float(model.points.scatter.sum())
    a = Z.T @ rest
    best = int(np.argmax(a * a))
    rho = _null_correlation(model, rest, rest - a[best] * Z[:, best], Q.shape[1])
    E = replace(model, rho=rho).noise(rng, DRAWS)
    E -= Q @ (Q.T @ E)
    power, G = np.sum(E * E, axis=0), np.max((Z.T @ E) ** 2, axis=0)
    further = model.size - len(model.root)
    if further > 0:
        power = power + rng.chisquare(further, DRAWS)
    found = float(a[best] ** 2) / max(float(rest @ rest) + scatter - float(a[best] ** 2), 1e-300)
    simulated = G / np.maximum(power - G, 1e-300)
    return float((1 + np.sum(simulated >= found)) / (DRAWS + 1))


def _null_correlation(model: Model, plain: Floats, bent: Floats, parameters: int) -> float:
    """Return ρ of the noise under the null, 0 if it cannot be told from 0."""
    size = len(plain)
    few = size < FEW_POINTS
    rest, parameters = (plain, parameters) if few else (bent, parameters + 2)
    power = float(rest @ rest)
    if power == 0.0 or size < 3:
        return 0.0
    rho = float(rest[1:] @ rest[:-1]) / power
    rho = rho if few else rho + parameters * (1 + 2 * rho) / size
    return float(min(rho, LARGEST_RHO)) if rho > 2 / np.sqrt(size) else 0.0
