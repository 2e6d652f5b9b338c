"""The stages of a trajectory: intervals of constant activation pattern, with their plateau levels and rates.

During a stage the counts {u_l} of [plateau] (3.2) are constant and the loss tends to the stage's level Q₀ at
a rate between r_min(t) and r_max(t) (Thm 3.1, `landscape.plateau`); a stage ends when a knot passes a
data point, or comes to rest on one, or leaves it. A resting knot does not move, and the rates leave
it out. No engine is needed: any trajectory of a `KnotNetwork` will do, a recording from elsewhere too.

How sharply the stages are resolved depends on the trajectory's path. A flow that keeps its polynomials gives
the times of passage to rounding. Snapshots know the pattern at their recorded times only: a stage then runs
from the first to the last record of one pattern, and what happened between two records is not detected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats, Ints, count, positive, public
from shallowflow.data.dataset import Dataset, checked_dataset, sort_data
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes
from shallowflow.dynamics.clock.protocol import Path
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed, checked_trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import RESTING
from shallowflow.landscape.geometry.floors import Blocks, blocks, blocks_of
from shallowflow.landscape.plateau.levels import extreme_rates, level_of
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork

# Passages closer than this, relative to the time, count as one.
SAME_TIME = 1e-13
# A slide shorter than this, relative to the time, is none.
BRIEF = 1e-6
FEWEST_SAMPLES = 5


@dataclass(frozen=True, eq=False)
class Stage:
    """One interval of constant activation pattern.

    times (k,): sample times, from the stage's start to its end; excess (k,): L − Q₀ there; r_min, r_max (k,):
    the rates there, in the trajectory's own time (NaN if not asked for); level: Q₀; blocks: the pattern's
    blocks, with the neurons as they are at the start; sliding: the live neurons that lie on a data point
    (indices into the network's neurons).
    """

    times: Floats
    excess: Floats
    r_min: Floats
    r_max: Floats
    level: float
    blocks: Blocks
    sliding: tuple[int, ...]

    @property
    def start(self) -> float:
        """The time at which the stage begins."""
        return float(self.times[0])

    @property
    def end(self) -> float:
        """The time at which it ends, or the trajectory does."""
        return float(self.times[-1])

    @property
    def length(self) -> float:
        """end − start."""
        return self.end - self.start

    @property
    def losses(self) -> Floats:
        """The loss at the sample times, (k,)."""
        return self.level + self.excess

    @cached_property
    def decay_min(self) -> Decay:
        """∫r_min from the start: L − Q₀ falls at least by exp(−2·that)."""
        return _integral(self.times, self.r_min)

    @cached_property
    def decay_max(self) -> Decay:
        """∫r_max from the start: L − Q₀ falls at most by exp(−2·that)."""
        return _integral(self.times, self.r_max)


@dataclass(frozen=True, eq=False)
class Decay:
    """∫r dt from a stage's start to each of its sample times: values (k,), with estimated errors (k,)."""

    values: Floats
    errors: Floats

    @property
    def total(self) -> float:
        """The integral over the whole stage."""
        return float(self.values[-1])


@public
def stages(
    trajectory: Trajectory,
    dataset: Dataset,
    *,
    loss: SquareLoss | None = None,
    speed: float = 1.0,
    samples: int = 33,
    rates: bool = True,
) -> tuple[Stage, ...]:
    """Return the stages of a trajectory of a `KnotNetwork`, in order of time.

    loss, speed: of the flow, if the trajectory does not say; by default ½·mean or ½Σ, whichever the recorded
    losses are, and 1.
    samples: at most so many sample times per stage (O(n³) each; rates=False leaves the rates out: O(n + m)).
    """
    loss = recorded_loss(trajectory, dataset, loss)
    speed = positive(agreed(trajectory, "speed", speed, 1.0), "speed")
    samples = count(samples, "samples", FEWEST_SAMPLES)
    data = sort_data(dataset)
    slack = RESTING * float(np.max(np.abs(data.inputs)))
    dense = isinstance(trajectory.path, Polynomials)

    def at(time: float) -> KnotNetwork:
        return _network(trajectory(float(time)))

    weight, found = loss.weight(dataset.size), []
    for interval in _intervals(trajectory.path, data.inputs, slack):
        network = at(0.5 * (interval[0] + interval[-1]) if dense else interval[0])
        pattern = blocks_of(network.knots, network.outer, data, network.knots + slack)
        sliding = _sliding(network, data.inputs, slack)
        times = _sample_times(interval, samples, dense=dense)
        moved = [pattern.moved(at(time)) for time in times]
        excess = np.array([0.5 * weight * float(now.coordinates @ now.coordinates) for now in moved])
        r_min, r_max = np.full((2, len(times)), np.nan)
        if rates:
            r_min, r_max = speed * weight * np.array([extreme_rates(now, sliding) for now in moved]).T
        found.append(Stage(times, excess, r_min, r_max, level_of(moved[0], loss), moved[0], sliding))
    return tuple(found)


def recorded_loss(trajectory: Trajectory, dataset: Dataset, loss: SquareLoss | None = None) -> SquareLoss:
    """Return the loss that a trajectory of a `KnotNetwork` recorded, ½·mean or ½Σ; refuse any other."""
    network = _network(checked_trajectory(trajectory).initial)
    loss = agreed(trajectory, "loss", loss, None)
    if loss is not None and not isinstance(loss, SquareLoss):
        raise InvalidInputError(f"trajectory: must be of a flow of the square loss, got {loss}")
    recorded = float(trajectory.losses[0])
    checked_dataset(dataset)
    residuals = blocks(network, dataset).residuals
    square = 0.5 * float(residuals @ residuals)
    for candidate in (SquareLoss(), SquareLoss("sum")) if loss is None else (loss,):
        if np.isclose(recorded, candidate.weight(dataset.size) * square, rtol=1e-6, atol=1e-300):
            return candidate
    raise InvalidInputError(
        f"trajectory: its first loss {recorded:g} is not that of the first network on this data set "
        f"(half the sum of squares is {square:g}); pass the data set and the loss of the run"
    )


def _network(network: object) -> KnotNetwork:
    if not isinstance(network, KnotNetwork):
        raise InvalidInputError(f"trajectory: must be of a KnotNetwork, got {type(network).__name__}")
    return network


def _patterns(knots: Floats, x: Floats, slack: float) -> Ints:
    """Return the sorted numbers of data points at or left of each knot, over the last axis."""
    return np.sort(np.searchsorted(x, knots + slack, side="right"), axis=-1)


def _signatures(knots: Floats, x: Floats, slack: float) -> Ints:
    """Return the pattern, and beside it the same without points that a knot lies on."""
    strictly = np.sort(np.searchsorted(x, knots - slack, side="left"), axis=-1)
    return np.concatenate([_patterns(knots, x, slack), strictly], axis=-1)


def _intervals(path: Path, x: Floats, slack: float) -> list[Floats]:
    """Return, for each stage, its start, the path's own times inside it, and its end."""
    width = len(path.template.parameters["outer"])
    if not isinstance(path, Polynomials):
        found = _signatures(path.recorded()[:, :width], x, slack)
        return list(np.split(path.times, 1 + np.flatnonzero(np.any(found[1:] != found[:-1], axis=1))))

    def pattern(time: float) -> Ints:
        return _patterns(_network(path(time)).knots, x, slack)

    def signature(time: float) -> Ints:
        return _signatures(_network(path(time)).knots, x, slack)

    moments, knots = _inner_nodes(path, width)
    found = _signatures(knots, x, slack)
    passed: list[float] = []
    slid: list[float] = []
    for i in 1 + np.flatnonzero(np.any(found[1:] != found[:-1], axis=1)):
        left, right = float(moments[i - 1]), float(moments[i])
        if np.any(found[i, :width] != found[i - 1, :width]):
            passed += _passages(left, right, pattern)
        else:
            slid += _passages(left, right, signature)
    cuts = _apart([float(path.times[0]), *passed], SAME_TIME)
    # A knot that passes a point lies on it for a moment, which is no stage of its own.
    cuts = sorted(cuts + [time for time in _apart(slid, BRIEF) if _distance(time, cuts) > BRIEF * abs(time)])
    return [_times_within(path.times, *ends) for ends in pairwise([*cuts, float(path.times[-1])])]


def _apart(times: list[float], share: float) -> list[float]:
    """Return increasing times without those that follow the last one kept too closely."""
    kept: list[float] = []
    for time in times:
        if not kept or time - kept[-1] > share * abs(time):
            kept.append(time)
    return kept


def _distance(time: float, times: list[float]) -> float:
    """Return the distance from a time to the nearest of increasing times."""
    i = bisect_left(times, time)
    return min(abs(time - near) for near in times[max(i - 1, 0) : i + 1])


def _times_within(times: Floats, start: float, end: float) -> Floats:
    """Return start, the times well inside, and end: a step that ends at a passage ends near it."""
    near = 1e-9 * (end - start)
    return np.concatenate([[start], times[(times > start + near) & (times < end - near)], [end]])


def _inner_nodes(path: Polynomials, width: int) -> tuple[Floats, Floats]:
    """Return the times and knots at the nodes inside the steps: at their ends a knot may lie on a point."""
    inner, values = lobatto_nodes(path.values.shape[1])[1:-1], path.values[:, 1:-1, :width]
    if not len(inner):
        inner, values = np.array([0.5]), path.values[:, :, :width].mean(axis=1, keepdims=True)
    moments = path.times[:-1, None] + np.diff(path.times)[:, None] * inner
    return moments.ravel(), values.reshape(-1, width)


def _passages(left: float, right: float, pattern: Callable[[float], Ints]) -> list[float]:
    """Return the times in (left, right] at which the pattern changes, by bisection to rounding."""
    times: list[float] = []
    current, last = pattern(left), pattern(right)
    while not np.array_equal(current, last):
        low, high = left, right
        while high - low > 0.1 * SAME_TIME * right:
            middle = 0.5 * (low + high)
            if np.array_equal(pattern(middle), current):
                low = middle
            else:
                high = middle
        times.append(high)
        left, current = high, pattern(high)
    return times


def _sample_times(times: Floats, samples: int, *, dense: bool) -> Floats:
    """Return at most `samples` of the given times with both ends; on a dense path, a few more if too few."""
    if len(times) > samples:
        return times[np.unique(np.linspace(0, len(times) - 1, samples).round().astype(np.int64))]
    if dense and len(times) < FEWEST_SAMPLES:
        return np.unique(np.concatenate([times, np.linspace(times[0], times[-1], FEWEST_SAMPLES)]))
    return times


def _sliding(network: KnotNetwork, x: Floats, slack: float) -> tuple[int, ...]:
    """Return the live neurons whose knot lies on a data point."""
    right = np.searchsorted(x, network.knots - slack, side="left")
    near = x[np.minimum(right, len(x) - 1)]
    on_point = (np.abs(near - network.knots) <= slack) & (network.knots + slack < x[-1])
    return tuple(int(j) for j in np.flatnonzero(on_point))


def _integral(times: Floats, rates: Floats) -> Decay:
    """Return ∫r from the first time to each: shape-preserving cubics, their distance to trapezia as error."""
    from scipy.interpolate import PchipInterpolator  # takes long to import

    trapezia = np.concatenate([[0.0], np.cumsum(0.5 * (rates[1:] + rates[:-1]) * np.diff(times))])
    if len(times) < 3 or np.isnan(rates).any():
        return Decay(trapezia, np.zeros_like(trapezia))
    cubics = np.asarray(PchipInterpolator(times, rates).antiderivative()(times))
    return Decay(cubics, np.abs(cubics - trapezia))
