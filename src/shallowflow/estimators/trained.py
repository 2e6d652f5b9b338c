"""Estimators that train a network: the methods that ANLS is compared with, and `StepRegressor`.

**The methods that ANLS is compared with** train a `KnotNetwork` that starts from `initialize.he_knots`, made
for inputs in [−1, 1]: so the inputs are mapped onto [−1, 1] (the paper's stay as they are), and the targets
divided by the power of two that brings them into it. Losses are as in `ANLSRegressor`: ½ Σ (f(x_i) − y_i)².

**`StepRegressor`**: piecewise constant functions by two-timescale training of a network of steps.

**Training**, until nothing moves, makes linearly implicit steps in the slow time τ. The flow is (4) of
[two_timescale], du/dτ = −∇_u L, da/dτ = −(1/ε)∇_a L. A step of length δ moves

    u_j ← u_j − δ g_j/(1 + δ h_j),   g = ∇_u L,   h_j = (9/5) a_j²/η,

with h_j the curvature of a neuron that has arrived at its jump (∫σ'² = 9/5), so that settled neurons do not
limit δ; then a ← (I + (δ/ε)H)⁻¹(a + (δ/ε)b), or a*(u) for ε = 0. The loss falls along the flow: a step after
which it is higher is made again with half of δ. No neuron moves by more than a quarter of its window at once.

**Cuts** of the sorted data into constant pieces then take the best places near the positions found, and those
that are not needed are pruned.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from shallowflow.arrays import Floats, Ints, count, non_negative, one_of, positive
from shallowflow.data.dataset import Dataset, PiecewiseConstant
from shallowflow.dynamics.baselines import INNER, adam, alternating_least_squares, least_squares_outer
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import (
    OneFeatureRegressor,
    Pieces,
    Points,
    UnivariateRegressor,
    merged_points,
)
from shallowflow.estimators.cuts import criterion_of, exact_cuts, pruned, refined, sums_of
from shallowflow.kernels.fitting.exact import divisions
from shallowflow.landscape.two_timescale.population import (
    best_outer,
    feature_gram,
    feature_moments,
    population_gradient,
    step_loss,
)
from shallowflow.models.initialize import he_knots
from shallowflow.models.networks import KnotNetwork, Network, StepNetwork

LOSSES = Record.geometric(networks=False)


@dataclass(frozen=True, eq=False)
class UnitData:
    """Data x = middle + half · input, y = scale · target with inputs and targets in [−1, 1]."""

    dataset: Dataset
    middle: float
    half: float
    scale: float

    @classmethod
    def of(cls, x: Floats, y: Floats) -> Self:
        """Return x (n,) and y (n,) on the unit scale."""
        low, high, largest = float(x.min()), float(x.max()), float(np.abs(y).max())
        if not np.isfinite(high - low):
            raise InvalidInputError(f"X: the range must be finite, got {low:g} to {high:g}")
        middle, half = low + 0.5 * (high - low), 0.5 * (high - low) or 1.0
        scale = 2.0 ** np.ceil(np.log2(largest)) if largest else 1.0
        return cls(Dataset(((x - middle) / half)[:, None], y / scale), middle, half, scale)

    def pieces(self, network: KnotNetwork) -> Pieces:
        """Return the function of a network trained on the unit scale, in the original units."""
        knots = self.middle + self.half * network.knots
        restored = KnotNetwork(knots, network.outer * (self.scale / self.half))
        return Pieces.of_network(restored, self.middle - self.half, self.middle + self.half)

    def half_sums(self, means: Floats) -> Floats:
        """Return ½ Σ r² in the original units from halves of mean squares."""
        return np.asarray(means) * self.dataset.size * self.scale**2


class LSQRegressor(UnivariateRegressor):
    """LSQ: random knots that stay where they are, and the outer weights of least squares.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 100)[:, None]
    >>> bool(LSQRegressor(30, random_state=0).fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.9)
    True
    """

    def __init__(self, n_knots: int = 10, *, random_state: int | np.random.RandomState | None = None) -> None:
        self.n_knots = n_knots
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to X (n, 1) and y (n,)."""
        data = UnitData.of(*self._validated(X, y))
        network = least_squares_outer(started(self.n_knots, self.random_state), data.dataset)
        assert isinstance(network, KnotNetwork)
        residuals = network.predict(data.dataset.inputs) - data.dataset.targets
        self._remember(data.pieces(network))
        self.loss_history_ = data.half_sums(0.5 * np.mean(residuals**2, keepdims=True))
        self.n_iter_ = 1
        return self


