"""Saddle to saddle: the limit of gradient flow on orthogonal data as the start shrinks.

[incremental] Algorithm 1, for inputs of any norms (see `landscape.incremental`).

In accelerated time τ = t/ln(1/α) the norms are (1/α)^{ρ_j} with piecewise linear exponents ρ_j, and the
network rests at a saddle until an exponent reaches zero; that neuron then fits, at once, all its points that
are not fitted yet.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from shallowflow.arrays import (
    Bools,
    Floats,
    Ints,
    count,
    frozen,
    non_negative,
    positive,
    public,
    shown,
    vector,
)
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.codec import Arrays, FileKind, Header, check_shape, format_of
from shallowflow.dynamics.clock.loop import run
from shallowflow.dynamics.clock.problem import Record, check_problem
from shallowflow.dynamics.clock.protocol import Column, Event, Path, Piece, Rows, Statistics, Stop
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.files import as_path
from shallowflow.landscape.geometry.orthonormal import (
    check_labels,
    check_orthogonal,
    input_norms,
    mask_matrix,
    neuron_signs,
    never_fitted,
    unit_inputs,
)
from shallowflow.landscape.incremental import (
    JumpProcess,
    fitting_neuron,
    jump_corrections,
    jump_process,
    start_offsets,
)
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class Saddles(Path[ReLUNetwork]):
    """The saddles of a limit process: what determines them, from which Algorithm 1 is run when they are read.

    inputs (n, d), targets (n,); mask (n, m): 1 where a neuron is active on a point of its sign; signs (m,);
    shares (m,), corrections (J,): see `SaddleToSaddle`. So no file can contradict the algorithm.
    """

    kind: ClassVar[str] = "saddles"
    inputs: Annotated[Floats, Column(("n", "d"), "fixed")]
    targets: Annotated[Floats, Column(("n",), "fixed")]
    mask: Annotated[Ints, Column(("n", "m"), "fixed", whole=True, below="2")]
    signs: Annotated[Floats, Column(("m",), "fixed")]
    shares: Annotated[Floats, Column(("m",), "fixed")]
    corrections: Annotated[Floats, Column(("s",), "fixed")]

    @cached_property
    def process(self) -> JumpProcess:
        """Algorithm 1 on the mask."""
        return jump_process(self.mask.astype(np.bool_), self.targets, input_norms(self.inputs))

    def __call__(self, time: float) -> ReLUNetwork:
        """Return the network at an accelerated time ≥ 0; at a jump, the one after it."""
        reached = np.searchsorted(self.process.jump_times, non_negative(time, "time"), side="right")
        return self.saddle(int(reached))

    def saddle(self, jumps: int) -> ReLUNetwork:
        """Return the saddle visited after that many jumps."""
        process = self.process
        jumps = count(jumps, "jumps", at_least=0, at_most=len(process.neurons))
        inner = np.zeros((len(self.signs), self.inputs.shape[1]))
        outer = np.zeros(len(self.signs))
        for neuron, points in zip(process.neurons[:jumps], process.fitted[:jumps], strict=True):
            weights, size = fitting_neuron(self.inputs[points], self.targets[points])
            members = np.flatnonzero(process.groups == neuron)
            root = np.sqrt(self.shares[members])
            inner[members] = root[:, None] * weights
            outer[members] = self.signs[members] * root * size
        return ReLUNetwork(inner, outer)

    def check(self) -> None:
        """Refuse data, masks, signs, shares and times that do not belong together."""
        dataset = Dataset(self.inputs, self.targets)
        check_orthogonal(dataset, "a jump process")
        check_labels(dataset)
        # A mask is one where neuron and label agree in sign, at most: zeros and ones, signs of length one.
        agree = np.outer(self.targets, self.signs) > 0
        if np.any((self.mask < 0) | (self.mask > 1)) or np.any((self.mask == 1) & ~agree):
            raise FileFormatError("mask holds more than the points whose label has the neuron's sign")
        if np.any(np.abs(self.signs) != 1):
            raise FileFormatError("signs holds other numbers than −1 and 1")
        if np.any(self.shares < 0) or np.any(self.shares > 1):
            raise FileFormatError("shares must lie in [0, 1]")
        check_shape("path_times", self.times, (len(self.process.jump_times) + 1,))
        if not np.allclose(self.times[1:], self.process.jump_times, rtol=1e-9, atol=0.0):
            raise FileFormatError("path_times are not those of Algorithm 1 on the mask")


class _Jumping:
    """The whole process as one piece: there is nothing to step through."""

    name = "jumps"
    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Saddles

    def __init__(self, path: Saddles) -> None:
        self._path, self._jumps = path, 0

    def advance(self, until: float, rows: bool) -> Piece:
        """Jump to the end."""
        process = self._path.process
        self._jumps = len(process.neurons)
        pairs = zip(process.jump_times, process.neurons, strict=True)
        found = [Event(float(time), "jump", int(neuron)) for time, neuron in pairs]
        ties = f" Ties (Assumption 4 (ii) fails) at jumps {list(process.ties)}." if process.ties else ""
        known: dict[str, float | int | str] = {"jumps": self._jumps, "ties": ties}
        if not process.interpolates:
            # A neuron that jumps fits all its points: what is left at the end was in no neuron's mask.
            known["points"] = never_fitted(process.unfitted)
        stop = Stop("interpolates" if process.interpolates else "never fitted", known)
        return Piece(self._path.times, process.losses, events=lambda most: found[:most], stop=stop)

    def loss(self) -> float:
        """Return the loss ½·mean r² at the present saddle."""
        return float(self._path.process.losses[self._jumps])

    def network(self) -> ReLUNetwork:
        """Return the present saddle."""
        return self._path.saddle(self._jumps)

    def path(self, times: Floats, rows: Rows) -> Saddles:
        """Return the saddles."""
        return self._path

    def statistics(self) -> Statistics:
        """Numbers of jumps, ties, groups of neurons, idle neurons and points left; the squared norm."""
        process = self._path.process
        return {
            "jumps": len(process.neurons),
            "ties": len(process.ties),
            "groups": len(np.unique(process.groups[process.rates[0] > 0])),
            "idle": int(np.sum(process.rates[0] == 0)),
            "unfitted": len(process.unfitted),
            "interpolates": int(process.interpolates),
            "squared norm": process.squared_norm,
        }


@dataclass(frozen=True, eq=False, repr=False)
class SaddleToSaddle(Trajectory[ReLUNetwork]):
    """The limit process of a network on orthogonal data, piecewise constant in time.

    A `Trajectory` whose times are accelerated, τ = t/ln(1/α): in units of ln(1/α), where `gradient_flow` has
    plain t. It may be asked for any time τ ≥ 0.

    process: jump times, neurons, fitted points, exponents, rates, ties, groups (see `JumpProcess`);
    corrections C (J,): the flow from scale α jumps at τ_i + C_i/ln(1/α), up to terms that vanish faster;
    shares (m,): the part of its group's squared norm that falls to each neuron.
    """

    @property
    def _saddles(self) -> Saddles:
        assert isinstance(self.path, Saddles)
        return self.path

    @property
    def process(self) -> JumpProcess:
        """Algorithm 1: which neuron jumps when, and which points it fits."""
        return self._saddles.process

    @property
    def dataset(self) -> Dataset:
        """The data."""
        data = self.setting.data
        return data if isinstance(data, Dataset) else Dataset(self._saddles.inputs, self._saddles.targets)

    @property
    def mask(self) -> Bools:
        """Where a neuron is active on a point of its sign, (n, m)."""
        return frozen(self._saddles.mask.astype(np.bool_))

    @property
    def signs(self) -> Floats:
        """The signs of the outer weights, (m,)."""
        return self._saddles.signs

    @property
    def shares(self) -> Floats:
        """The part of its group's squared norm that falls to each neuron, (m,)."""
        return self._saddles.shares

    @property
    def corrections(self) -> Floats:
        """C_i (J,): the flow from scale α jumps at τ_i + C_i/ln(1/α)."""
        return self._saddles.corrections

    @property
    def jump_times(self) -> Floats:
        """Accelerated times of the jumps, (J,)."""
        return self.process.jump_times

    @property
    def neurons(self) -> Ints:
        """The neuron that jumps, (J,); the first of its group."""
        return self.process.neurons

    @property
    def interpolates(self) -> bool:
        """Whether the process ends at an interpolator."""
        return self.process.interpolates

    def __repr__(self) -> str:
        return (
            f"SaddleToSaddle({len(self.neurons)} jumps of {len(self.signs)} neurons, "
            f"loss {self.losses[0]:.4g} → {self.losses[-1]:.4g}, {self.outcome})"
        )

    @classmethod
    def load(cls, path: str | FilePath) -> SaddleToSaddle:
        """Read what `save` wrote; anything else raises `FileFormatError`."""
        path = as_path(path)
        if format_of(path) == VERSION_1.mark:
            return VERSION_1.read(path, _assemble)
        trajectory = Trajectory.load(path)
        if not isinstance(trajectory.path, Saddles):
            raise FileFormatError(f"{path}: holds the trajectory of a run, not a jump process")
        return _presented(trajectory)

    def to_xarray(self) -> xarray.Dataset:
        """Return loss, exponents and rates of the plateaus, by the accelerated time of their start."""
        import xarray

        by_neuron = ("accelerated_time", "neuron")
        return xarray.Dataset(
            {
                "loss": (("accelerated_time",), self.losses),
                "exponents": (by_neuron, self.process.exponents),
                "rates": (by_neuron, self.process.rates),
            },
            coords={"accelerated_time": self.times},
            attrs={"outcome": str(self.outcome), **self.statistics},
        )

    def saddle(self, jumps: int) -> ReLUNetwork:
        """Return the saddle visited after that many jumps."""
        return self._saddles.saddle(jumps)

    def exponents(self, time: float) -> Floats:
        """Return ρ_j at an accelerated time ≥ 0, (m,): ‖w_j‖ = (1/α)^ρ_j in the limit, piecewise linear."""
        plateau = int(np.searchsorted(self.jump_times, non_negative(time, "time")))
        passed = time - self.times[plateau]
        grown: Floats = self.process.exponents[plateau] + self.process.rates[plateau] * passed
        return np.minimum(grown, 0.0)

    def directions(self, jumps: int) -> Floats:
        """Return the directions that unfitted neurons take after that many jumps, [incremental] (9), (m, d).

        A neuron without an unfitted point has none: zeros.
        """
        jumps = count(jumps, "jumps", at_least=0, at_most=len(self.neurons))
        left = np.ones(self.dataset.size, dtype=np.bool_)
        for points in self.process.fitted[:jumps]:
            left[points] = False
        # Σ ν_k |y_k| x_k/ν_k: the drive along every point is ν_k y_k.
        pulls = (self.mask * left[:, None] * np.abs(self.dataset.targets)[:, None]).T @ self.dataset.inputs
        norms = np.linalg.norm(pulls, axis=1, keepdims=True)
        return np.asarray(np.divide(pulls, norms, out=np.zeros_like(pulls), where=norms > 0))

    def predicted_times(self, acceleration: float) -> Floats:
        """Return the flow's jump times from α = e^{−acceleration} to first order, τ + C/ln(1/α), (J,)."""
        return self.jump_times + self.corrections / positive(acceleration, "acceleration")


