"""`StepRegressor`: piecewise constant functions by two-timescale training of a network of steps."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from shallowflow.arrays import Floats, Ints, count, non_negative, one_of, positive
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.estimators.one_feature import OneFeatureRegressor
from shallowflow.estimators.points import Points, merged_points
from shallowflow.estimators.step_cuts import pruned, refined, sums_of
from shallowflow.estimators.step_training import Training, train
from shallowflow.models.networks import StepNetwork

INITS = ("even", "uniform")
TRAINED_POINTS = 5000
"""Neighbouring points are merged to about this many for the training; cuts are placed on all of them."""
SPACING_SHARE = 0.5
"""The default sharpness, as a share of the mean distance of the neurons."""


class StepRegressor(OneFeatureRegressor):
    """Fit a piecewise constant function to one feature by training a network of steps in two timescales.

    The sorted data are a step function of the share t ∈ [0, 1] of their weight. A network of `n_neurons`
    smooth steps is trained against it by the flow of [two_timescale] with exact integrals, positions slow
    and weights fast, until nothing moves; then each position becomes a cut at the best place within its
    window, and cuts that do not pay for themselves are pruned, with the penalty of Zhang and Siegmund (2007).
    The order of rows, units of x and y and repeated x make no difference.

    **When to use something else.** Finding the best cuts of a sequence is a solved problem: dynamic
    programming (`ruptures.KernelCPD`, `ruptures.Dynp`) finds the optimum, and a decision tree is faster.
    This estimator is the paper's training as a tool: use it to study that training, or where a network is
    wanted. It can miss jumps that have too few neurons around them, and pieces shorter than the spacing
    1/n_neurons.

    Parameters
    ----------
    n_neurons : neurons at the start, the most jumps that can be found.
    epsilon : ratio of the steps of positions and weights; 0 is the two-timescale limit, in which the weights
        are the best ones at every moment.
    sharpness : width of a step in shares of the weight; None: half the mean distance of the neurons.
    init : positions at the start: "even", or "uniform" at random as in the paper.
    prune : whether to drop cuts that do not pay, see `step_cuts.pruned`; otherwise all positions become cuts.
    max_time : most slow time τ, for targets scaled to [−1, 1].
    max_iter : most steps of the training.
    tol : the training stops when the gradient in the positions (epsilon > 0: in everything) is this small.
    random_state : seed of the uniform start.

    Attributes
    ----------
    jumps_ : (K,), increasing, where the function jumps.
    values_ : (K + 1,), the values of its pieces.
    n_jumps_ : K.
    network_ : the same function as a `StepNetwork` of sharpness 0.
    trained_network_ : the network at the end of the training, on [0, 1] and scaled targets.
    converged_ : whether the training stopped by `tol`, or because no step, however short, lowered the loss.
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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to X (n, 1) and y (n,) with weights ≥ 0 (n,); a weight k is worth k equal rows."""
        start, sharpness = self._start()
        x, targets = self._validated(X, y)
        weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        points = merged_points(x, targets, weights, centred=True)
        cuts = np.empty(0, np.int64)
        self.trained_network_, self.n_iter_, self.converged_ = StepNetwork(start, 0.0 * start), 1, True
        if len(points.x) > 1:
            run = self._train(points, StepNetwork(start, np.zeros(len(start)), 0.0, sharpness))
            self.trained_network_, self.converged_ = run.network, run.converged
            self.n_iter_ = max(run.steps, 1)
            cuts = self._cuts(points, run.network.positions, sharpness)
        self._remember(points, cuts)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return f at the rows of X, (n, 1) → (n,)."""
        check_is_fitted(self)
        x = self._column(validate_data(self, X, reset=False, dtype=np.float64))
        return np.asarray(self.values_[np.searchsorted(self.jumps_, x, side="right")])

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
            cuts = pruned(cuts, sums, reach, float(points.scatter.sum()))
        return cuts

    def _remember(self, points: Points, cuts: Ints) -> None:
        """Set the fitted attributes, in the original units."""
        sums = sums_of(points)
        centre = float(np.average(points.y, weights=points.w))
        x = points.low + points.half * points.x
        self.jumps_ = 0.5 * (x[cuts - 1] + x[cuts])
        self.values_ = points.centre + points.scale * (centre + sums.means(cuts))
        self.n_jumps_ = len(cuts)
        self.network_ = StepNetwork(
            self.jumps_ if len(cuts) else x[:1],
            np.diff(self.values_) if len(cuts) else [0.0],
            self.values_[0],
        )
