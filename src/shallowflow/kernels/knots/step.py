"""One accepted step of the event-driven flow: long enough, accurate enough, and ending at the first event.

A step is tried with the suggested length. It is repeated shorter if its error is above the tolerances
(standard control for an estimate of order 5), if it would step over an unstable direction, or if an event
happens before its end; then it ends there. An event is a free knot that leaves the gap between its two
neighbouring data points, or a knot held on a data point that is drawn away (``stage`` says what happens
then). Both are read off the step's interpolant, within fractions of the knot's error tolerance; the tolerance
is what the step itself may be wrong by.

**Exits.** A step may end with a knot up to a *window* (``WINDOW`` × tolerance) beyond a data point.
Otherwise it is to be repeated, shortened to where the interpolant is half a window beyond. Passages are
found from the Bernstein form of the interpolant, whose convex hull proves of every knot that it did not
leave its gap and come back undetected. A knot that has just left a data point and is back on it at the end of
the step (``RETURNING``) has more likely been misplaced by the step's error: a shorter step decides.

**Releases.** The pull is looked at in the interpolant's nodes. It counts as soon as the held knot would have
moved by more than its tolerance, and is located just *after* its change of sign, by so little that the knot
would have moved by less than a window. Were it located before, or released while too weak to be distinguished
from the error of a step, the knot would be held again at once, and so on for ever.

**False alarms.** The interpolant is only a polynomial: in stiff directions it may see an event that does not
happen. The step that was shortened for it then shows nothing at its end; the long step is tried again,
looking at its end only, where the method is most accurate. If there, too, the place found for the event
proves empty, lengths in between are tried.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.knots.stage import (
    FIRST,
    HELD,
    KNOT,
    FloatArray,
    IntArray,
    Stage,
    one_sided_velocities,
    seat_arrivals,
    velocity,
)
from shallowflow.kernels.knots.stiff_step import (
    Start,
    Trial,
    attempt_step,
    error_norm,
    interpolate,
    set_interpolant,
)
from shallowflow.kernels.shared.compilation import INTERNAL

WINDOW = 0.01
NEVER, RETURNING = 2.0, -1.0
# Chebyshev-Lobatto points of [0, 1]: values there determine the interpolant, a polynomial of degree 4.
NODES = (1.0 - np.cos(np.pi * np.arange(5) / 4.0)) / 2.0


@njit(cache=True, **INTERNAL)
def tolerance_at(position: float, tolerances: tuple[float, float]) -> float:
    """Error tolerance of a knot at ``position``, with a window of at least a few roundings; (rtol, atol)."""
    return max(tolerances[1] + tolerances[0] * abs(position), 1e-13 * abs(position))


@njit(cache=True, **INTERNAL)
def first_passage(control: FloatArray, sign: float, level: float, limit: float, stack: FloatArray) -> float:
    """Smallest s in [0, limit) where sign · (quartic in Bernstein form (5,)) reaches ``level``, or ``NEVER``.

    Depth-first bisection (de Casteljau): where all control points are below the level there is no passage.
    Rows of ``stack`` (64, 7): control points, begin and width of a part.
    """
    points, begins, widths = stack[:, :5], stack[:, 5], stack[:, 6]
    for i in range(5):
        points[0, i] = sign * control[i]
    begins[0], widths[0] = 0.0, 1.0
    top = 0
    while top >= 0:
        highest = points[top, 0]
        for i in range(1, 5):
            highest = max(highest, points[top, i])
        if highest < level or begins[top] >= limit:
            top -= 1
            continue
        if points[top, 0] >= level or widths[top] < 1e-14:
            return float(begins[top])
        # The right half stays in place, the left half goes on top of it and is looked at first.
        widths[top] *= 0.5
        begins[top + 1], widths[top + 1] = begins[top], widths[top]
        begins[top] += widths[top]
        for degree in range(5):
            points[top + 1, degree] = points[top, 0]
            for i in range(4 - degree):
                points[top, i] = 0.5 * (points[top, i] + points[top, i + 1])
        top += 1
    return NEVER


@njit(cache=True, **INTERNAL)
def exit_through(
    sign: float,
    place: float,
    tolerance: float,
    limit: float,
    ends_only: bool,
    patient: bool,
    stack: FloatArray,
) -> float:
    """Fraction (< limit) of the step at which a knot leaves its gap at x = ``place``, otherwise ``limit``.

    ``stack``: its last row starts with the knot's interpolant in Bernstein form; sign = 1 for the upper end
    of the gap, −1 for the lower one. See ``exit_fraction`` for the two flags.
    """
    control = stack[-1]
    beyond, level = sign * (control[4] - place), sign * place
    if patient and abs(control[0] - place) <= 1e-15 * abs(place) + 1e-300:
        if beyond >= 0.0 or (
            not ends_only and first_passage(control, sign, level + tolerance, limit, stack) < limit
        ):
            return RETURNING
        return limit
    window = WINDOW * tolerance
    if beyond > window or (
        not ends_only and first_passage(control, sign, level + window, limit, stack) < limit
    ):
        return float(min(limit, first_passage(control, sign, level + 0.5 * window, limit, stack)))
    return limit


@njit(cache=True, **INTERNAL)
def exit_fraction(
    state: FloatArray,
    trial: Trial,
    stage: Stage,
    tolerances: tuple[float, float],
    ends_only: bool,
    patient: bool,
) -> float:
    """Fraction of the step at which the first free knot is half a window outside its gap, or 1.

    Knots that stay within a window of their gap do not count, nor, with ``ends_only``, those that are back
    in it at the end. If ``patient``, a knot that has just left a data point and comes back to it gives
    ``RETURNING``.
    """
    layout, places, dense, stack = stage.layout, stage.places, trial.dense, trial.stack
    earliest, control = 1.0, stack[-1]
    for j in range(stage.live):
        if layout[HELD, j] >= 0:
            continue
        start, end = state[KNOT, j], trial.end[KNOT, j]
        k1, k2, k3 = dense[0, KNOT, j], dense[1, KNOT, j], dense[2, KNOT, j]
        second = 0.75 * start + 0.25 * (end + k1)
        third = 0.5 * (start + end) + (k1 + 0.5 * k2) / 3.0
        fourth = 0.25 * (start + k1 + k2 + k3) + 0.75 * end
        highest = max(max(second, third), max(fourth, end))
        lowest = min(min(second, third), min(fourth, end))
        place = layout[FIRST, j]
        upper, lower = places[place], places[place - 1] if place > 0 else -np.inf
        if lowest > lower and highest < upper:
            continue
        control[0], control[1], control[2], control[3], control[4] = start, second, third, fourth, end
        for sign in (1.0, -1.0):
            bound = upper if sign > 0.0 else lower
            if earliest != RETURNING and (highest >= bound if sign > 0.0 else lowest <= bound):
                tolerance = tolerance_at(bound, tolerances)
                earliest = exit_through(sign, bound, tolerance, earliest, ends_only, patient, stack)
        if earliest == RETURNING:
            break
    return earliest


@njit(cache=True, **INTERNAL)
def strongest_pull(
    state: FloatArray, stage: Stage, tolerances: tuple[float, float], scratch: FloatArray
) -> tuple[float, int]:
    """Largest velocity at which a held knot is drawn off its data point, and the location of that point.

    The velocity is in tolerances per unit of time; if it is not positive, all knots stay. ``scratch[1:4]``
    (·, 2, n) is overwritten.
    """
    velocity(state, stage, scratch[1], scratch[3])
    one_sided_velocities(state, stage, scratch[1, 0], scratch[2])
    largest, place = -np.inf, -1
    for j in range(stage.live):
        if stage.layout[HELD, j] >= 0:
            pull = max(-scratch[2, 0, j], scratch[2, 1, j]) / tolerance_at(state[KNOT, j], tolerances)
            if pull > largest:
                largest, place = pull, stage.layout[HELD, j]
    return largest, place


@njit(cache=True, **INTERNAL)
def pull_at(
    fraction: float, state: FloatArray, trial: Trial, stage: Stage, tolerances: tuple[float, float]
) -> float:
    """The strongest pull at a fraction of the step."""
    interpolate(state, trial, stage.live, fraction, trial.scratch[0])
    return float(strongest_pull(trial.scratch[0], stage, tolerances, trial.scratch)[0])


@njit(cache=True, **INTERNAL)
def release_fraction(
    state: FloatArray,
    trial: Trial,
    stage: Stage,
    h: float,
    limit: float,
    tolerances: tuple[float, float],
    ends_only: bool,
) -> tuple[float, bool]:
    """Fraction (≤ ``limit``) of the step just after the first release of a held knot; second: is there one?

    h is the length of the step. With ``ends_only`` the pull is looked at in the last node only.
    """
    before = 0.0
    for node in range(NODES.size - 1 if ends_only else 1, NODES.size):
        after = min(NODES[node], limit)
        pull = pull_at(after, state, trial, stage, tolerances)
        if pull * h * (after - before) > 1.0:
            while pull * h * (after - before) > WINDOW and after - before > 1e-14:
                middle = 0.5 * (before + after)
                closer = pull_at(middle, state, trial, stage, tolerances)
                if closer > 0.0:
                    after, pull = middle, closer
                else:
                    before = middle
            return after, True
        before = after
        if before >= limit:
            break
    return limit, False


ATTEMPTS, REJECTED, UNSTABLE, SHORTENED, FALSE_ALARMS = range(5)
# After so many repetitions the place of an event is known to rounding, and the step is taken as it is.
MAX_SHORTENINGS = 40
# A knot that has just left a data point and comes back in ever shorter steps does come back.
MAX_RETURNS = 3
# False alarms in one step after which it is taken as short as they made it.
MAX_FALSE_ALARMS = 8


@njit(cache=True, **INTERNAL)
def first_length(state: FloatArray, rate: FloatArray, live: int, tolerances: tuple[float, float]) -> float:
    """Length of the first step: 1/100 of the time in which the state would change by its own size."""
    size, speed = 0.0, 0.0
    for row in range(2):
        for j in range(live):
            scale = tolerances[1] + tolerances[0] * abs(state[row, j])
            size += (state[row, j] / scale) ** 2
            speed += (rate[row, j] / scale) ** 2
    return float(0.01 * np.sqrt(size / speed)) if size > 0.0 and speed > 0.0 else 1e-6


@njit(cache=True, **INTERNAL)
def advance(
    start: Start,
    stage: Stage,
    tolerances: tuple[float, float],
    h: float,
    smallest: float,
    trial: Trial,
    arrivals: IntArray,
    counts: IntArray,
) -> tuple[float, float]:
    """Find the next step: the longest, of at most h, that meets the tolerances and ends at the first event.

    Returns its length (0 if it would be below ``smallest``) and the length suggested for the step after it.
    End and interpolant are in ``trial``, knots that reached a data point put onto it (``seat_arrivals``).
    """
    state, live = start.state, stage.live
    suggested, alarmed, shortenings, returns, false_alarms = 0.0, 0.0, 0, 0, 0
    any_held, releasing = False, False
    for j in range(live):
        any_held = any_held or stage.layout[HELD, j] >= 0
    while h >= smallest or (shortenings > 0 and h > 0.0):
        counts[ATTEMPTS] += 1
        if not attempt_step(start, stage, h, trial):
            counts[UNSTABLE] += 1
            h *= 0.5
            continue
        error = error_norm(state, trial, live, tolerances)
        if not error <= 1.0:
            counts[REJECTED] += 1
            h *= max(0.2, 0.9 * error**-0.2) if error < np.inf else 0.1
            continue
        if shortenings == 0:
            suggested, alarmed = h * min(5.0, 0.9 * max(error, 1e-10) ** -0.2), h
        set_interpolant(trial, live)
        ends_only, patient = false_alarms > 0, returns < MAX_RETURNS
        part = exit_fraction(state, trial, stage, tolerances, ends_only, patient)
        if part == RETURNING:
            counts[REJECTED] += 1
            returns += 1
            h *= 0.25
            continue
        if any_held:
            earlier, found = release_fraction(state, trial, stage, h, part, tolerances, ends_only)
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
            pull, place = strongest_pull(trial.end, stage, tolerances, trial.scratch)
            let_go = place if pull > 0.0 else -1
        arrived = seat_arrivals(trial.end, stage, let_go, arrivals)
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