@public
def saddle_to_saddle(network: ReLUNetwork | LogScaledNetwork, dataset: Dataset) -> SaddleToSaddle:
    """Follow the jump process to which gradient flow tends as the start shrinks, [incremental] Algorithm 1.

    Inputs must be orthogonal and may have any norms ν: γ_j = (1/n)√Σ(ν_k y_k)², and a jump ends at a·w =
    Σ y_k x_k/ν_k².
    The network gives directions and signs; its scale does not matter. The square loss is ½·mean. Neurons with
    equal masks act as one, sharing its squared norm. Points on which no neuron of the right sign is active
    are named by the outcome: they can never be fitted. Its times are in units of ln(1/α): the flow from
    scale α jumps at about t = τ·ln(1/α), and that is what `until` of `gradient_flow` must reach.

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["orthonormal"](64, labels="positive", seed=0)
    >>> net = sf.initialize.log_scaled(20, 64, log_scale=-700.0, seed=0)
    >>> limit = sf.saddle_to_saddle(net, data)
    >>> error = abs(limit.final(data.inputs) - data.targets).max()
    >>> limit.interpolates, len(limit.neurons), bool(error < 1e-9)
    (True, 6, True)
    """
    check_plain(network)
    check_problem(network, dataset, log_scaled=True)
    check_orthogonal(dataset, "saddle_to_saddle")
    check_labels(dataset)
    signs, mask = neuron_signs(network), mask_matrix(network, dataset)
    units, lengths = unit_inputs(dataset.inputs)
    process = jump_process(mask, dataset.targets, lengths)
    norms = np.linalg.norm(network.inner, axis=1)
    if np.any(norms == 0):
        raise InvalidInputError(f"network: inner weights must not vanish, got 0 at index {np.argmin(norms)}")
    sizes = np.log(norms) + (network.log_scales if isinstance(network, LogScaledNetwork) else 0.0)
    directions = np.maximum(network.preactivations(units), 0.0) / norms[:, None]
    offsets = sizes - sizes.max() + start_offsets(directions, signs, lengths * dataset.targets, mask)
    shares, together = _shared(offsets, process.groups)
    corrections = jump_corrections(process, together, mask, dataset.targets, lengths)
    times = np.append(0.0, process.jump_times)
    data = dataset.inputs, dataset.targets, mask.astype(np.int64)
    start = ReLUNetwork(np.zeros_like(network.inner), np.zeros_like(network.outer))
    return _followed(Saddles(start, times, *data, signs, shares, corrections), dataset)


