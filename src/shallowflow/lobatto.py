"""Polynomials on the Chebyshev–Lobatto nodes of [0, 1]: nodes, interpolation, integration."""

from __future__ import annotations

from functools import cache

import numpy as np

from shallowflow.arrays import Floats, frozen


def lobatto_nodes(count: int) -> Floats:
    """Return the Chebyshev–Lobatto nodes (1 − cos(πk/(q−1)))/2 of [0, 1]."""
    return 0.5 * (1.0 - np.cos(np.pi * np.arange(count) / (count - 1)))


def lobatto_weights(share: float | Floats, count: int) -> Floats:
    """Return the Lagrange weights at `share` ∈ [0, 1] by the barycentric formula: p = weights @ values.

    share: a number, or an array (k,) for weights (k, q).
    """
    gaps = np.subtract.outer(share, lobatto_nodes(count))
    # On a node, up to rounding, the value there is all that counts.
    hits = np.abs(gaps) < 1e-15
    gaps[hits.any(axis=-1)] = np.inf
    gaps[hits] = 1.0
    signs = (-1.0) ** np.arange(count)
    signs[[0, -1]] *= 0.5
    terms: Floats = signs / gaps
    return np.asarray(terms / terms.sum(axis=-1, keepdims=True))


@cache
def integration_matrix(count: int) -> Floats:
    """Return Q (q, q): Σ_j Q_ij f_j is the integral from 0 to node i of the polynomial through f."""
    chebyshev = np.polynomial.chebyshev
    shares = 2.0 * lobatto_nodes(count) - 1.0
    integrals = [chebyshev.chebval(shares, chebyshev.chebint(e, lbnd=-1.0)) / 2.0 for e in np.eye(count)]
    solved = np.linalg.solve(chebyshev.chebvander(shares, count - 1).T, np.array(integrals))
    return frozen(solved.T.astype(np.float64))
