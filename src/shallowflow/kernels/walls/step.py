"""One step of the flow: pulls as polynomials, neurons traced through them, until both agree.

Unknown in a step [t, t + H] are the pulls c_k = ∂L/∂h_k at q Radau nodes. Given them, every neuron is traced
exactly, its events included (`trace`); their sums are the predictions, whose pulls should be those assumed.
Sweeps repeat this until they are, by plain iteration or, where that is slow, by Newton's method with an old
tangent kernel (`stiff`): the method is Radau IIA for the predictions, fit for stiff ends, and exact for the
neurons.

A last sweep compares predictions *between* the nodes with the polynomials: what these miss, be it for the
length of the step or for the kinks that events leave in c, is the error that controls the step. Most kinks
are far below the tolerance: a step absorbs any number of events. One that is not ends the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple, cast

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE
from shallowflow.kernels.walls.desk import Desk, Log, Neurons, new_desk, new_log, new_neurons
from shallowflow.kernels.walls.field import (
    NEGLIGIBLE,
    TERMS,
    UNSEEN,
    Field,
    Problem,
    Sums,
    largest,
    new_field,
    new_sums,
    set_field,
    set_pulls,
    spanned,
)
from shallowflow.kernels.walls.stiff import (
    Newton,
    Response,
    correct,
    forces,
    no_newton,
    spectral_parts,
    unheld_forces,
)
from shallowflow.kernels.walls.trace import FINE, FULL, sweep

NODES = TERMS
MOST_SWEEPS, SLOW_SWEEPS = 14, 6
SLOW, KINKED = 3, 4
"""Besides `FINE`, `CROWDED`, `FULL`: sweeps that do not converge; an event that is too big for the step."""
BIG, TOO_BIG, SEEN, MANY = 1.0, 7.0, 1e-2, 4.0
"""A step that is too long may end at an event whose kink is so many tolerances (a quarter of it or less is
the error); with one so much bigger it does, once what sweeps leave is below `SEEN`. Kinks that add up to
`MANY` times the error make it."""
FAR = 3.0
"""Sweeps that leave as much as this come from pulls that are no guess."""
AGREED, STIFF_AGREED = 0.1, 0.02
"""What sweeps may leave undone, as a share of the tolerance; with a tangent kernel less: what is left in a
stiff direction comes back in the polynomials of the next step."""
CALM = 8
"""Neurons of rank r go side by side if the last sweep had at most one event for 1 + r / `CALM` of them: those
that must be traced one by one all the same have then cost less than the others have won."""
MOST_ATTEMPTS = 60
SHORTEST, LEAST = 1e-14, 1e-300
MOST_STIFF = 500
"""Samples up to which the tangent kernel is used."""
LONGEST, WILD = 12.0, 60.0
"""A step is at most so many times 1/‖D‖ long; pulls of sweeps that would make it so much longer diverge."""
STILL = 2.0**-46
"""Forces below this share of what pulls could add up to are what rounding leaves of those that cancel."""
MISSED = 0.1
"""The error of a step as a share of H·(what its polynomials miss at worst): they miss it on both sides."""


class Trial(NamedTuple):
    """pulls (q, n) at the nodes (q,); shares (k,) of the last sweep and weights (k, q) from nodes to them;
    residuals (q, n); gains (W,): what a kink of a w z' on a wall may leave to the polynomials; results (4,):
    sweeps, what they left, what the polynomials miss, the largest force at the beginning.
    """

    pulls: Floats
    nodes: Floats
    shares: Floats
    weights: Floats
    residuals: Floats
    gains: Floats
    results: Floats


@lru_cache
def radau_nodes(count: int) -> Floats:
    """Return the Radau nodes of [0, 1] that end at 1."""
    coefficients = np.zeros(count + 1)
    coefficients[-2:] = -1.0, 1.0
    nodes = np.sort(0.5 + 0.5 * np.polynomial.legendre.legroots(coefficients).real)
    nodes[-1] = 1.0
    return nodes


@lru_cache
def radau_powers(count: int) -> Floats:
    """Return the matrix (q, q) from values at the Radau nodes to coefficients."""
    return np.ascontiguousarray(np.linalg.inv(np.vander(radau_nodes(count), increasing=True)))


def new_trial(nodes: Floats, shares: Floats, powers: Floats, problem: Problem) -> Trial:
    """Return a trial whose last sweep looks at these shares."""
    terms, samples, walls = len(nodes), problem.samples, len(problem.normals)
    weights = np.ascontiguousarray(np.vander(shares, terms, increasing=True) @ powers)
    squares = MISSED * problem.scale**2 * problem.weight * samples.lengths**2
    gains = np.bincount(samples.walls, squares, walls).astype(np.float64)
    size = terms, len(samples.targets)
    return Trial(np.zeros(size), nodes, shares, weights, np.zeros(size), gains, np.zeros(4))


@njit(cache=True, **INTERNAL)
def _clear(active: Floats, everyone: Floats) -> None:
    """Set sums to zero."""
    for i in range(everyone.size):
        everyone[i] = 0.0
    for w in range(active.shape[0]):
        for i in range(active.shape[1]):
            active[w, i] = 0.0


@njit(cache=True, **ONCE)
def _take_over(found: Floats, pulls: Floats) -> None:
    """Set the pulls at all nodes (q, n) to those at the first share."""
    for node in range(pulls.shape[0]):
        for k in range(pulls.shape[1]):
            pulls[node, k] = found[0, k]


@njit(cache=True, **INTERNAL)
def _residuals(found: Floats, pulls: Floats, residuals: Floats, lengths: Floats) -> float:
    """Set the residuals R (q, n); return max_i ‖ρ R_i‖: times H·scale, what they move a neuron by, relative
    to its size.
    """
    worst = 0.0
    for row in range(residuals.shape[0]):
        square = 0.0
        for k in range(lengths.size):
            residuals[row, k] = found[row, k] - pulls[row, k]
            part = lengths[k] * residuals[row, k]
            square += part * part
        # Not max, which would lose NaN.
        if not square <= worst:
            worst = square
    return sqrt(worst)


@njit(cache=True, **ONCE)
def _kink(gains: Floats, log: Log) -> float:
    """Return the largest of what the events' kinks leave to the polynomials of a step, by its square."""
    changes, shares, kinks, used = log
    worst = 0.0
    for k in range(used[0]):
        worst = max(worst, gains[changes[k, 1]] * kinks[k] * shares[k] * (1.0 - shares[k]))
    return worst