def check_plain(network: object) -> None:
    """Refuse anything but a ReLU network without a leaky slope or an output factor."""
    if not isinstance(network, ReLUNetwork | LogScaledNetwork):
        raise InvalidInputError(f"network: must be a ReLUNetwork or LogScaledNetwork, got {shown(network)}")
    if isinstance(network, ReLUNetwork) and (network.slope != 0 or network.scale != 1):
        raise InvalidInputError(
            f"network: needs slope 0 and scale 1, got {network.slope:g} and {network.scale:g}"
        )


def _followed(path: Saddles, dataset: Dataset) -> SaddleToSaddle:
    """Return the process along these saddles."""
    setting = Setting("saddle_to_saddle", None, dataset, SquareLoss())
    trajectory = run(lambda: _Jumping(path), Record.every(1), np.inf, setting=setting)
    return _presented(replace(trajectory, path=path))  # also where nothing ever jumps


def _presented(trajectory: Trajectory[Any]) -> SaddleToSaddle:
    return SaddleToSaddle(*(getattr(trajectory, field.name) for field in fields(trajectory)))


def _shared(offsets: Floats, groups: Ints) -> tuple[Floats, Floats]:
    """Return each neuron's share of its group's squared norm, and the group's offset ½ ln Σ e^{2·offset}."""
    largest = np.full(len(groups), -np.inf)
    np.maximum.at(largest, groups, offsets)
    peaks = largest[groups]  # of its own group each: scales of different groups may be e^±1000 apart
    weights = np.exp(2.0 * (offsets - peaks))
    totals = np.bincount(groups, weights=weights, minlength=len(groups))[groups]
    return weights / totals, peaks + 0.5 * np.log(totals)