class _TrainedRegressor(UnivariateRegressor):
    """A network trained for max_iter steps of size `step`, by the method of the subclass."""

    n_knots: int
    step: float
    max_iter: int
    random_state: int | np.random.RandomState | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to X (n, 1) and y (n,)."""
        positive(self.step, "step")
        count(self.max_iter, "max_iter")
        data = UnitData.of(*self._validated(X, y))
        trajectory = self._train(started(self.n_knots, self.random_state), data.dataset)
        if not trajectory.outcome.ok:
            warnings.warn(str(trajectory.outcome), ConvergenceWarning, stacklevel=2)
        network = trajectory.final
        assert isinstance(network, KnotNetwork)
        self._remember(data.pieces(network))
        self.loss_history_ = data.half_sums(trajectory.losses)
        self.n_iter_ = int(trajectory.statistics["steps"])
        return self

    def _train(self, network: Network, dataset: Dataset) -> Trajectory:
        raise NotImplementedError


class GDRegressor(_TrainedRegressor):
    """GD: full-batch gradient descent on knots and outer weights, for the mean squared error.

    `loss_history_` has the losses at about 200 geometric numbers of steps.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 100)[:, None]
    >>> model = GDRegressor(30, max_iter=2000, random_state=0).fit(x, x[:, 0] ** 2)
    >>> bool(model.loss_history_[-1] < model.loss_history_[0]), model.n_iter_
    (True, 2000)
    """

    def __init__(
        self,
        n_knots: int = 10,
        *,
        step: float = 1e-3,
        max_iter: int = 10_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_knots = n_knots
        self.step = step
        self.max_iter = max_iter
        self.random_state = random_state

    def _train(self, network: Network, dataset: Dataset) -> Trajectory:
        return gradient_descent(network, dataset, step=self.step, steps=self.max_iter, record=LOSSES)


class AdamRegressor(GDRegressor):
    """Adam: the adaptive descent of Kingma & Ba (2015) on knots and outer weights; parameters as for GD."""

    def _train(self, network: Network, dataset: Dataset) -> Trajectory:
        return adam(network, dataset, step=self.step, steps=self.max_iter, record=LOSSES)


class AlternatingRegressor(_TrainedRegressor):
    """LS/GD (inner="gd") or LS/Adam (inner="adam"): one step on the knots, then least squares; again.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 100)[:, None]
    >>> model = AlternatingRegressor(30, inner="adam", max_iter=100, random_state=0).fit(x, x[:, 0] ** 2)
    >>> bool(model.score(x, x[:, 0] ** 2) > 0.99)
    True
    """

    def __init__(
        self,
        n_knots: int = 10,
        *,
        inner: str = "gd",
        step: float = 1e-3,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_knots = n_knots
        self.inner = inner
        self.step = step
        self.max_iter = max_iter
        self.random_state = random_state

    def _train(self, network: Network, dataset: Dataset) -> Trajectory:
        inner = one_of(self.inner, "inner", INNER)
        return alternating_least_squares(
            network, dataset, inner=inner, step=self.step, steps=self.max_iter, record=LOSSES
        )


def started(n_knots: int, random_state: int | np.random.RandomState | None) -> KnotNetwork:
    """Return the network to start from; an integer random_state is the seed of `he_knots`."""
    width = count(n_knots, "n_knots")
    if isinstance(random_state, int | np.integer):
        return he_knots(width, seed=int(random_state))
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return he_knots(width, seed=seed)


INITS = ("even", "uniform")
METHODS = ("training", "exact")
MOST_EXACT, CHEAP_EXACT = 5000, 1000
"""Dynamic programming is quadratic in the points: merged beyond the first, done unasked up to the second."""
REFINED_REACH = 20
TRAINED_POINTS = 5000
"""Neighbouring points are merged to about this many for the training; cuts are placed on all of them."""
SPACING_SHARE = 0.5
"""The default sharpness, as a share of the mean distance of the neurons."""
MOVE, FIRST, GROWTH = 0.25, 1e-3, 1.5
ARRIVED = 9.0 / 5.0
TINY = 1e-12
"""Steps in τ below this are given up: the network is at rest up to rounding."""


class StepRegressor(OneFeatureRegressor):
    """Fit a piecewise constant function to one feature by training a network of steps in two timescales.

    The sorted data are a step function of the share t ∈ [0, 1] of their weight. A network of `n_neurons`
    smooth steps is trained against it by the flow of [two_timescale] with exact integrals, positions slow
    and weights fast, until nothing moves; then each position becomes a cut at the best place within its
    window, and cuts that do not pay for themselves are pruned, with the penalty of Zhang and Siegmund (2007).
    The order of rows, units of x and y and repeated x make no difference.

    **When to use something else.** Finding the best cuts of a sequence is a solved problem: `method="exact"`
    does so by dynamic programming, with the same penalty, and is what to use on data. The training is the
    paper's, as a tool: use it to study that training, or where a network is wanted. It can miss jumps that
    have too few neurons around them, and pieces shorter than the spacing 1/n_neurons; `notes_` says so where
    the exact cuts are better.

    Parameters
    ----------
    n_neurons : neurons at the start, the most jumps that can be found.
    epsilon : ratio of the steps of positions and weights; 0 is the two-timescale limit, in which the weights
        are the best ones at every moment.
    sharpness : width of a step in shares of the weight; None: half the mean distance of the neurons.
    init : positions at the start: "even", or "uniform" at random as in the paper.
    prune : whether to drop cuts that do not pay, see `pruned`; otherwise all positions become cuts.
    max_time : most slow time τ, for targets scaled to [−1, 1].
    max_iter : most steps of the training.
    tol : the training stops when the gradient in the positions (epsilon > 0: in everything) is this small.
    random_state : seed of the uniform start.
    method : "training", or "exact": the best cuts there are, at most n_neurons, without any training.

    Attributes
    ----------
    jumps_ : (K,), increasing, where the function jumps.
    values_ : (K + 1,), the values of its pieces.
    n_jumps_ : K.
    network_ : the same function as a `StepNetwork` of sharpness 0.
    trained_network_ : the network at the end of the training, on [0, 1] and scaled targets.
    converged_ : whether more training would have changed nothing: it came to rest, or its cuts were the same
        after half of its steps.
    stopped_ : what ended the training: "rest", "max_time" or "max_iter" ("exact": there was none).
    optimal_ : whether no other cuts, as many, have a lower loss; None: not tried beyond 1,000 points.
    notes_ : sentences on what ended the training, and whether the exact cuts are better.
    n_iter_ : steps of the training.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 10, 200)
    >>> model = StepRegressor().fit(x[:, None], np.where(x < 4, 1.0, 3.0))
    >>> model.jumps_.round(1), model.values_.round(6)
    (array([4.]), array([1., 3.]))
    """

    def __init__(
        self,
        n_neurons: int = 20,
        *,
        epsilon: float = 0.0,
        sharpness: float | None = None,
        init: str = "even",
        prune: bool = True,
        max_time: float = 200.0,
        max_iter: int = 2000,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
        method: str = "training",
    ) -> None:
        self.n_neurons = n_neurons
        self.epsilon = epsilon
        self.sharpness = sharpness
        self.init = init
        self.prune = prune
        self.max_time = max_time
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.method = method

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to X (n, 1) and y (n,) with weights ≥ 0 (n,); a weight k is worth k equal rows."""
        start, sharpness = self._start()
        x, targets = self._validated(X, y)
        weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        points = merged_points(x, targets, weights)
        cuts, self.notes_ = np.empty(0, np.int64), list[str]()
        self.trained_network_, self.n_iter_, self.converged_ = StepNetwork(start, 0.0 * start), 1, True
        self.stopped_: str = "rest"
        if one_of(self.method, "method", METHODS) == "exact":
            cuts, self.stopped_ = exact_cuts(points.coarser(MOST_EXACT), self.n_neurons), "exact"
            if len(points.x) > MOST_EXACT:
                cuts = refined(cuts * -(-len(points.x) // MOST_EXACT), sums_of(points), REFINED_REACH)
        elif len(points.x) > 1:
            run = self._train(points, StepNetwork(start, np.zeros(len(start)), 0.0, sharpness))
            self.trained_network_, self.stopped_ = run.network, run.stopped
            self.n_iter_ = max(run.steps, 1)
            cuts = self._cuts(points, run.network.positions, sharpness)
            halfway = self._cuts(points, run.halfway.positions, sharpness)
            self.converged_ = run.stopped == "rest" or np.array_equal(cuts, halfway)
        self._compare(points, cuts)
        self._remember(points, cuts)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return f at the rows of X, (n, 1) → (n,)."""
        x = self._places(X)
        return np.asarray(self.values_[np.searchsorted(self._cuts_at, x, side="right")])

    def _compare(self, points: Points, cuts: Ints) -> None:
        """Set `optimal_` and `notes_` by the exact cuts, where these are cheap."""
        if not self.converged_:
            limit = getattr(self, self.stopped_)
            self.notes_.append(f"The training was still changing its cuts at {self.stopped_} = {limit:g}.")
        self.optimal_: bool | None = None
        if len(points.x) > CHEAP_EXACT:
            return
        scatter, sums = float(points.scatter.sum()), sums_of(points)
        costs, _ = divisions(points.x, points.y, points.w, len(cuts), lines=False)
        own, slack = sums.total(cuts), 1e-9 * (sums.total(np.empty(0, np.int64)) + scatter)
        self.optimal_ = bool(own <= costs[-1] + slack)
        if self.method == "exact" or not self.prune:
            return
        exact = exact_cuts(points, self.n_neurons)
        if (
            criterion_of(exact, sums, scatter, points.size)
            < criterion_of(cuts, sums, scatter, points.size) - 1e-6
        ):
            self.notes_.append(
                f"The exact step fit is better by the criterion, with {len(exact)} jumps: method='exact'."
            )

    def _start(self) -> tuple[Floats, float]:
        """Return positions and sharpness at the start; refuse bad parameters."""
        width = count(self.n_neurons, "n_neurons")
        non_negative(self.epsilon, "epsilon")
        positive(self.max_time, "max_time")
        positive(self.tol, "tol")
        share = SPACING_SHARE / width if self.sharpness is None else positive(self.sharpness, "sharpness")
        if one_of(self.init, "init", INITS) == "even":
            return (np.arange(width) + 0.5) / width, share
        return np.sort(check_random_state(self.random_state).random_sample(width)), share

    def _train(self, points: Points, network: StepNetwork) -> Training:
        """Follow the flow against the data as a step function of their weight's share."""
        coarse = points.coarser(TRAINED_POINTS)
        shares = np.cumsum(coarse.w) / coarse.w.sum()
        distinct = np.flatnonzero(np.diff(np.concatenate([[0.0], shares[:-1], [1.0]])) > 0)
        target = PiecewiseConstant(shares[distinct][:-1], coarse.y[distinct])
        return train(
            network,
            target,
            epsilon=self.epsilon,
            until=self.max_time,
            stop=self.tol,
            most=count(self.max_iter, "max_iter"),
        )

    def _cuts(self, points: Points, positions: Floats, sharpness: float) -> Ints:
        """Return the cuts (numbers of points left of them) that positions mean, refined and pruned."""
        size = len(points.x)
        shares = np.concatenate([[0.0], np.cumsum(points.w) / points.w.sum()])
        nearest = np.searchsorted(0.5 * (shares[1:] + shares[:-1]), positions)
        cuts = np.unique(nearest[(nearest > 0) & (nearest < size)])
        reach, sums = max(int(np.ceil(sharpness * size)), 1), sums_of(points)
        cuts = refined(cuts, sums, reach)
        if self.prune:
            cuts = pruned(cuts, sums, reach, float(points.scatter.sum()), points.size)
        return cuts

    def _remember(self, points: Points, cuts: Ints) -> None:
        """Set the fitted attributes, in the original units."""
        sums = sums_of(points)
        centre = float(np.average(points.y, weights=points.w))
        x = points.low + points.half * points.x
        self._cuts_at = 0.5 * (x[cuts - 1] + x[cuts])
        self.jumps_ = self._shown(self._cuts_at)
        self.values_ = points.centre + points.scale * (centre + sums.means(cuts))
        self.n_jumps_ = len(cuts)
        self.network_ = StepNetwork(
            self._cuts_at if len(cuts) else x[:1],
            np.diff(self.values_) if len(cuts) else [0.0],
            self.values_[0],
        )


@dataclass(frozen=True)
class Training:
    """The network at the end and after half of the steps, how many there were, and what ended them."""

    network: StepNetwork
    steps: int
    stopped: str
    halfway: StepNetwork


def train(
    network: StepNetwork, target: PiecewiseConstant, *, epsilon: float, until: float, stop: float, most: int
) -> Training:
    """Train until ‖∇_u L‖ ≤ stop (epsilon > 0: also ‖∇_a L‖), the slow time `until`, or `most` steps."""
    now = best_outer(network, target) if epsilon == 0 else network
    loss, time, length, passed = step_loss(now, target), 0.0, FIRST, [now]

    def ended(steps: int, stopped: str) -> Training:
        return Training(now, steps, stopped, passed[len(passed) // 2])

    for steps in range(most):
        gradient = population_gradient(now, target)
        force = gradient["positions"]
        rest = 0.0 if epsilon == 0 else float(np.hypot(np.linalg.norm(gradient["outer"]), gradient["offset"]))
        if max(float(np.linalg.norm(force)), rest) <= stop:
            return ended(steps, "rest")
        if time >= until:
            return ended(steps, "max_time")
        length = min(length, until - time, _longest(now, force))
        moved, after = _attempt(now, target, force, length, epsilon)
        while after > loss * (1 + 1e-14) and length > TINY:
            length *= 0.5
            moved, after = _attempt(now, target, force, length, epsilon)
        if length <= TINY:
            return ended(steps, "rest")
        now, loss, time, length = moved, after, time + length, length * GROWTH
        passed.append(now)
    return ended(most, "max_iter")


def _longest(now: StepNetwork, force: Floats) -> float:
    """Return the length of a step by which the fastest neuron moves a quarter of its window."""
    move, curvature = MOVE * now.sharpness, ARRIVED * now.outer**2 / now.sharpness
    spare = np.abs(force) - move * curvature
    return float(np.min(move / spare[spare > 0], initial=np.inf))


def _attempt(
    now: StepNetwork, target: PiecewiseConstant, force: Floats, length: float, epsilon: float
) -> tuple[StepNetwork, float]:
    """Return the network after a step and its loss."""
    damping = 1.0 + length * ARRIVED * now.outer**2 / now.sharpness
    positions: Floats = now.positions - length * force / damping
    moved: StepNetwork = now.moved({"positions": positions})
    if epsilon == 0:
        moved = best_outer(moved, target)
    else:
        fast = length / epsilon
        a = np.append(now.offset, now.outer)
        system = np.eye(len(a)) + fast * feature_gram(moved)
        right = a + fast * feature_moments(moved, target)
        solved: Floats = np.linalg.solve(system, right).astype(np.float64)
        moved = moved.moved({"outer": solved[1:], "offset": np.asarray(solved[0], dtype=np.float64)})
    return moved, step_loss(moved, target)