@njit(cache=True, **INTERNAL)
def _missed(found: Floats, pulls: Floats, weights: Floats, lengths: Floats) -> float:
    """Return what the polynomials of the pulls miss at worst at the shares of the last sweep (k,).

    found (k, n): the pulls there; weights (k, q): from nodes to shares.
    """
    worst = 0.0
    for row in range(weights.shape[0]):
        square = 0.0
        for k in range(lengths.size):
            missed = found[row, k]
            for node in range(weights.shape[1]):
                missed -= weights[row, node] * pulls[node, k]
            missed *= lengths[k]
            square += missed * missed
        if not square <= worst:
            worst = square
    return sqrt(worst)


@njit(cache=True, **LEAN)
def attempt(
    step: float,
    limits: tuple[float, float],
    most: int,
    both: tuple[Neurons, Neurons],
    tools: tuple[Desk, Field, Sums, Log],
    trial: Trial,
    newton: Newton,
    problem: Problem,
) -> int:
    """Sweep until the pulls agree, at most `most` times (0: only the last sweep); return how that went.

    limits: the force that counts as none, and the tolerance. both: the neurons now, and where those at the
    end go. The sums hold what is at the shares of the last sweep. With most < 0 and rest < 0 neurons get the
    signs with which they start.
    """
    rest, tolerance = limits
    desk, field, sums, log = tools
    pulls, nodes, between, weights, residuals, gains, results = trial
    active, everyone, _, found, _ = sums
    used = log.used
    lengths, scale = problem.samples.lengths, step * problem.scale
    results[0] = 0.0
    before, sweeps, done = 0.0, 0, most <= 0
    negligible = max(NEGLIGIBLE, UNSEEN * tolerance)
    agreed = tolerance * (STIFF_AGREED if newton.roots.size > 0 else AGREED)
    while True:
        shares = between if done else nodes
        if most > 0 and not scale * spanned(pulls, lengths) < WILD:
            results[1] = FAR
            return SLOW
        set_field(pulls, field, problem)
        results[3] = largest(field)
        if most < 0 and sweeps > 0:
            rest = tolerance * results[3]
        quiet = used[0] * (CALM + desk.w.size) <= CALM * both[0].outer.size
        used[0] = 0
        _clear(active, everyone)
        motion, totals = (step, rest, negligible), (active, everyone, log)
        status = sweep(quiet, motion, shares, both, desk, field, totals, problem)
        if status != FINE:
            return status
        set_pulls(shares.size, sums, problem)
        if most < 0 and sweeps == 0:
            # The start: now that the pulls are known, those that lie on walls are settled.
            _take_over(found, pulls)
            sweeps = 1
            continue
        if done:
            break
        left = scale * _residuals(found, pulls, residuals, lengths)
        sweeps += 1
        results[0], results[1] = sweeps, left
        ratio = min(left / before, 1.0) if before > 0.0 else 1.0
        if not left <= agreed:
            # Too far at once, growing, or a speed at which too many sweeps would be needed.
            if not left < FAR or sweeps == most or (sweeps > 1 and ratio == 1.0):
                return SLOW
            if sweeps > 2 and left * ratio ** float(most - sweeps) > agreed:
                return SLOW
        if left < SEEN and step * step * _kink(gains, log) > TOO_BIG * tolerance:
            return KINKED
        done = left * ratio <= agreed
        before = left
        correct(pulls, residuals, newton)
    results[2] = scale * _missed(found, pulls, weights, lengths) if most >= 0 else 0.0
    return FINE