NAMES = ("inputs", "targets", "mask", "signs", "shares", "corrections")
VERSION_1 = FileKind(
    "shallowflow.saddle_to_saddle", (1,), "jump process", lambda header: (NAMES, frozenset({"mask"}))
)
"""Files of version 0.1, which are read but no longer written."""


def _assemble(header: Header, arrays: Arrays) -> SaddleToSaddle:
    dataset = Dataset(arrays["inputs"], arrays["targets"], name=str(header["name"]))
    signs, shares = vector(arrays["signs"], "signs"), vector(arrays["shares"], "shares")
    check_shape("mask", arrays["mask"], (dataset.size, len(signs)))
    check_shape("shares", shares, signs.shape)
    process = jump_process(arrays["mask"].astype(np.bool_), dataset.targets, input_norms(dataset.inputs))
    start = ReLUNetwork(np.zeros((len(signs), dataset.dimension)), np.zeros(len(signs)))
    data = dataset.inputs, dataset.targets, arrays["mask"]
    times, corrections = np.append(0.0, process.jump_times), arrays["corrections"]
    path = Saddles(start, times, *data, signs, shares, corrections)
    path.check()
    check_shape("corrections", corrections, process.jump_times.shape)
    if not np.isfinite(corrections).all():
        raise FileFormatError("corrections must be finite")
    return _followed(path, dataset)
