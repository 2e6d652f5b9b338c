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
from shallowflow.kernels.collocation import Rule, weights_at
from shallowflow.kernels.cone_flow_state import MOMENT, Groups, Problem, Work
from shallowflow.kernels.cone_forces import set_forces
from shallowflow.kernels.cone_geometry import INTERNAL, Signed
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
def begin_step(groups: Groups, work: Work, problem: Problem) -> int:
    """Set S and the forces at the start of a step; return how many groups are active."""
    cones = problem.rays.shape[0]
    number = Signed(0)
    for g in range(3 * cones):
        work.is_active[g] = groups.counts[g] > 0
        if work.is_active[g]:
            work.active[number] = g
            number += 1
            _moment_now(groups.propagators[g], groups.moments[g], work.now[g])
            empty(work.extra[g])
            _reset(work.phi[g], work.turns[g])
    _forces_at(Signed(0), number, work, problem)
    active: int = number
    return active


@njit(cache=True, **INTERNAL)
def _reset(phi: Floats, turns: Floats) -> None:
    """Set Φ = I and Λ = 0 at the nodes; phi (q, 9), turns (q,)."""
    for i in range(turns.size):
        for k in range(9):
            phi[i, k] = 1.0 if k % 4 == 0 else 0.0
        turns[i] = 0.0


@njit(cache=True, **INTERNAL)
def empty(extra: Floats) -> None:
    """Set extra (q, 6) to zero."""
    for i in range(extra.shape[0]):
        for entry in range(extra.shape[1]):
            extra[i, entry] = 0.0


@njit(cache=True, **INTERNAL)
def restart(number: int, work: Work) -> None:
    """Forget what is known about the step, except its start."""
    for at in range(number):
        g = work.active[at]
        _reset(work.phi[g], work.turns[g])
        empty(work.extra[g])


@njit(cache=True, **INTERNAL)
def _moment_now(p: Floats, s: Floats, now: Floats) -> None:
    """Set now (6,), S at the start of the step, to P S Pᵀ; p (9,), s (12,)."""
    at = 0
    # Bounds that the compiler does not know: unrolled, this would take it a second.
    for i in range(p.size // 3):
        p0, p1, p2 = p[3 * i], p[3 * i + 1], p[3 * i + 2]
        v0 = s[0] * p0 + s[1] * p1 + s[2] * p2
        v1 = s[1] * p0 + s[3] * p1 + s[4] * p2
        v2 = s[2] * p0 + s[4] * p1 + s[5] * p2
        for j in range(i, p.size // 3):
            now[at] = v0 * p[3 * j] + v1 * p[3 * j + 1] + v2 * p[3 * j + 2]
            at += 1


@njit(cache=True, **INTERNAL)
def _forces_at(i: int, number: int, work: Work, problem: Problem) -> float:
    """Set forces and pulls at node i; return the largest change of a pull (infinite if not finite)."""
    cones = problem.rays.shape[0]
    here = work.here
    here.moments[:, :] = 0.0
    s = work.scratch[MOMENT]
    for at in range(number):
        g = work.active[at]
        for entry in range(6):
            s[entry] = work.now[g, entry] + work.extra[g, i, entry]
        m0, m1 = outer_inner_moment(work.phi[g, i], s)
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
        work.forces[i, cone, 0], work.forces[i, cone, 1] = here.forces[cone, 0], here.forces[cone, 1]
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
    cones = rays.shape[0]
    if g < cones:
        return float(_propagate(g, length, work.forces, rule.integral, work.phi[g], work.table))
    wall = (g - cones) // 2
    return float(_turn(wall, length, work.forces, rays, rule.integral, work.turns[g], work.phi[g]))


@njit(cache=True, **INTERNAL)
def activate(g: int, number: int, length: float, work: Work, rule: Rule, rays: Floats) -> int:
    """Make an empty group active, its Φ that of the present forces to rounding; return how many are."""
    work.is_active[g] = True
    work.active[number] = g
    work.now[g, :] = 0.0
    empty(work.extra[g])
    _reset(work.phi[g], work.turns[g])
    for _ in range(MOST_SWEEPS):
        if _sweep(g, length, work, rule, rays) <= FLOOR:
            break
    return number + 1


@njit(cache=True, **INTERNAL)
def solve(
    number: int, length: float, aim: float, scale: float, work: Work, rule: Rule, problem: Problem
) -> tuple[int, float]:
    """Sweep until pulls (relative to `scale`) and propagators change by no more than `aim`.

    Return the number of sweeps, or 0 if they do not converge, and the change of the pulls in the first one.
    """
    q = rule.nodes.size
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


@njit(cache=True, **INTERNAL)
def missed(number: int, scale: float, work: Work, tail: Floats) -> float:
    """Return what the polynomials miss: the last two Chebyshev coefficients of pulls and propagators."""
    q, error = tail.shape[1], 0.0
    for k in range(work.pulls.shape[1]):
        one, two = 0.0, 0.0
        for j in range(q):
            one += tail[0, j] * work.pulls[j, k]
            two += tail[1, j] * work.pulls[j, k]
        error = max(error, (abs(one) + abs(two)) / scale)
    for at in range(number):
        phi = work.phi[work.active[at]]
        size = 1.0
        for k in range(9):
            size = max(size, abs(phi[q - 1, k]))
        for k in range(9):
            one, two = 0.0, 0.0
            for j in range(q):
                one += tail[0, j] * phi[j, k]
                two += tail[1, j] * phi[j, k]
            error = max(error, (abs(one) + abs(two)) / size)
    return error


@njit(cache=True, **INTERNAL)
def shorten(share: float, number: int, work: Work, rule: Rule) -> None:
    """Take the polynomials of the first `share` of the step as a first guess for a step of that length."""
    q = rule.nodes.size
    earlier = work.table
    for i in range(q):
        weights_at(share * rule.nodes[i], rule, earlier[i])
    column = work.scratch[0]
    for at in range(number):
        g = work.active[at]
        empty(work.extra[g])
        for k in range(9):
            for i in range(q):
                column[i] = work.phi[g, i, k]
            for i in range(q):
                total = 0.0
                for j in range(q):
                    total += earlier[i, j] * column[j]
                work.phi[g, i, k] = total
