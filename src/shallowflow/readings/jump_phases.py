"""The phases of a jump, [incremental] §4 and Figure 2, read off a run and predicted.

Around its i-th jump a run from a tiny start passes three phases:

- slow growth: the neuron that is next stays small, the others keep the directions of the saddle (Lemma 4);
- rapid fitting: it grows to its size and its points are fitted (Lemmas 5 and 6);
- realignment: the unfitted neurons turn to the directions of the next saddle (Lemmas 7 and 8).

For a lone jump the squared norm of the neuron is N/(1 + e^{−2γ(t − t_i)}) (ours), so that it passes the level
ε N, and its points are fitted up to ε, at t_i ∓ ln(1/ε − 1)/(2γ): a time that does not grow with ln(1/α).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, count, probability
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle
from shallowflow.readings.agreement import misdirections
from shallowflow.readings.jumps import log_norms


class Course(NamedTuple):
    """A jump over time, (k,) each.

    growth: ‖w‖² of the neuron (of its group) over its limit; residual: the largest |1 − h(x_k)/y_k| of its
    points; misdirection: the largest 1 − cos between an unfitted neuron and its next direction (9), 0 if no
    neuron is left.
    """

    growth: Floats
    residual: Floats
    misdirection: Floats


class JumpPhases(NamedTuple):
    """Plain times at which the phases of every jump end, (J,) each; NaN where one was not seen.

    grown: slow growth ends, growth ≥ ε; fitted: residual ≤ ε; aligned: misdirection ≤ ε from here on to the
    middle of the plateau (NaN where no neuron has to turn).
    """

    grown: Floats
    fitted: Floats
    aligned: Floats


def jump_course(run: Trajectory, limit: SaddleToSaddle, jump: int, times: Floats) -> Course:
    """Return the course of one jump of Algorithm 1 in a run, at plain times (k,)."""
    jump = count(jump, "jump", at_least=0, at_most=len(limit.neurons) - 1)
    process, data = limit.process, limit.dataset
    points = process.fitted[jump]
    members = process.groups == process.neurons[jump]
    level = np.log(np.linalg.norm(data.targets[points]))
    directions = limit.directions(jump + 1)
    waiting = (process.exponents[jump + 1] < 0) & (np.linalg.norm(directions, axis=1) > 0)
    rows = []
    for time in times:
        network = run(float(time))
        growth = float(np.sum(np.exp(2.0 * log_norms(network)[members] - level)))
        outputs = network.predict(data.inputs[points]) / data.targets[points]
        turned = misdirections(network, directions)[waiting]
        rows.append((growth, float(np.max(np.abs(1.0 - outputs))), float(np.max(turned, initial=0.0))))
    return Course(*np.array(rows).reshape(-1, 3).T)


def jump_phases(run: Trajectory, limit: SaddleToSaddle, level: float = 0.01) -> JumpPhases:
    """Return when the phases of every jump end in a run that follows Algorithm 1; level: ε."""
    level = probability(level, "level")
    start = run.initial
    scale = float(-np.max(log_norms(start)))
    predicted = scale * limit.predicted_times(scale)
    edges = np.concatenate([[0.0], 0.5 * (predicted[1:] + predicted[:-1]), [float(run.times[-1])]])
    found = np.full((3, len(predicted)), np.nan)
    for i, (first, last) in enumerate(pairwise(edges)):
        grown, fitted, aligned = (_excess(run, limit, i, column, level) for column in Course._fields)
        found[0, i] = _crossing(grown, first, last)
        begin = first if np.isnan(found[0, i]) else found[0, i]
        found[1:, i] = _crossing(fitted, begin, last), _crossing(aligned, begin, last)
    return JumpPhases(*found)


def _excess(
    run: Trajectory, limit: SaddleToSaddle, jump: int, column: str, level: float
) -> Callable[[float], float]:
    """Return a column of a jump's course above the level, as a function of time."""
    return lambda time: float(getattr(jump_course(run, limit, jump, np.array([time])), column)[0]) - level


def _crossing(excess: Callable[[float], float], first: float, last: float) -> float:
    """Return when a quantity passes zero between two times, NaN if it does not."""
    from scipy.optimize import brentq

    if first >= last or excess(first) * excess(last) > 0:
        return np.nan
    return float(brentq(excess, first, last, xtol=1e-9 * last, rtol=1e-12))


def predicted_phases(limit: SaddleToSaddle, acceleration: float, level: float = 0.01) -> JumpPhases:
    """Return the phases of lone jumps from α = e^{−acceleration}, ours; `aligned` has no closed form: NaN."""
    level = probability(level, "level")
    times = acceleration * limit.predicted_times(acceleration)
    rates = limit.process.rates[np.arange(len(times)), limit.neurons]
    reach = np.log(1.0 / level - 1.0) / (2.0 * rates)
    return JumpPhases(times - reach, times + reach, np.full(len(times), np.nan))
