"""Minimal-norm interpolators on orthogonal data, the norms of [incremental] §5, and halving.

**Algorithm 1** of [incremental] from a mask matrix: which neuron jumps when, and which points it fits.

Inputs x_k = ν_k e_k of any norms, e orthonormal (the paper has ν = 1, and says that this is easily
alleviated). In the coordinates u_k = ⟨w, e_k⟩ a neuron is driven by ν_k r_k, when small by Y_k = ν_k y_k,
so that γ_j = (1/n) √(Σ_{M_j ∩ S} Y_k²), and its jump ends where a u_k = y_k/ν_k. Its points are not fitted at
one rate (ν_k²), so it turns while it grows, and may overshoot on the way; it fits them all.

**First-order correction** of the jump times: t_i = τ_i ln(1/α) + C_i + (what vanishes with α).

Ours, from [incremental] (6).
Away from the jumps ln‖w_j‖ is a straight line of slope γ_j, whose offset changes in two ways only.

- At the start the neuron turns to its active points. With β = ⟨b, w̄(0)⟩/|b| and no coordinate of the wrong
  sign the offset is ln((1 + β)/2); coordinates of the wrong sign die one after the other, in closed form
  (`kernels.orthogonal.step`).
- At a jump of neuron i, of limit u = ‖w_i‖² → N = √(Σ_A y²), u follows the logistic u = N/(1 + e^{−2γ_i(t −
  t_i)}), so that ln‖w_i‖ ≈ ½ ln N + γ_i (t − t_i) before it: the jump happens when the straight line reaches
  ½ ln N. Meanwhile the residual on A falls like 1/(1 + e^{2γ_i(t − t_i)}), and a neuron with drive B₁ on A
  and B₂ on other unfitted points turns from (B₁, B₂) to (0, B₂): two angles and a log-norm, integrated once
  per jump for all neurons together. With unequal norms there is no logistic: the jump and what turns beside
  it are integrated coordinate by coordinate (`kernels.orthogonal.flow`), and t_i is when u = N/2.

**Halving.** Each jump fits about half of what is left: [incremental] Theorem 3 and its App. E. Take the n
points of one label sign and m neurons of that sign, each active on each point with probability ½,
independently (Assumption 3). What is left after u jumps depends on the set of the u neurons only, not on
their order, and for a fixed set it is Bin(n, 2^{−u}). A union bound over the C(m, u) sets, whichever of them
Algorithm 1 takes, gives Prop. 4 and Cor. 1 with exact tails instead of Chernoff's: with probability 1 − δ

    low_u ≤ (points left after u jumps) ≤ high_u   for every u ≤ m.

Jump u fits A_u = S_{u−1} ∖ S_u and adds 2√(Σ_{A_u} y²) ≤ 2 max|y| √|A_u| to ‖θ_∞‖². Of all sizes |A_u| whose
tail sums stay below high, the largest Σ √|A_u| is that of the greatest convex curve T below high (T₀ = n,
T_m = 0): √ is concave, so moving a point from a larger jump to a smaller one helps, until the tails forbid
it. Hence, in place of the two parts of Props. 5 and 6,

    ‖θ_∞‖² ≤ 2 max|y| Σ_u √(T_{u−1} − T_u)   with probability 1 − δ,

for each label sign. The paper's own constants are not legible; these are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Bools,
    Floats,
    FrozenArrays,
    Ints,
    count,
    non_negative,
    probability,
    public,
    same_length,
    shown,
    vector,
)
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import (
    check_orthogonal,
    checked_mask,
    first_of_kind,
    input_norms,
    unit_inputs,
)
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

HALVING_RATIO = 1.0 + np.sqrt(2.0)
"""Limit of ‖θ_∞‖²/‖θ_*‖² for equal labels if every jump fits half of what is left: Σ_k 2^{−(k+1)/2}."""
SHARED_RATIO = np.sqrt(2.0)
"""‖θ‖²/‖θ_*‖² if many neurons of a sign grow at one rate and fit its points together.