def _basis(shares: Floats) -> Floats:
    """Return the powers of shares (k,) up to those of the polynomials of a step, (k, q)."""
    return np.asarray(shares[:, None] ** np.arange(NODES))


def _direct() -> Callable[..., int]:
    """Return the machine code of `attempt` if it is there. Its arguments always have the same types: to check
    those of ninety arrays would take longer than the call.
    """
    known: list[Any] = getattr(attempt, "signatures", [])
    return cast("Callable[..., int]", attempt.get_overload(known[0]) if len(known) == 1 else attempt)


@dataclass
class Counters:
    """What a run counted."""

    attempts: int = 0
    sweeps: int = 0
    cuts: int = 0
    kernels: int = 0


class WallStepper:
    """Makes steps; keeps the neurons, the polynomials of the last step and the length to try next.

    tolerance: relative to the size of every neuron. After `make`, `trial.pulls` are the pulls at the nodes,
    `sums` what is at the shares `trial.shares` of the step, and `log` its events.
    """

    def __init__(self, inner: Floats, outer: Floats, problem: Problem, tolerance: float) -> None:
        walls = len(problem.normals)
        self.problem, self.tolerance, self.counters = problem, tolerance, Counters()
        nodes = radau_nodes(NODES)
        shares = np.append(0.5 * (nodes + np.concatenate([[0.0], nodes[:-1]])), 1.0)
        field = new_field(radau_powers(NODES), problem)
        self.trial = new_trial(nodes, shares, field.powers, problem)
        integral = np.array([nodes ** (p + 1) / (p + 1) for p in range(NODES)]).T @ field.powers
        self._parts, self._none = spectral_parts(integral), no_newton(NODES)
        self.sums, self.log = new_sums(NODES + 1, problem), new_log(8 * len(outer) + 1024)
        self._desk, self._field = new_desk(NODES, NODES + 1, problem), field
        self.now, self._then = (new_neurons(inner, outer, walls) for _ in range(2))
        both = self.now, self.now
        attempt(0.0, (-1.0, tolerance), -1, both, self._tools, self.trial, self._none, problem)
        self._attempt = _direct()
        self.last_loss = self.loss = float(self.sums.losses[0])
        self.pulls = self.sums.pulls[0].copy()
        self.heights = self.sums.predictions[0].copy()
        self.rest = tolerance * float(self.trial.results[3])
        fastest = self._fastest(self.pulls)
        self._length, self._last = 0.1 / fastest if fastest > 0 else np.inf, 0.0
        self._response: Response | None = None
        self._fresh = self._slow = self._still = False
        self._reader: Reader | None = None
        self._force = np.inf
        # Pulls of a longer trial that was cut short, its length, and how far the flow has come in it.
        self._plan: tuple[Floats, float, float] | None = None
        self._aim = 0.0

    @property
    def before(self) -> Neurons:
        """The neurons at the beginning of the last step."""
        return self._then

    @property
    def _tools(self) -> tuple[Desk, Field, Sums, Log]:
        return self._desk, self._field, self.sums, self.log

    def _fastest(self, pulls: Floats) -> float:
        """Return a bound on ‖D‖ of a neuron."""
        return float(self.problem.scale * np.abs(self.problem.samples.lengths * pulls).sum())

    def _resampled(self, pulls: Floats, start: float, ratio: float) -> Floats:
        """Return the polynomials of a trial at the nodes of [start, start + ratio]."""
        found: Floats = _basis(start + ratio * self.trial.nodes) @ (self._field.powers @ pulls)
        return found

    def _guess(self, step: float) -> Floats:
        """Return pulls at the nodes of the next step, from those of a plan or of the last step."""
        if self._plan is not None:
            pulls, length, come = self._plan
            if come + step <= 1.2 * length:
                return self._resampled(pulls, come / length, step / length)
        if 0 < step <= 1.5 * self._last:
            return self._resampled(self.trial.pulls, 1.0, step / self._last)
        return np.broadcast_to(self.pulls, self.trial.pulls.shape)

    def make(self, time: float, remaining: float) -> float:
        """Make one step from `time` on, not longer than `remaining`; return its length (0: none)."""
        if self._still:
            return self._stay(remaining)
        fastest = self._fastest(self.pulls)
        step = min(self._length, remaining, LONGEST / fastest if fastest > 0 else np.inf)
        if self._last > 0:
            self.trial.pulls[:] = self._guess(step)
        if not np.isfinite(self.trial.pulls).all():
            return 0.0
        self._fresh = False
        if self._slow and len(self.pulls) <= MOST_STIFF:
            self._renew()
        for _ in range(MOST_ATTEMPTS):
            if not step > LEAST or SHORTEST * time >= step < remaining:
                return 0.0
            self.counters.attempts += 1
            shorter = self._tried(step)
            if shorter == step:
                continue
            if shorter == 0.0:
                return self._accepted(step, remaining)
            self.trial.pulls[:] = self._resampled(self.trial.pulls, 0.0, shorter / step)
            if not np.isfinite(self.trial.pulls).all():
                self.trial.pulls[:] = self.pulls
            step = shorter
        return 0.0

    def look(self, shares: Floats) -> tuple[Neurons, Sums]:
        """Return the neurons at the last of the shares of the last step, and the sums at all of them."""
        if self._reader is None or self._reader.size != len(shares):
            self._reader = Reader(len(shares), self.problem)
        return self._reader(self._last, self.rest, self.before, self.trial.pulls, shares)

    def _stay(self, remaining: float) -> float:
        """Rest for as long as is left: pulls of 0 move no neuron."""
        for kept, now in zip(self._then, self.now, strict=True):
            kept[...] = now
        self.last_loss, self.log.used[0] = self.loss, 0
        self.trial.pulls[:] = 0.0
        return remaining

    def _is_still(self, step: float) -> bool:
        """Whether the flow has ended: forces have stopped falling, and all of what is left moves no neuron.

        Sweeps and rounding leave forces behind that no step removes; those of a weak sample do not fall in a
        step either, but move neurons far in the end (`Response.to_come`), and those of the weakest stay.
        """
        last, self._force = self._force, np.inf
        if self.log.used[0] > 0:
            return False
        # Most steps are far from the end, and that is cheap to see.
        some, none = self._some_force(), STILL * self._fastest(self.pulls)
        if some > none and step * some > self.tolerance:
            return False
        self._force = self._largest_force(self.pulls)
        if self._force <= none:
            return True
        ended = step * self._force <= self.tolerance and self._force >= 0.5 * last
        if not ended or len(self.pulls) > MOST_STIFF:
            return False
        coming, staying = Response(self.now, self.heights, self.problem).to_come(self.pulls)
        cancels = self._largest_force(staying) <= STILL * self._fastest(staying)
        return cancels and self._largest_force(coming) <= self.tolerance

    def _some_force(self) -> float:
        """Return the largest ‖D‖ of a neuron that is not 0 and does not slide."""
        free = (self.now.signs != 0).all(axis=1) & (self.now.outer != 0)
        found = unheld_forces(self.now, self.pulls, self.problem)[free]
        return sqrt((found**2).sum(axis=1).max(initial=0.0))

    def _largest_force(self, pulls: Floats) -> float:
        """Return the largest ‖D‖ of a neuron that is not 0."""
        living = self.now.inner.any(axis=1) | (self.now.outer != 0)
        found = forces(self.now, pulls, self.problem)[living]
        return float(np.sqrt((found**2).sum(axis=1).max(initial=0.0)))

    def _tried(self, step: float) -> float:
        """Try a step; return 0 if it is good, else the length to try instead (the same: with other means)."""
        trial, problem = self.trial, self.problem
        newton = self._none if self._response is None else self._response.newton(step, self._parts)
        limits, both = (self.rest, self.tolerance), (self.now, self._then)
        status = self._attempt(step, limits, MOST_SWEEPS, both, self._tools, trial, newton, problem)
        self.counters.sweeps += int(trial.results[0]) + 1
        if status == FULL:
            self.log = new_log(2 * len(self.log.shares))
            return step
        if status == SLOW:
            trial.pulls[:] = self.pulls
            # In a stiff end pulls that are no guess say nothing of the length.
            curable = trial.results[1] < FAR or self._response is not None
            if curable and not self._fresh and len(self.pulls) <= MOST_STIFF:
                self._renew()
                return step
            return 0.4 * step
        if status == KINKED:
            return self._shortened(step, np.inf)
        if status != FINE:
            trial.pulls[:] = self.pulls
            return 0.4 * step
        # Kinks before the first node are not seen at the shares between the nodes.
        shares, impacts = self._impacts(step)
        unseen = float(impacts[shares < trial.nodes[0]].sum())
        error = max(MISSED * float(trial.results[2]), unseen) / self.tolerance
        if error <= 1.0:
            self._error, self._by_kinks = error, float(impacts.sum())
            return 0.0
        if not np.isfinite(error):
            return 0.2 * step
        return self._shortened(step, error)

    def _renew(self) -> None:
        """Take the tangent kernel at the start of the step."""
        self._response = Response(self.now, self.heights, self.problem)
        self._fresh, self.counters.kernels = True, self.counters.kernels + 1

    def _shortened(self, step: float, error: float) -> float:
        """Return a shorter length: up to the first event that is too big, or by the error's order."""
        shares, impacts = self._impacts(step)
        self._plan, largest = (self.trial.pulls.copy(), step, 0.0), impacts.max(initial=0.0)
        if not np.isfinite(error) or largest > max(BIG, error) * self.tolerance:
            first = float(shares[impacts > max(BIG * self.tolerance, 0.3 * largest)].min(initial=1.0))
            if 1e-9 < first < 1.0 - 1e-9:
                self.counters.cuts += 1
                # The step after it, by the kinks that follow: an impact there is kink·(θ − first)(1 − θ)·H².
                left = 1.0 - first
                later = shares > first + 1e-9 * left
                ahead = impacts[later] * (1.0 - first / shares[later])
                expected = max(0.25 * ahead.max(initial=1e-300), 0.08 * ahead.sum()) / self.tolerance
                self._aim = step * left * float(min(1.0, 0.85 * expected ** (-1.0 / 3.0)))
                return step * first * (1.0 + 1e-10)
        if not np.isfinite(error):
            return 0.3 * step
        return step * min(max(0.2, 0.85 * error ** -self._order(error, float(impacts.sum()))), 0.9)

    def _impacts(self, step: float) -> tuple[Floats, Floats]:
        """Return the shares of the events, and what their kinks leave to the polynomials of the step."""
        count = int(self.log.used[0])
        shares = self.log.shares[:count]
        kinks = self.log.kinks[:count] * self.trial.gains[self.log.changes[:count, 1]]
        return shares, step * (step * kinks * shares * (1.0 - shares))

    def _order(self, error: float, by_kinks: float) -> float:
        """Return 1/p for an error that grows like H^p: by kinks, or by the length of the step."""
        return 1.0 / 3.0 if by_kinks > MANY * error * self.tolerance else 1.0 / (NODES + 1)

    def _accepted(self, step: float, remaining: float) -> float:
        """Go to the end of the step, and choose the next length."""
        self.now, self._then = self._then, self.now
        self.last_loss, self.loss = self.loss, float(self.sums.losses[NODES])
        self.pulls = self.sums.pulls[NODES].copy()
        self.heights = self.sums.predictions[NODES].copy()
        growth = min(4.0, 0.85 * max(self._error, 1e-12) ** -self._order(self._error, self._by_kinks))
        # Slow sweeps ask for a new tangent kernel; where that does not help, for a shorter step.
        self._slow = bool(self.trial.results[0] > SLOW_SWEEPS)
        if self._slow and (self._fresh or len(self.pulls) > MOST_STIFF):
            growth = min(growth, 1.0)
        if step < self._length * (1.0 - 1e-9) and step == remaining:
            self._length = max(self._length, step * growth)
        else:
            self._length = step * growth
        if self._plan is not None:
            pulls, length, come = self._plan
            self._plan = (pulls, length, come + step) if come + step < length else None
            self._length, self._aim = max(self._length, self._aim), 0.0
        self._last, self._still = step, self._is_still(step)
        return step


