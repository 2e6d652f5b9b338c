"""The collocation equations of a step, solved by fixed-point sweeps: cost independent of the width.

Unknown are the propagators Φ_g of the groups since the start of the step, at the nodes s_i (`collocation`):

    Σ a w of group g = (Φ S Φᵀ)_{wa}  →  predictions  →  forces D_c (`cone_forces`)  →
    Φ_g(s_i) = I + H Σ_j Q_ij M_g(s_j) Φ_g(s_j).

A sliding group needs no product: with Λ = H Σ_j Q_ij <D(s_j), e>, Φ = exp(Λ [[0, e], [eᵀ, 0]]) in closed
form. S changes within the step when neurons move (`extra`). Sweeps are repeated until nothing changes; they
converge when H times the largest eigenvalue of the Hessian is below about 6, which is what limits a step
near an equilibrium.
"""

from __future__ import annotations

from math import cosh, sinh

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.collocation import Rule
from shallowflow.kernels.cone_flow_state import Problem, Work
from shallowflow.kernels.cone_forces import set_forces
from shallowflow.kernels.cone_geometry import INTERNAL, LEAN
from shallowflow.kernels.cone_groups import outer_inner_moment

MOST_SWEEPS = 60
FLOOR = 4e-15
"""Changes below this share of the size are rounding."""


@njit(cache=True, **INTERNAL)
def boost(turn: float, e0: float, e1: float, p: Floats) -> None:
    """Set p (9,) to exp(Λ [[0, e], [eᵀ, 0]])."""
    c, s = cosh(turn), sinh(turn)
    half = sinh(0.5 * turn)
    grown = 2.0 * half * half
    p[0], p[1], p[2] = 1.0 + grown * e0 * e0, grown * e0 * e1, s * e0
    p[3], p[4], p[5] = grown * e0 * e1, 1.0 + grown * e1 * e1, s * e1
    p[6], p[7], p[8] = s * e0, s * e1, c


@njit(cache=True, **INTERNAL)
def _forces_at(i: int, number: int, work: Work, problem: Problem) -> float:
    """Set forces and pulls at node i; return the largest change of a pull (infinite if not finite)."""
    cones, forces = problem.rays.shape[0], work.field.forces
    here = work.here
    here.moments[:, :] = 0.0
    s = work.table[0]
    for at in range(number):
        g = work.active[at]
        for entry in range(6):
            s[entry] = work.now[g, entry] + work.extra[g, i, entry]
        m0, m1 = outer_inner_moment(work.field.phi[g, i], s)
        # On a wall both cones beside it give the same predictions.
        cone = g if g < cones else (g - cones) // 2
        here.moments[cone, 0] += m0
        here.moments[cone, 1] += m1
    if not set_forces(here, problem.samples, problem.slope, problem.loss):
        return np.inf
    change = 0.0
    for k in range(here.pulls.size):
        change = max(change, abs(here.pulls[k] - work.pulls[i, k]))
        work.pulls[i, k] = here.pulls[k]
    for cone in range(cones):
        forces[i, cone, 0], forces[i, cone, 1] = here.forces[cone, 0], here.forces[cone, 1]
    return change


@njit(cache=True, **INTERNAL)
def _turn(
    wall: int, length: float, forces: Floats, rays: Floats, integral: Floats, turns: Floats, phi: Floats
) -> float:
    """Renew Λ (q,) and Φ (q, 9) of a group that slides along a wall; return the change of Λ."""
    e0, e1 = rays[wall, 0], rays[wall, 1]
    change, q = 0.0, turns.size
    for i in range(1, q):
        total = 0.0
        for j in range(q):
            along = forces[j, wall, 0] * e0 + forces[j, wall, 1] * e1
            total += integral[i, j] * along
        total *= length
        change = max(change, abs(total - turns[i]))
        turns[i] = total
        boost(total, e0, e1, phi[i])
    return change


@njit(cache=True, **INTERNAL)
def _propagate(
    cone: int, length: float, forces: Floats, integral: Floats, phi: Floats, rates: Floats
) -> float:
    """Renew Φ (q, 9) of a cone; return its relative change."""
    q = phi.shape[0]
    for j in range(q):
        f0, f1 = length * forces[j, cone, 0], length * forces[j, cone, 1]
        for k in range(3):
            rates[j, k] = f0 * phi[j, 6 + k]
            rates[j, 3 + k] = f1 * phi[j, 6 + k]
            rates[j, 6 + k] = f0 * phi[j, k] + f1 * phi[j, 3 + k]
    change, size = 0.0, 1.0
    for i in range(1, q):
        for k in range(9):
            total = 1.0 if k % 4 == 0 else 0.0
            for j in range(q):
                total += integral[i, j] * rates[j, k]
            change = max(change, abs(total - phi[i, k]))
            size = max(size, abs(total))
            phi[i, k] = total
    return change / size


@njit(cache=True, **INTERNAL)
def _sweep(g: int, length: float, work: Work, rule: Rule, rays: Floats) -> float:
    """Renew Φ of a group for the present forces; return its change."""
    cones, forces, phi = rays.shape[0], work.field.forces, work.field.phi[g]
    if g < cones:
        return float(_propagate(g, length, forces, rule.integral, phi, work.table))
    wall = (g - cones) // 2
    return float(_turn(wall, length, forces, rays, rule.integral, work.field.turns[g], phi))


@njit(cache=True, **LEAN)
def sweep_group(g: int, length: float, work: Work, rule: Rule, rays: Floats) -> None:
    """Make Φ of an empty group that of the present forces, to rounding."""
    for _ in range(MOST_SWEEPS):
        if _sweep(g, length, work, rule, rays) <= FLOOR:
            break


@njit(cache=True, **LEAN)
def solve(
    number: int, length: float, aim: float, scale: float, work: Work, rule: Rule, problem: Problem
) -> tuple[int, float]:
    """Sweep until pulls (relative to `scale`) and propagators change by no more than `aim`.

    Return the number of sweeps, or 0 if they do not converge, and the change of the pulls in the first one.
    """
    q = rule.grid.nodes.size
    first, best = 0.0, np.inf
    for sweep in range(1, MOST_SWEEPS + 1):
        change = 0.0
        for i in range(0 if sweep == 1 else 1, q):
            change = max(change, _forces_at(i, number, work, problem) / scale)
        if sweep == 1:
            first = change
        for at in range(number):
            change = max(change, _sweep(work.active[at], length, work, rule, problem.rays))
        if not change < 1e6:
            return 0, first
        if change <= aim:
            return sweep, first
        best = min(best, change)
        if sweep > 20 and change > 1e3 * best:
            return 0, first
    return 0, first