Each of m neurons is active on a random half M_j of the points of its sign, so that a point has m/2 of them
and |a_j| w_j = (2/m) Σ_{k ∈ M_j} |y_k| x_k. With q = Σ y_k² this is a_j² = ‖w_j‖² = (2/m) √(q/2), and ‖θ‖²
sums to 2√(2q) where the minimum is 2√q. Neurons active on a part p of q instead of ½ give 1/√p."""


@public
def squared_norm(network: ReLUNetwork | LogScaledNetwork) -> float:
    """Return ‖θ‖² = Σ_j a_j² + ‖w_j‖²."""
    plain = network.to_relu() if isinstance(network, LogScaledNetwork) else network
    if not isinstance(plain, ReLUNetwork):
        raise InvalidInputError(f"network: must be a ReLUNetwork or LogScaledNetwork, got {shown(network)}")
    return float(np.sum(plain.outer**2) + np.sum(plain.inner**2))


def fitting_neuron(inputs: Floats, targets: Floats) -> tuple[Floats, float]:
    """Return (w, |a|) of the balanced neuron with |a|·w = Σ_k |y_k| x_k/‖x_k‖²: it fits labels of one sign.

    q = Σ (y_k/‖x_k‖)²,  ‖w‖² = a² = √q, [incremental] (12)–(14) for inputs of norm 1.
    """
    units, norms = unit_inputs(inputs)
    reached = np.abs(targets) / norms
    size = float(np.sqrt(np.linalg.norm(reached)))
    return reached @ units / size, size


@public
def min_norm_interpolator(dataset: Dataset) -> ReLUNetwork:
    """Return an interpolator of least ‖θ‖², orthogonal data: one neuron per label sign, [incremental] (15).

    Zero labels need no neuron; a zero input with another label has no interpolator.

    Examples
    --------
    >>> net = min_norm_interpolator(Dataset([[1.0, 0.0], [0.0, 1.0]], [4.0, -9.0]))
    >>> net.outer, squared_norm(net), min_squared_norm([4.0, -9.0])
    (array([ 2., -3.]), 26.0, 26.0)
    """
    check_orthogonal(dataset, "min_norm_interpolator")
    if np.any((input_norms(dataset.inputs) == 0) & (dataset.targets != 0)):
        raise InvalidInputError("dataset: an input 0 with a label that is not 0 cannot be interpolated")
    inner, outer = [], []
    for sign in (1.0, -1.0):
        chosen = sign * dataset.targets > 0
        if chosen.any():
            weights, size = fitting_neuron(dataset.inputs[chosen], dataset.targets[chosen])
            inner.append(weights)
            outer.append(sign * size)
    if not inner:
        return ReLUNetwork(np.zeros((1, dataset.dimension)), [0.0])
    return ReLUNetwork(np.array(inner), outer)


@public
def min_squared_norm(targets: Floats | list[float], norms: Floats | list[float] | None = None) -> float:
    """Return the least ‖θ‖² of an interpolator: 2(√Σ_{y>0} (y/ν)² + √Σ_{y<0} (y/ν)²), [incremental] (15).

    norms: ν, those of the inputs (None: ones).
    """
    y = vector(targets, "targets")
    if norms is not None:
        lengths = vector(norms, "norms")
        same_length(y, lengths, "targets, norms")
        y = y / lengths
    return float(2.0 * (np.linalg.norm(y[y > 0]) + np.linalg.norm(y[y < 0])))


@public
def norm_constant(norm: float, targets: Floats | list[float]) -> float:
    """Return C in ‖θ‖² = C·max|y|·√n: bounded with high probability by [incremental] Theorem 3."""
    y = vector(targets, "targets")
    if not np.any(y):
        raise InvalidInputError("targets: must not all be zero, for C divides by max|y|; got zeros only")
    return float(non_negative(norm, "norm") / (np.abs(y).max() * np.sqrt(len(y))))


TIE = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class JumpProcess(FrozenArrays):
    """Algorithm 1 without its inputs: J jumps of m neurons on n points.

    jump_times (J,) accelerated; neurons (J,), the first of its kind; fitted: the points of each jump;
    exponents (J + 1, m): ρ at the start and right after each jump (twins carry their group's, a fitted
    neuron 0); rates (J + 1, m): dρ/dτ on each plateau; losses (J + 1,); groups (m,): the first neuron with
    the same mask; ties: jumps whose neuron was not the only one to reach zero; unfitted: points left at the
    end.
    """

    jump_times: Floats
    neurons: Ints
    fitted: tuple[Ints, ...]
    exponents: Floats
    rates: Floats
    losses: Floats
    groups: Ints
    ties: tuple[int, ...]
    unfitted: Ints
    squared_norm: float

    @property
    def interpolates(self) -> bool:
        """Whether every point is fitted at the end."""
        return not self.unfitted.size

    @property
    def gaps(self) -> Floats:
        """Gap of each jump (J,): |ρ| of the next neuron that shares a point with the one that jumps.

        The flow's parameters differ from the limit's by about α^gap; ∞ where no one shares a point.
        """
        found = np.full(len(self.neurons), np.inf)
        for i, neuron in enumerate(self.neurons):
            shares = (
                (self.rates[i + 1] < self.rates[i]) & (self.groups != neuron) & (self.exponents[i + 1] < 0)
            )
            if shares.any():
                found[i] = float(-self.exponents[i + 1][shares].max())
        return found

    @property
    def settling(self) -> Floats:
        """Growth of ρ until the next jump (J,), least of the neurons that turn at a jump and jump later.

        Times ln(1/α) it must be large for the first-order correction: else they are turned again before they
        have settled. ∞ where no such neuron turns.
        """
        found = np.full(len(self.neurons), np.inf)
        for i, wait in enumerate(np.diff(self.jump_times)):
            turns = (self.rates[i + 1] < self.rates[i]) & np.isin(self.groups, self.neurons[i + 1 :])
            if turns.any():
                found[i] = float(self.rates[i + 1][turns].min() * wait)
        return found


def jump_process(mask: Bools, targets: Floats, norms: Floats | None = None) -> JumpProcess:
    """Run Algorithm 1 on a mask matrix (n, m) and labels (n,): O(n·m), whatever the number of jumps.

    γ_j = (1/n) √(Σ_{k ∈ M_j ∩ S} (ν_k y_k)²) over the unfitted points S; the next jump is that of the least
    −ρ_j/γ_j. norms (n,): ν, those of the inputs (None: ones). For data too large to hold their inputs; else
    call `saddle_to_saddle`.

    Examples
    --------
    >>> process = jump_process(np.array([[True, True], [False, True]]), np.array([3.0, 4.0]))
    >>> process.jump_times, process.neurons, process.interpolates
    (array([0.4]), array([1]), True)
    """
    targets = checked_mask(mask, targets)
    lengths = np.ones(len(targets)) if norms is None else vector(norms, "norms")
    same_length(targets, lengths, "targets, norms")
    n, m = mask.shape
    groups, drives, squares = first_of_kind(mask), (lengths * targets) ** 2, targets**2
    alive = groups == np.arange(m)
    left, rows = np.arange(n), mask
    exponents, now = np.full(m, -1.0), 0.0
    times, neurons, fitted, ties = list[float](), list[int](), list[Ints](), list[int]()
    history, rates, losses = [exponents[groups]], list[Floats](), [float(squares.sum()) / (2 * n)]
    while True:
        rate = np.where(alive, np.sqrt(drives[left] @ rows) / n, 0.0)
        rates.append(rate[groups])
        if not rate.any():
            break
        waits = np.divide(-exponents, rate, out=np.full(m, np.inf), where=rate > 0)
        j = int(np.argmin(waits))
        now += float(waits[j])
        if np.sum(waits - waits[j] <= TIE * max(now, 1e-300)) > 1:
            ties.append(len(times))
        exponents = np.minimum(exponents + rate * waits[j], 0.0)
        exponents[j], alive[j] = 0.0, False
        chosen = rows[:, j]
        times.append(now)
        neurons.append(j)
        fitted.append(left[chosen])
        left, rows = left[~chosen], rows[~chosen]
        history.append(exponents[groups])
        losses.append(float(squares[left].sum()) / (2 * n))
    return JumpProcess(
        np.array(times),
        np.array(neurons, dtype=np.int64),
        tuple(fitted),
        np.array(history),
        np.array(rates),
        np.array(losses),
        groups,
        tuple(ties),
        left,
        2.0 * sum(float(np.linalg.norm(targets[points] / lengths[points])) for points in fitted),
    )


PASSENGER = -1e4
"""ln‖w‖ of a neuron that is moved and moves nothing: e^{2·(−10⁴)} is 0."""
TURN = 20.0
"""Half-width of a jump in units of 1/γ: e^{−2·20} is beyond rounding."""
ALIGNED = 200.0
"""Time, in units of 1/γ, after which a neuron has turned to its points to rounding."""


def start_offsets(directions: Floats, signs: Floats, drives: Floats, mask: Bools) -> Floats:
    """Return lim ln‖w_j(t)‖/‖w_j(0)‖ − γ_j t on the first plateau, (m,); 0 for neurons that never grow.

    directions (m, n): the positive parts of ⟨w̄_j, x_k⟩/‖x_k‖; drives (n,): ‖x_k‖y_k; mask (n, m).
    """
    from shallowflow.kernels.orthogonal.step import Deaths, leap

    size = len(drives)
    rates = np.sqrt(drives**2 @ mask) / size
    offsets, deaths = np.zeros(len(signs)), Deaths(np.empty(size), np.empty(size, np.int64))
    for j in np.flatnonzero(rates > 0):
        time = ALIGNED / rates[j]
        g, factor = directions[j].copy(), signs[j] / size
        grown, _, _ = leap(0.0, g, drives.copy(), factor, time, -np.inf, deaths)
        offsets[j] = grown - ALIGNED
    return offsets


def jump_corrections(
    process: JumpProcess, offsets: Floats, mask: Bools, targets: Floats, norms: Floats
) -> Floats:
    """Return C_i for every jump, (J,); `offsets` (m,) are ln‖w̃_j‖ + `start_offsets`, groups as one neuron."""
    corrections, last, offsets = np.empty(len(process.neurons)), 0.0, offsets.copy()
    left, rates = np.ones(len(targets), np.bool_), process.rates
    for i, (neuron, points) in enumerate(zip(process.neurons, process.fitted, strict=True)):
        half_log_norm = 0.5 * np.log(np.linalg.norm(targets[points] / norms[points]))
        passed = float((half_log_norm - offsets[neuron]) / rates[i][neuron])
        last += passed
        offsets += rates[i] * passed
        turning = (rates[i + 1] > 0) & (rates[i + 1] < rates[i])
        shift = 0.0
        if np.all(norms[points] == norms[points[0]]):
            on_fitted = (norms[points] * targets[points]) ** 2 @ mask[np.ix_(points, np.flatnonzero(turning))]
            fading, own = np.sqrt(on_fitted) / len(targets), rates[i][neuron]
            offsets[turning] += turn_offsets(fading / own, rates[i + 1][turning] / own)
        else:
            members = np.append(neuron, np.flatnonzero(turning))
            drawn = mask[np.ix_(left, members)].T * np.abs(targets[left])
            shift, turned = jump_beside(
                drawn, np.isin(np.flatnonzero(left), points), norms[left], mask.shape[0]
            )
            offsets[turning] += turned
        corrections[i] = last + shift
        left[points] = False
    return corrections


def jump_beside(labels: Floats, fitted: Bools, norms: Floats, size: int) -> tuple[float, Floats]:
    """Return when u = N/2, and how far the jump of the first of some neurons shifts ln‖w‖ of the others.

    labels (1 + t, p): |y_k| on the unfitted points in a neuron's mask, else 0; fitted (p,): the points of the
    jump. Time from where the straight line of the neuron that jumps reaches ½ ln N; n = size.
    """
    from scipy.optimize import brentq

    from shallowflow.kernels.orthogonal.flow import Clock, integrate, replay
    from shallowflow.kernels.orthogonal.step import problem_of

    drives = labels * norms
    rates, y = np.linalg.norm(drives, axis=1) / size, labels.max(axis=0)
    end = float(np.linalg.norm(y[fitted] / norms[fitted]))
    # From e^{−2·TURN} N to where the slowest point has settled as far: it has rate a²ν²/n at least.
    before, after = TURN / rates[0], TURN * max(1 / rates[0], size / (end * np.min(norms[fitted]) ** 2))
    rho = np.full(len(labels), PASSENGER)
    rho[0] = 0.5 * np.log(end) - TURN
    g = drives / np.linalg.norm(drives, axis=1, keepdims=True)
    problem = problem_of(np.ones(len(labels)), y, 1.0 / size, 1e-14, norms)
    started, clock = rho.copy(), Clock(0.0, before + after, 0.0)
    times, states = [0.0], [(rho.copy(), g.copy())]
    while clock.time < clock.until:
        _, clock, path = integrate(rho, g, problem, clock, 1e-12, 256)
        times += path.times.tolist()
        states += zip(path.rho, path.g, strict=True)
    half = next(i for i, (values, _) in enumerate(states) if values[0] >= 0.5 * np.log(0.5 * end))

    def excess(time: float) -> float:
        now, beside = states[half - 1][0].copy(), states[half - 1][1].copy()
        replay(now, beside, problem, time - times[half - 1])
        return float(now[0] - 0.5 * np.log(0.5 * end))

    moment = brentq(excess, times[half - 1] * (1 + 1e-15), times[half], xtol=1e-13 * before)
    lasting = np.linalg.norm(drives[:, ~fitted], axis=1) / size
    turned = rho - started - rates * before - lasting * after
    aligned = np.einsum("jk,jk->j", g[:, ~fitted], drives[:, ~fitted])[1:] / (size * lasting[1:])
    return float(moment - before), turned[1:] + np.log((1.0 + aligned) / 2.0)


def turn_offsets(fading: Floats, lasting: Floats) -> Floats:
    """Return how far a jump shifts ln‖w‖ off its two straight lines, for drives in units of the jump's γ.

    With p = (p₁, p₂) the direction and φ(s) = 1/(1 + e^{2s}):
    ρ' = φ·fading·p₁ + lasting·p₂, p₁' = φ·fading − p₁ρ', p₂' = lasting − p₂ρ'.
    """
    from scipy.integrate import solve_ivp

    if not len(fading):
        return np.zeros(0)
    before = np.hypot(fading, lasting)

    def velocity(s: float, state: Floats) -> Floats:
        _, first, second = state.reshape(3, -1)
        faded = fading / (1.0 + np.exp(2.0 * s))
        growth = faded * first + lasting * second
        return np.concatenate([growth, faded - first * growth, lasting - second * growth])

    start = np.concatenate([np.zeros_like(fading), fading / before, lasting / before])
    end = solve_ivp(velocity, (-TURN, TURN), start, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    grown, _, second = end.reshape(3, -1)
    turned: Floats = grown - TURN * (before + lasting) + np.log((1.0 + second) / 2.0)
    return turned


def points_left(size: int, width: int, delta: float = 0.05) -> tuple[Ints, Ints]:
    """Return bounds (width + 1,) on the points left after 0, 1, … jumps, [incremental] Prop. 4 and Cor. 1.

    Both hold together, whichever neurons jump, with probability at least 1 − δ over the start; size, width:
    points and neurons of one sign.

    Examples
    --------
    >>> low, high = points_left(10_000, 20)
    >>> low[:4], high[:4]
    (array([10000,  4808,  2313,  1096]), array([10000,  5192,  2690,  1409]))
    """
    from scipy.special import gammaln

    size, width = count(size, "size"), count(width, "width")
    jumps = np.arange(1, width + 1)
    choices = gammaln(width + 1) - gammaln(jumps + 1) - gammaln(width - jumps + 1)
    tail = np.exp(np.log(probability(delta, "delta") / (2 * width)) - choices)
    share: Floats = np.exp2(-jumps.astype(np.float64))
    high, low = _fewest(size, share, tail), size - _fewest(size, 1.0 - share, tail)
    return np.append(size, low), np.append(size, high)


def _fewest(size: int, share: Floats, tail: Floats) -> Ints:
    """Return the smallest k with P(Bin(n, share) > k) ≤ tail for every share, by halving the range of k."""
    from scipy.special import betainc

    low, high = np.full(len(share), -1, dtype=np.int64), np.full(len(share), size, dtype=np.int64)
    while np.any(high - low > 1):
        middle = np.maximum((low + high) // 2, 0)
        rare = betainc(middle + 1.0, np.maximum(size - middle, 1), share) <= tail
        low, high = np.where(rare, low, middle), np.where(rare, middle, high)
    return high


def norm_bound(targets: ArrayLike, width: int, delta: float = 0.05) -> float:
    """Return a bound on ‖θ_∞‖² of Algorithm 1 that holds with probability 1 − δ, [incremental] Theorem 3.

    targets (n,): of both signs or one; width: neurons of both signs together. Of the order max|y|·√n, and
    never above 2 Σ|y|, which one neuron per point would have.

    Examples
    --------
    >>> bound = norm_bound(np.ones(10_000), 40)
    >>> bool(bound / np.sqrt(10_000) < 7.5)
    True
    """
    y = vector(targets, "targets")
    if not np.any(y):
        raise InvalidInputError("targets: must not all be zero, got zeros only")
    sizes = [int(np.sum(sign * y > 0)) for sign in (1, -1)]
    signs = [size for size in sizes if size]
    sums = (_largest_sum(size, width, delta / len(signs)) for size in signs)
    return float(2.0 * min(np.abs(y).max() * sum(sums), np.abs(y).sum()))


def _largest_sum(size: int, width: int, delta: float) -> float:
    """Return max Σ √|A_u| over the sizes of jumps that leave no more than `points_left` allows."""
    ceiling = points_left(size, width, 2 * delta)[1].astype(np.float64)  # the lower bounds need no share
    ceiling = np.minimum.accumulate(ceiling)
    ceiling[-1] = 0.0  # all jumps are made: what was never fitted is in no jump
    corners = [0]
    for u in range(1, len(ceiling)):
        while len(corners) > 1 and _above(ceiling, corners[-2], corners[-1], u):
            corners.pop()
        corners.append(u)
    curve = np.interp(np.arange(len(ceiling)), corners, ceiling[corners])
    return float(np.sum(np.sqrt(-np.diff(curve))))


def _above(values: Floats, first: int, middle: int, last: int) -> bool:
    """Return whether a value lies on or above the chord of two others."""
    chord = values[first] + (values[last] - values[first]) * (middle - first) / (last - first)
    return bool(values[middle] >= chord)


def fitted_shares(process: JumpProcess, targets: ArrayLike) -> tuple[Floats, Ints]:
    """Return for every jump the share of the points of its sign left that it fits, and their number, (J,).

    About ½ each while many are left, [incremental] §5.

    Examples
    --------
    >>> from shallowflow.landscape.incremental import jump_process
    >>> mask = np.array([[True, False], [True, False], [False, True], [False, True]])
    >>> fitted_shares(jump_process(mask, np.array([3.0, 3.0, 2.0, 1.0])), [3.0, 3.0, 2.0, 1.0])
    (array([0.5, 1. ]), array([4, 2]))
    """
    y = vector(targets, "targets")
    left = {True: int(np.sum(y > 0)), False: int(np.sum(y < 0))}
    shares, numbers = list[float](), list[int]()
    for points in process.fitted:
        positive = bool(y[points[0]] > 0)
        numbers.append(left[positive])
        shares.append(len(points) / left[positive])
        left[positive] -= len(points)
    return np.array(shares), np.array(numbers, dtype=np.int64)
