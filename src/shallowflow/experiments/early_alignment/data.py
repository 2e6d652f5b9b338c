"""Data of the assumptions of [early_alignment] Theorems 2 and 4: three points, random ones, corners."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset

ASSUMED = ((-0.95, 1.0), (0.0, 0.05), (0.95, 1.0))
"""Three points (x, y) of Assumption 3 with η < 1/6, like those that Figure 1 draws without numbers."""


def assumed_points(points: tuple[tuple[float, float], ...] = ASSUMED) -> Dataset:
    """Return data that satisfy Assumption 3, bias coordinate appended."""
    table = np.array(points)
    return Dataset(table[:, :1], table[:, 1], name="Assumption 3").with_bias()


def assumption_boxes(eta: float) -> tuple[Floats, Floats]:
    """Return the boxes in which Assumption 3 has its points, as one line with gaps."""
    corners = ((-1.0, -1.0 + eta, 1.0, 1.0 + eta), (-eta, eta, 0.0, eta), (1.0 - eta, 1.0, 1.0, 1.0 + eta))
    x = [side for left, right, _, _ in corners for side in (left, right, right, left, left, np.nan)]
    y = [side for _, _, low, high in corners for side in (low, low, high, high, low, np.nan)]
    return np.array(x), np.array(y)


def random_assumed(seed: int, eta: float = 0.05) -> Dataset:
    """Return random data of Assumption 3: three points whose η is at most the one given."""
    u = np.random.default_rng(seed).uniform(0.0, 1.0, 9) * eta
    inputs = [[u[0] - 1, 1 + u[1]], [2 * u[2] - eta, 1 + 2 * u[3] - eta], [1 - u[4], 1 + u[5]]]
    return Dataset(inputs, [1 + u[6], max(u[7], 1e-6), 1 + u[8]], name="Assumption 3")


def random_corners(dimension: int, inside: int, seed: int) -> Dataset:
    """Return data for Theorem 4 in any dimension: d nearly orthogonal points, and some between them.

    The corners have labels about 1, the points between them small ones (Assumptions 4 to 6 are checked, not
    promised).
    """
    rng = np.random.default_rng(seed)
    corners = np.eye(dimension) + 0.002 * (1 + rng.uniform(size=(dimension, dimension)))
    between = 0.5 * np.sqrt(dimension) * rng.dirichlet(np.full(dimension, 20.0), inside)
    labels = [*(1 + 0.05 * rng.uniform(size=dimension)), *(0.02 * rng.uniform(0.5, 1.0, inside))]
    return Dataset(np.vstack([corners, between]), labels, name=f"corners in dimension {dimension}")
