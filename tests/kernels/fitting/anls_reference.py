"""Active Neuron Least Squares as the paper words it: all candidates, one least squares problem for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting import anls
from shallowflow.kernels.fitting.anls import PAUSED, Run, run_windowed
from shallowflow.kernels.fitting.chain import Data, fit, new_chain
from tests.kernels.entry import entry

Solve = Callable[[Floats, Floats], float]
Problem = tuple[Floats, Floats, Floats, Floats]
MARGIN = 1e-8


def discontinuous(x: Floats) -> Floats:
    """f₂ of (5.2)."""
    return np.where(x > 0, 1.0 + 0.5 * x * np.cos(15 * np.pi * x), 0.5 * np.sin(5 * np.pi * x))


def sine_problem(seed: int) -> Problem:
    """The task of Fig. 9: width 10, 100 equidistant points, knots drawn from N(0, 2)."""
    x = np.linspace(-1.0, 1.0, 100)
    knots = np.sort(np.random.default_rng(seed).normal(0.0, np.sqrt(2.0), 10))
    return knots, x, np.sin(np.pi * x), np.ones(100)


def discontinuous_problem(seed: int) -> Problem:
    """The task of Fig. 10: width 300, 1,000 uniform random points, knots drawn from N(0, 2)."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1.0, 1.0, 1000))
    return np.sort(rng.normal(0.0, np.sqrt(2.0), 300)), x, discontinuous(x), np.ones(1000)


def rule_moves(knots: Floats, x: Floats) -> list[tuple[int, int, float]]:
    """Knot, side and new place of every candidate, by the six rules, from the sets U_l themselves."""
    n = knots.size
    sets = [x[(x > b) & (x <= (knots[j + 1] if j + 1 < n else np.inf))] for j, b in enumerate(knots)]
    below = x[x <= knots[0]] if n else x
    moves = []
    for k in range(n):
        if all(u.size == 0 for u in sets[k:]):
            continue  # rule 4
        left = below if k == 0 else sets[k - 1]
        if left.size >= 2:
            moves.append((k, -1, 0.5 * (left[-2] + left[-1])))
        elif left.size == 1:
            moves.append((k, -1, x[0] - MARGIN if k == 0 else 0.5 * (knots[k - 1] + left[0])))
        right = sets[k]
        would_die = right.size == 1 and all(u.size == 0 for u in sets[k + 1 :])  # rule 5
        if right.size >= 2:
            moves.append((k, 1, 0.5 * (right[0] + right[1])))
        elif right.size == 1 and not would_die and knots[k + 1] > right[0]:
            moves.append((k, 1, 0.5 * (right[0] + knots[k + 1])))
    return moves


class Candidates(NamedTuple):
    """Moves (k,): the knot, its side, where it lands, and the loss after it."""

    neurons: Ints
    sides: Ints
    places: Floats
    losses: Floats


landing = entry(anls.landing)


def candidates(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, margin: float) -> Candidates:
    """All moves that the kernel allows, by knot, left before right, with the loss of a new fit after each."""
    _, chain = new_chain(knots, Data(x, y, w, free_left))
    both = [
        (k, side, landing(k, side, chain, x, margin)) for k in range(chain.knots.size) for side in (-1, 1)
    ]
    moves = [move for move in both if not np.isnan(move[2])]
    losses = [fit(np.r_[knots[:k], place, knots[k + 1 :]], x, y, w, free_left)[0] for k, _, place in moves]
    neurons, sides, places = np.array(moves).reshape(-1, 3).T
    return Candidates(neurons.astype(np.int64), sides.astype(np.int64), places, np.array(losses))


def lstsq_loss(a: Floats, y: Floats) -> float:
    residual = a @ np.linalg.lstsq(a, y)[0] - y
    return float(residual @ residual)


def spanning_loss(a: Floats, y: Floats) -> float:
    """The same from fewer columns: two knots with the same active data span the column of any other one."""
    active = (a > 0.0).sum(axis=0)
    kept = [j for j in range(active.size) if active[j] > 0 and (active[j + 1 : j + 3] == active[j]).sum() < 2]
    return lstsq_loss(a[:, kept], y)


def reference_run(
    problem: Problem, iterations: int, solve: Solve = lstsq_loss
) -> tuple[list[int], list[int], list[float]]:
    """Knots, sides and losses of the best moves; ties within 1e-10 go to the first candidate."""
    knots, x, y, _ = problem
    knots = knots.copy()
    columns = np.maximum(x[:, None] - knots, 0.0)
    loss = solve(columns, y)
    indices, sides, losses = [], [], []
    for _ in range(iterations):
        moves = rule_moves(knots, x)
        trials = np.empty(len(moves))
        for i, (k, _, place) in enumerate(moves):
            kept = columns[:, k].copy()
            columns[:, k] = np.maximum(x - place, 0.0)
            trials[i] = solve(columns, y)
            columns[:, k] = kept
        first = int(np.argmax(trials <= trials.min() * (1.0 + 1e-10)))
        if loss - trials[first] <= 1e-12 * loss:
            break
        k, side, place = moves[first]
        knots[k], loss = place, trials[first]
        columns[:, k] = np.maximum(x - place, 0.0)
        indices.append(k)
        sides.append(side)
        losses.append(float(loss))
    return indices, sides, losses


def move_by_move(problem: Problem, free_left: int) -> Run:
    """A run in which everything is computed anew for every move: each call makes one."""
    knots, x, y, w = problem
    runs = [run_windowed(knots, x, y, w, free_left, MARGIN, 1, 1)]
    while runs[-1].status == PAUSED:
        runs.append(run_windowed(runs[-1].knots, x, y, w, free_left, MARGIN, 1, 1))
    return runs[-1]._replace(
        initial=runs[0].initial,
        made=sum(run.made for run in runs),
        neurons=np.concatenate([run.neurons for run in runs]),
        sides=np.concatenate([run.sides for run in runs]),
        places=np.concatenate([run.places for run in runs]),
        losses=np.concatenate([run.losses for run in runs]),
    )
