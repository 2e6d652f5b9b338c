"""The search for good knots beyond [plateau]: relocation, sweeps, polish in rounds, the loss always falling.

A round does the first of these that helps:

1. dead knots go where they gain most, and many cheap knots to better places at once (`knot_relocation`); then
   one sweep (`knot_sweep`);
2. sweeps and Newton steps (`knot_polish`), then many such exchanges at once, judged after settling;
3. one exchange at a time, out of `width`² candidates;
4. otherwise the knots settle as far as they will, and the search has converged.

The exchanges repair how many knots each stretch of the data has, which no move between neighbours can; sweeps
and polish put them right within their stretch. A round depends on nothing but the knots: a search goes on
from the knots it returned, bit for bit as if it had not stopped.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.kernels.anls import CONVERGED, PAUSED
from shallowflow.kernels.chain import fit
from shallowflow.kernels.knot_polish import polish
from shallowflow.kernels.knot_relocation import Problem, negligible_loss, swap_many, swap_one, use_dead_knots
from shallowflow.kernels.knot_sweep import sweep

FINAL_STEPS, FINAL_TOLERANCE = 50, 1e-6


def one_round(knots: Floats, problem: Problem, width: int) -> tuple[Floats, list[float], bool]:
    """One round: the knots (n,), the losses along it, and whether there is more to find."""
    knots, losses = use_dead_knots(knots, problem)
    many = max(1, knots.size // 10)
    knots, found = swap_many(knots, problem, many, settled=False)
    losses += found
    if len(found) > 1:
        knots, swept = sweep(knots, *problem, 1, 0.0)
        return knots, [*losses, *swept], True
    knots, swept = sweep(knots, *problem, 2, 1e-2)
    knots, polished, _ = polish(knots, *problem, 20, 1e-3)
    losses += [*swept, *polished]
    if many > 3:
        knots, found = swap_many(knots, problem, many // 2, settled=True)
    if len(found) == 1:
        knots, found = swap_one(knots, problem, width)
    losses += found
    if len(found) > 1:
        return knots, losses, True
    knots, swept = sweep(knots, *problem, FINAL_STEPS, FINAL_TOLERANCE)
    knots, polished, _ = polish(knots, *problem, FINAL_STEPS, FINAL_TOLERANCE)
    return knots, [*losses, *swept, *polished], False


def improve(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, rounds: int, width: int = 10
) -> tuple[Floats, Floats, int]:
    """Search for the knots of least Σ w_i (f(x_i) − y_i)², f(x) = Σ_j c_j relu(x − b_j) [+ a free line].

    Symbols: `knots` (n,) sorted, the start (dead ones, ≥ x_m, are put to use: n times x_m is a greedy start);
    x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`; at most `rounds` rounds; the
    search ends when none of `width`² exchanges of a knot helps. Returns the sorted knots (n,), the strictly
    decreasing losses, the first that of the start, and the status (0 paused at `rounds`, 1 converged).
    """
    problem = (x, y, w, free_left)
    losses = [float(fit(knots, *problem)[0])]
    least = negligible_loss(problem)
    for _ in range(rounds):
        if losses[-1] <= least:
            return knots, np.array(losses), CONVERGED
        knots, found, more = one_round(knots, problem, width)
        losses += [after for before, after in pairwise(found) if after < before]
        if not more:
            return knots, np.array(losses), CONVERGED
    return knots, np.array(losses), PAUSED
