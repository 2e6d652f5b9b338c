"""Stiff ends: how predictions answer to pulls, for sweeps that converge at any length of a step.

With signs frozen h' = −K c, K = J Jᵀ the tangent kernel (n, n) of the moving weights. Unknown in a step are
the pulls c_i at its nodes; sweeps leave residuals R_i = ℓ'(h_i) − c_i. With A the integrals of the nodes'
Lagrange polynomials (Radau IIA) and Λ = diag ℓ'' the correction solves

    δ_i + Λ K H Σ_j A_ij δ_j = R_i :

n systems of the size of the nodes after one eigendecomposition of Λ^½ K Λ^½. At the end of a training K
hardly changes, so that one decomposition serves many steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL
from shallowflow.kernels.walls.desk import Neurons
from shallowflow.kernels.walls.field import LOGISTIC, NORM, Problem, add_row, dot

Complexes = NDArray[np.complex128]
FLOOR = 1e-12
"""Curvatures below this share of the largest count as this."""


class Newton(NamedTuple):
    """vectors (n, n), roots (n,): Λ^½, inverses (n, q, q): of I + H λ A; work (2, q, n)."""

    vectors: Floats
    roots: Floats
    inverses: Floats
    work: Floats


class Response:
    """The eigenvectors and eigenvalues of Λ^½ K Λ^½ at one time."""

    def __init__(self, neurons: Neurons, predictions: Floats, problem: Problem) -> None:
        curvature = curvatures(predictions, problem)
        self.roots = np.sqrt(np.maximum(curvature, FLOOR * curvature.max(initial=1e-300)))
        kernel = self.roots[:, None] * tangent_kernel(neurons, problem) * self.roots
        values, vectors = np.linalg.eigh(kernel)
        self.values, self.vectors = np.maximum(values, 0.0), np.ascontiguousarray(vectors)

    def newton(self, step: float, parts: tuple[Complexes, Complexes]) -> Newton:
        """Return what a sweep of a step needs; parts: of A (`spectral_parts`)."""
        roots, projections = parts
        terms, size = len(roots), len(self.values)
        shares = 1.0 / (1.0 + step * self.values[:, None] * roots)
        inverses = (shares @ projections).real.reshape(size, terms, terms)
        return Newton(self.vectors, self.roots, np.ascontiguousarray(inverses), np.zeros((2, terms, size)))

    def to_come(self, pulls: Floats) -> tuple[Floats, Floats]:
        """Return ∫ c dt from pulls c (n,) now until they rest, and what of them stays, (n,).

        With K and Λ as they are: along an eigenvector pulls decay like e^{−λt}, and stay where λ is 0 to
        rounding.
        """
        parts = self.vectors.T @ (pulls / self.roots)
        decaying = self.values > np.finfo(float).eps * len(pulls) * self.values.max(initial=0.0)
        coming = np.divide(parts, self.values, out=np.zeros_like(parts), where=decaying)
        staying = np.where(decaying, 0.0, parts)
        return self.roots * (self.vectors @ coming), self.roots * (self.vectors @ staying)


def spectral_parts(matrix: Floats) -> tuple[Complexes, Complexes]:
    """Return the eigenvalues μ (q,) of a matrix and its projections P_k (q, q²): f(A) = Σ_k f(μ_k) P_k."""
    roots, vectors = np.linalg.eig(matrix)
    rows = np.linalg.inv(vectors)
    return roots, (vectors.T[:, :, None] * rows[:, None, :]).reshape(len(roots), -1)


def no_newton(terms: int) -> Newton:
    """Return what makes plain sweeps."""
    return Newton(np.zeros((0, 0)), np.zeros(0), np.zeros((0, terms, terms)), np.zeros((2, terms, 0)))


@njit(cache=True, **INTERNAL)
def correct(pulls: Floats, residuals: Floats, newton: Newton) -> None:
    """Add the correction to the pulls (q, n), or the residuals themselves."""
    terms, size = residuals.shape
    vectors, roots, inverses, work = newton
    if roots.size == 0:
        for node in range(terms):
            for k in range(size):
                pulls[node, k] += residuals[node, k]
        return
    turned, solved = work[0], work[1]
    for node in range(terms):
        row = turned[node]
        for e in range(size):
            row[e] = 0.0
        for k in range(size):
            add_row(row, residuals[node, k] / roots[k], vectors, k)
    for node in range(terms):
        for e in range(size):
            solved[node, e] = 0.0
            for other in range(terms):
                solved[node, e] += inverses[e, node, other] * turned[other, e]
    for node in range(terms):
        row = solved[node]
        for k in range(size):
            pulls[node, k] += roots[k] * dot(row, vectors, k)


def curvatures(predictions: Floats, problem: Problem) -> Floats:
    """Return speed·ℓ''(h_k), (n,); of the norm loss an upper bound."""
    if problem.loss == LOGISTIC:
        share = 1.0 / (1.0 + np.exp(-np.abs(predictions)))
        return np.asarray(problem.weight * share * (1.0 - share))
    if problem.loss == NORM:
        norm = np.sqrt(np.sum((predictions - problem.samples.targets) ** 2) + problem.constant)
        return np.full(len(predictions), problem.weight / max(float(norm), 1e-300))
    return np.full(len(predictions), problem.weight)


def tangent_kernel(neurons: Neurons, problem: Problem) -> Floats:
    """Return K (n, n): Σ_j scale² (σ_jk σ_jl + a_j² η_jk η_jl ⟨x_k, P_j x_l⟩), P_j along its walls."""
    samples, normals = problem.samples, problem.normals
    points = (samples.sides * samples.lengths)[:, None] * normals[samples.walls]
    signs = neurons.signs[:, samples.walls] * samples.sides
    gates = np.where(signs > 0, 1.0, problem.slope) * (signs != 0)
    features, tangents = gates * (neurons.inner @ points.T), gates * neurons.outer[:, None]
    kernel = features.T @ features + (tangents.T @ tangents) * (points @ points.T)
    if not problem.aligned:
        for members, basis in sliding_groups(neurons, problem):
            lost = points @ basis
            kernel -= (tangents[members].T @ tangents[members]) * (lost @ lost.T)
    return np.asarray(problem.scale**2 * kernel)


def sliding_groups(neurons: Neurons, problem: Problem) -> list[tuple[Floats, Floats]]:
    """Return the neurons that slide along the same walls, and an orthonormal basis (r, k) of the normals."""
    resting = neurons.signs == 0
    sliding = np.flatnonzero(resting.any(axis=1))
    if not len(sliding):
        return []
    kinds, which = np.unique(resting[sliding], axis=0, return_inverse=True)
    found = []
    for kind, walls in enumerate(kinds):
        left, values, _ = np.linalg.svd(problem.normals[walls].T, full_matrices=False)
        found.append((sliding[which.ravel() == kind], left[:, values > 1e-9]))
    return found


def unheld_forces(neurons: Neurons, pulls: Floats, problem: Problem) -> Floats:
    """Return D of every neuron, (m, r), from the pulls c (n,), as if walls did not hold those that slide."""
    samples, normals = problem.samples, problem.normals
    weights = problem.scale * samples.lengths * pulls
    jumps = 0.5 * (1.0 - problem.slope) * np.bincount(samples.walls, weights, len(normals))
    means = 0.5 * (1.0 + problem.slope) * np.bincount(samples.walls, samples.sides * weights, len(normals))
    along = means + neurons.signs * jumps
    return np.asarray(along if problem.aligned else along @ normals)


def forces(neurons: Neurons, pulls: Floats, problem: Problem) -> Floats:
    """Return D of every neuron, (m, r), from the pulls c (n,); of a sliding one the projected force."""
    found = unheld_forces(neurons, pulls, problem)
    if problem.aligned:
        return np.where(neurons.signs != 0, found, 0.0)
    for members, basis in sliding_groups(neurons, problem):
        found[members] -= (found[members] @ basis) @ basis.T
    return found
