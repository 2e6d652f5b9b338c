"""Jumps of a run, and the phases that the proofs of three papers go through, read off it.

**Jumps**: which neuron fitted which points, and when; and beside the limit, Algorithm 1.

**The way to the least-squares line**, [early_alignment] §4.1. With 𝓘 the neurons that start with a_i > 0 and
an active point, and β* the least-squares estimator:

    1   alignment: until τ = −ε ln λ / D_max; the neurons turn, their norms stay small (Lemma 4);
    2a  growth:    until Σ_{i∈𝓘} a_i² = ε₂ (Lemma 5);
    2b  fit:       until ‖β* − Σ_{i∈𝓘} a_i w_i‖ ≤ ε₃ (Lemma 6);
    3   local convergence, from then on (Lemma 7).

The paper's ε₂ and ε₃ are small constants without a number; here they are shares of ‖β*‖, which is what Σ
a_i² tends to. λ = √Σ_j a_j(0)² is the smallest initialisation scale for which (5) holds at this width. A
network with output factor s behaves like one with parameters √s·θ whose time runs s times as fast.

**A jump from saddle to saddle**, [incremental] §4 and Figure 2. Around its i-th jump a run from a tiny start
passes three phases:

- slow growth: the neuron that is next stays small, the others keep the directions of the saddle (Lemma 4);
- rapid fitting: it grows to its size and its points are fitted (Lemmas 5 and 6);
- realignment: the unfitted neurons turn to the directions of the next saddle (Lemmas 7 and 8).

For a lone jump the squared norm of the neuron is N/(1 + e^{−2γ(t − t_i)}) (ours), so that it passes the level
ε N, and its points are fitted up to ε, at t_i ∓ ln(1/ε − 1)/(2γ): a time that does not grow with ln(1/α).

**A jump of the target**, [two_timescale] B.3: a neuron arrives at it, and stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, count, positive, probability, shown
from shallowflow.data.dataset import Dataset, PiecewiseConstant, checked_dataset
from shallowflow.dynamics.clock.paths import Replayed, Snapshots
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed, checked_trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.ends import init_scale, largest_pull, least_squares
from shallowflow.landscape.early_alignment.pulls import check_exponents
from shallowflow.landscape.geometry.activity import activity, check_relu
from shallowflow.landscape.two_timescale.population import check_steps
from shallowflow.models.networks import LogScaledNetwork, Network, ReLUNetwork, StepNetwork

FITTED = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Jumps(FrozenArrays):
    """Jumps in the order of time: times (J,) plain, neurons (J,), the points each has fitted.

    unfitted: points whose output ends below the threshold. Points with the label 0 are in neither.
    """

    times: Floats
    neurons: Ints
    fitted: tuple[Ints, ...]
    unfitted: Ints


def jumps(trajectory: Trajectory, dataset: Dataset, *, threshold: float = FITTED) -> Jumps:
    """Return the jumps of a flow or descent of a ReLU network, as [incremental] App. A reads them.

    A point is fitted if the output ends at a share `threshold` of its label or more, and belongs to the
    neuron with the largest share in that output; a neuron that owns points jumps when its squared norm
    reaches that share of its final value (for a lone jump that is the moment at which the output on its
    points reaches it).

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0])
    >>> net = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-2302.6])
    >>> found = sf.jumps(sf.gradient_flow(net, data, until=2000.0), data)
    >>> found.times.round(6), found.neurons, found.fitted  # (2302.6 + ½ ln 5)·2/5
    (array([921.361888]), array([0]), (array([0, 1]),))
    """
    threshold = probability(threshold, "threshold")
    final = checked_trajectory(trajectory).final
    if not isinstance(final, ReLUNetwork | LogScaledNetwork):
        raise InvalidInputError(
            f"trajectory: must be that of a ReLU network, got {shown(type(final).__name__)}"
        )
    check_problem(final, dataset, log_scaled=True)
    plain = final.to_relu() if isinstance(final, LogScaledNetwork) else final
    shares = plain.outer[:, None] * np.maximum(plain.preactivations(dataset.inputs), 0.0) * plain.scale
    # A label of zero is fitted by no neuron and missed by none.
    asked = dataset.targets != 0
    fitted = asked & (shares.sum(axis=0) * np.sign(dataset.targets) >= threshold * np.abs(dataset.targets))
    owners = np.argmax(shares * np.sign(dataset.targets), axis=0)
    neurons = np.unique(owners[fitted])
    times = _rise_times(trajectory, neurons, threshold)
    order = np.argsort(times, kind="stable")
    return Jumps(
        times[order],
        neurons[order],
        tuple(np.flatnonzero(fitted & (owners == j)) for j in neurons[order]),
        np.flatnonzero(asked & ~fitted),
    )


def fitted_points(network: Network, dataset: Dataset, *, threshold: float = FITTED) -> Bools:
    """Return which points are fitted, (n,): output ≥ threshold × label, ½ in [incremental] App. A.1."""
    outputs = network.predict(dataset.inputs) * np.sign(dataset.targets)
    return np.asarray(outputs >= threshold * np.abs(dataset.targets))


def log_norms(network: Network) -> Floats:
    """Return ln ‖w_j‖ of a ReLU network, (m,)."""
    if isinstance(network, LogScaledNetwork):
        return network.log_norms
    assert isinstance(network, ReLUNetwork)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.linalg.norm(network.inner, axis=1)))


def _rise_times(trajectory: Trajectory, neurons: Ints, threshold: float) -> Floats:
    """Return when the squared norm of each neuron last rises to this share of its final value."""
    path, read = trajectory.path, _reader(trajectory)
    if isinstance(path, Replayed):
        curves = path.values[:, :, 0]
    else:
        curves = np.array([log_norms(path(float(time))) for time in path.times])
    found = []
    for j in neurons:
        level = curves[-1, j] + 0.5 * np.log(threshold)
        below = np.flatnonzero(curves[:, j] < level)
        if not below.size:
            found.append(float(path.times[0]))
            continue
        start, end = float(path.times[below[-1]]), float(path.times[below[-1] + 1])
        found.append(_jump_time(read, int(j), float(level), start, end))
    return np.array(found)


def _reader(trajectory: Trajectory) -> Callable[[float], Floats]:
    """Return ln ‖w_j‖ (up to what never changes: |a_j| for a path of log-norms) as a function of time."""
    path = trajectory.path
    if isinstance(path, Replayed):
        return lambda time: path.state(time)[:, 0]
    return lambda time: log_norms(path(time))


def _jump_time(read: Callable[[float], Floats], neuron: int, level: float, start: float, end: float) -> float:
    """Return when a neuron's log-norm reaches a level between two times."""
    from scipy.optimize import brentq

    def excess(time: float) -> float:
        return float(read(time)[neuron]) - level

    return float(brentq(excess, start, end, xtol=1e-12 * max(end, 1e-300), rtol=1e-14))


