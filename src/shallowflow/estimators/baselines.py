"""What ANLS is compared with in [plateau] §5.2, as estimators: LSQ, GD, Adam, LS/GD and LS/Adam.

All train a `KnotNetwork` that starts from `initialize.he_knots`, made for inputs in [−1, 1]: so the inputs
are mapped onto [−1, 1] (the paper's stay as they are), and the targets divided by the power of two that
brings them into it. Losses are those of `ANLSRegressor`: ½ Σ (f(x_i) − y_i)².
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from shallowflow.arrays import Floats, count, one_of, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.baselines import INNER, adam, alternating_least_squares, least_squares_outer
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Pieces, UnivariateRegressor
from shallowflow.models.initialize import he_knots
from shallowflow.models.networks import KnotNetwork, Network

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