PACKED = 31
"""Signs in a word: two bits each."""


class Reader:
    """Reads steps at so many shares at a time, to all digits."""

    def __init__(self, shares: int, problem: Problem) -> None:
        nodes, self.size, self._problem = radau_nodes(NODES), shares, problem
        field = new_field(radau_powers(NODES), problem)
        self._trial = new_trial(nodes, np.zeros(shares), field.powers, problem)
        self._tools = new_desk(NODES, shares, problem), field, new_sums(shares, problem)
        self._log, self._none, self._attempt = new_log(1024), no_newton(NODES), _direct()

    def __call__(
        self, step: float, rest: float, neurons: Neurons, pulls: Floats, shares: Floats
    ) -> tuple[Neurons, Sums]:
        """Return the neurons at the last of the shares of a step, and the sums at all of them.

        neurons: at its beginning; pulls (q, n): at its nodes.
        """
        # Machine code does not look at types: those of arrays from elsewhere are made what they must be.
        inner, outer = (np.ascontiguousarray(weights, np.float64) for weights in neurons[:2])
        neurons = Neurons(inner, outer, np.ascontiguousarray(neurons.signs, np.int8))
        then = new_neurons(inner, outer, len(self._problem.normals))
        self._trial.pulls[:], self._trial.shares[:] = pulls, shares
        desk, field, sums = self._tools
        while True:
            tools, limits = (desk, field, sums, self._log), (float(rest), 0.0)
            status = self._attempt(
                step, limits, 0, (neurons, then), tools, self._trial, self._none, self._problem
            )
            if status != FULL:
                return then, sums
            self._log = new_log(2 * len(self._log.shares))


def pack(signs: Ints) -> Ints:
    """Return signs −1, 0, 1 (m, W) in words (m, ⌈W/31⌉)."""
    size, walls = signs.shape
    words = -(-walls // PACKED)
    codes = np.zeros((size, words * PACKED), np.int64)
    codes[:, :walls] = signs + 1
    return np.asarray(codes.reshape(size, words, PACKED) @ (1 << 2 * np.arange(PACKED, dtype=np.int64)))


def unpack(words: Ints, walls: int) -> Ints:
    """Return the signs (m, W) of words."""
    codes = words[:, :, None] >> (2 * np.arange(PACKED, dtype=np.int64)) & 3
    return np.ascontiguousarray(codes.reshape(len(words), -1)[:, :walls] - 1).astype(np.int8)