def jump_times(found: Jumps, limit: SaddleToSaddle) -> Floats:
    """Return when the neurons of [incremental] Algorithm 1 jumped, in its order, (J,); NaN: not at all.

    Neurons that start alike form a group, and each of them stands for it.
    """
    when = dict(zip(limit.process.groups[found.neurons].tolist(), found.times.tolist(), strict=True))
    return np.array([when.get(int(neuron), np.nan) for neuron in limit.neurons])


class JumpAgreement(NamedTuple):
    """A run beside Algorithm 1.

    error: the median of |t/t_predicted − 1| over its jumps; ordered: the share of pairs of jumps that come in
    its order; points: the share of the points that are fitted by its neuron, or by none as predicted.
    """

    error: float
    ordered: float
    points: float


def jump_agreement(found: Jumps, limit: SaddleToSaddle, predicted: Floats) -> JumpAgreement:
    """Return how the jumps of a run agree with those of Algorithm 1, predicted at plain times (J,)."""
    times = jump_times(found, limit)
    first, second = np.triu_indices(len(times), 1)
    ordered = times[first] < times[second]
    owner, expected = (np.full(limit.dataset.size, -1) for _ in range(2))
    for neuron, chosen in zip(found.neurons, found.fitted, strict=True):
        owner[chosen] = limit.process.groups[neuron]
    for neuron, chosen in zip(limit.neurons, limit.process.fitted, strict=True):
        expected[chosen] = neuron
    return JumpAgreement(
        float(np.nanmedian(np.abs(times / predicted - 1))),
        float(ordered.mean()) if len(ordered) else 1.0,
        float(np.mean(owner == expected)),
    )


def growth_rates(trajectory: Trajectory, first: float, second: float) -> Floats:
    """Return the mean rates d ln‖w_j‖/dt of the neurons between two times, (m,)."""
    moved = log_norms(trajectory(second)) - log_norms(trajectory(first))
    return np.asarray(moved / (second - first))


def misdirections(network: Network, directions: Floats) -> Floats:
    """Return 1 − cos of the angle between w_j and a unit vector for every neuron, (m,)."""
    assert isinstance(network, ReLUNetwork | LogScaledNetwork)
    units = network.inner / np.linalg.norm(network.inner, axis=1, keepdims=True)
    return np.asarray(1 - np.sum(units * directions, axis=1))


PHASES = ("1", "2a", "2b", "3")
BISECTIONS = 40


@dataclass(frozen=True)
class Phase:
    """One phase: name "1", "2a", "2b" or "3"; start and end in the trajectory's time.

    complete: whether the phase ended before the trajectory did (never for phase 3).
    """

    name: str
    start: float
    end: float
    complete: bool

    @property
    def length(self) -> float:
        """end − start."""
        return self.end - self.start


