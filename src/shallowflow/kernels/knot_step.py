"""One accepted step of the event-driven flow: long enough, accurate enough, and ending at the first event.

A step is tried with the suggested length. It is repeated shorter if its error is above the tolerances
(standard control for an estimate of order 5), if it would step over an unstable direction, or if an event
happens before its end; then it ends there. The interpolant is only a polynomial: in stiff directions it may
see an event that does not happen. The step that was shortened for it then shows nothing at its end; this is
a false alarm, and the long step is tried again, looking at its end only, where the method is most accurate.
If there, too, the place found for the event proves empty, lengths in between are tried.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.knot_blocks import FloatArray, IntArray
from shallowflow.kernels.knot_passages import RETURNING, exit_fraction, release_fraction, strongest_pull
from shallowflow.kernels.knot_rosenbrock import attempt_step, dense_coefficients, error_norm
from shallowflow.kernels.knot_stage import HELD
from shallowflow.kernels.knot_verdicts import seat_arrivals

ATTEMPTS, REJECTED, UNSTABLE, SHORTENED, FALSE_ALARMS = range(5)
# After so many repetitions the place of an event is known to rounding, and the step is taken as it is.
MAX_SHORTENINGS = 40
# A knot that has just left a data point and comes back in ever shorter steps does come back.
MAX_RETURNS = 3
# False alarms in one step after which it is taken as short as they made it.
MAX_FALSE_ALARMS = 8


@njit(cache=True, error_model="numpy")
def first_length(state: FloatArray, rate: FloatArray, live: int, tolerances: tuple[float, float]) -> float:
    """Length of the first step: 1/100 of the time in which the state would change by its own size."""
    size, speed = 0.0, 0.0
    for row in range(2):
        for j in range(live):
            scale = tolerances[1] + tolerances[0] * abs(state[row, j])
            size += (state[row, j] / scale) ** 2
            speed += (rate[row, j] / scale) ** 2
    return float(0.01 * np.sqrt(size / speed)) if size > 0.0 and speed > 0.0 else 1e-6


@njit(cache=True, error_model="numpy")
def advance(
    state: FloatArray,
    rate: FloatArray,
    force: FloatArray,
    layout: IntArray,
    blocks: FloatArray,
    live: int,
    rates: tuple[float, float],
    tree: FloatArray,
    places: FloatArray,
    tolerances: tuple[float, float],
    h: float,
    smallest: float,
    new: FloatArray,
    tools: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    arrivals: IntArray,
    counts: IntArray,
) -> tuple[float, float]:
    """Find the next step: the longest, of at most h, that meets the tolerances and ends at the first event.

    Returns its length (0 if it would be below ``smallest``) and the length suggested for the step after it.
    The end is in ``new``, with knots that reached a data point put onto it (see ``seat_arrivals``), the
    interpolant in ``tools[2]``.
    """
    factors, stages, dense, scratch = tools
    suggested, alarmed, shortenings, returns, false_alarms = 0.0, 0.0, 0, 0, 0
    any_held, releasing = False, False
    for j in range(live):
        any_held = any_held or layout[HELD, j] >= 0
    while h >= smallest or (shortenings > 0 and h > 0.0):
        counts[ATTEMPTS] += 1
        if not attempt_step(
            state, rate, force, layout, blocks, live, rates, h, factors, stages, new, scratch[0]
        ):
            counts[UNSTABLE] += 1
            h *= 0.5
            continue
        error = error_norm(state, new, stages, live, tolerances)
        if not error <= 1.0:
            counts[REJECTED] += 1
            h *= max(0.2, 0.9 * error**-0.2) if error < np.inf else 0.1
            continue
        if shortenings == 0:
            suggested, alarmed = h * min(5.0, 0.9 * max(error, 1e-10) ** -0.2), h
        dense_coefficients(stages, live, dense)
        ends_only, patient = false_alarms > 0, returns < MAX_RETURNS
        part = exit_fraction(state, new, dense, layout, live, places, tolerances, ends_only, patient)
        if part == RETURNING:
            counts[REJECTED] += 1
            returns += 1
            h *= 0.25
            continue
        if any_held:
            earlier, found = release_fraction(
                state, new, dense, h, part, layout, blocks, live, rates, tree, tolerances, scratch, ends_only
            )
            releasing = found or (releasing and part == 1.0)
            part = earlier
        if part < 1.0 and shortenings < MAX_SHORTENINGS:
            counts[SHORTENED] += 1
            shortenings += 1
            suggested = alarmed
            h *= part
            continue
        let_go = -1
        if releasing:
            pull, place = strongest_pull(new, layout, blocks, live, rates, tree, tolerances, scratch)
            let_go = place if pull > 0.0 else -1
        arrived = seat_arrivals(new, layout, live, places, let_go, arrivals)
        if shortenings == 0 or arrived or let_go >= 0:
            return h, suggested
        if ends_only and (2.0 * h > alarmed or false_alarms == MAX_FALSE_ALARMS):
            return h, suggested
        # Nothing happens here: the interpolant erred between its ends, as it may in stiff directions.
        counts[FALSE_ALARMS] += 1
        h = np.sqrt(h * alarmed) if ends_only else alarmed
        false_alarms += 1
        shortenings, releasing = 0, False
    return 0.0, h