def phases(
    trajectory: Trajectory,
    dataset: Dataset,
    *,
    epsilon: float = 0.25,
    growth: float = 0.1,
    fit: float = 0.1,
    speed: float = 1.0,
) -> tuple[Phase, ...]:
    """Return the phases that a trajectory of a `ReLUNetwork` went through (square loss, ½·mean).

    epsilon: ε of Thm 1; growth, fit: ε₂ and ε₃ as shares of ‖β*‖; speed: of the flow, if the trajectory does
    not say. The last phase listed is the one in which the trajectory ends; on data unlike those of Thm 4 that
    may be an early one. Between two records of a descent the times are those of the straight line; without
    networks recorded on the way (`networks=False`) they are those of the records. Where the activation cones
    are too many to list D_max is the largest ‖D‖ that a search finds, and τ may be a little late.
    """
    first = check_relu(checked_trajectory(trajectory).initial, "trajectory")
    estimator = least_squares(checked_dataset(dataset)).coefficients
    size = float(np.linalg.norm(estimator))
    if size == 0:
        raise InvalidInputError("targets: the least-squares estimator is zero: there is nothing to grow to")
    thresholds = positive(growth, "growth") * size, positive(fit, "fit") * size
    active = (first.outer > 0) & np.any(activity(first, dataset.inputs) > 0, axis=1)
    begin, last = float(trajectory.path.times[0]), float(trajectory.path.times[-1])
    rate = positive(agreed(trajectory, "speed", speed, 1.0), "speed") * first.scale
    check_exponents(epsilon, 1.0)
    fastest, scale = largest_pull(dataset, slope=first.slope).value, init_scale(first)
    aligned = begin + (max(-epsilon * np.log(scale), 0.0) / fastest if fastest > 0 else np.inf) / rate

    def grown(network: ReLUNetwork) -> bool:
        return bool(network.scale * np.sum(network.outer[active] ** 2) >= thresholds[0])

    def fitted(network: ReLUNetwork) -> bool:
        line = network.scale * network.outer[active] @ network.inner[active]
        return bool(np.linalg.norm(estimator - line) <= thresholds[1])

    found, start = [], begin
    ends: tuple[Callable[[float], float | None], ...] = (
        lambda _: aligned if aligned <= last else None,
        lambda time: _first_time(trajectory, grown, time),
        lambda time: _first_time(trajectory, fitted, time),
        lambda _: None,
    )
    for name, find in zip(PHASES, ends, strict=True):
        end = find(start)
        found.append(Phase(name, start, last if end is None else end, end is not None))
        if end is None:
            break
        start = end
    return tuple(found)


def _first_time(trajectory: Trajectory, reached: Callable[[ReLUNetwork], bool], start: float) -> float | None:
    """Return the first time from `start` on at which `reached` is true, or None."""
    path = trajectory.path
    sparse = isinstance(path, Snapshots) and path.sparse
    times = [float(time) for time in path.times if time > start]
    before = start
    for time in times if sparse else [start, *times]:
        if not reached(check_relu(trajectory(time), "trajectory")):
            before = time
            continue
        if sparse or time == start:
            return time
        return _bisect(trajectory, reached, before, time)
    return None


def _bisect(
    trajectory: Trajectory, reached: Callable[[ReLUNetwork], bool], before: float, after: float
) -> float:
    for _ in range(BISECTIONS):
        middle = 0.5 * (before + after)
        if not before < middle < after:
            break
        if reached(check_relu(trajectory(middle), "trajectory")):
            after = middle
        else:
            before = middle
    return after


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


class Arrival(NamedTuple):
    """What happens at one jump.

    jump: its place v; neuron: the one that arrives; time: T_i, when it is first within η/2 of v (inf: none
    was, up to the end); wandering: the largest distance to v that it has afterwards, in units of η (the proof
    allows 1; NaN without an arrival).
    """

    jump: float
    neuron: int
    time: float
    wandering: float


def arrivals(trajectory: Trajectory, target: PiecewiseConstant) -> list[Arrival]:
    """Return for every jump of the target when a neuron arrives, at recorded times; needs η > 0.

    The first phase of a jump ends at T_i; in the second the neuron stays within η of the jump.
    """
    first = trajectory.initial
    check_steps(first, target)
    assert isinstance(first, StepNetwork)
    if first.sharpness == 0:
        raise InvalidInputError("trajectory: must be of a network with sharpness > 0, got 0")
    times = trajectory.path.times
    places = np.array([trajectory(float(t)).parameters["positions"] for t in times])
    found = []
    for v in target.breakpoints:
        far = np.abs(places - v) / first.sharpness
        inside = far <= 0.5
        if not inside.any():
            found.append(Arrival(float(v), -1, np.inf, np.nan))
            continue
        when = int(np.argmax(inside.any(axis=1)))
        who = int(np.argmax(inside[when]))
        found.append(Arrival(float(v), who, float(times[when]), float(far[when:, who].max())))
    return found
