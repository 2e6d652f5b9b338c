"""Saddle to saddle: the limit of gradient flow on orthonormal data as the start shrinks.

[incremental] Algorithm 1.

In accelerated time τ = t/ln(1/α) the norms are (1/α)^{ρ_j} with piecewise linear exponents ρ_j, and the
network rests at a saddle until an exponent reaches zero; that neuron then fits, at once, all its points that
are not fitted yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, count, non_negative, positive, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.limits.corrections import jump_corrections, start_offsets
from shallowflow.dynamics.limits.jump_process import JumpProcess, jump_process
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.problem import check_problem
from shallowflow.errors import InvalidInputError
from shallowflow.files import as_path
from shallowflow.landscape.geometry.orthonormal import (
    check_labels,
    check_orthonormal,
    mask_matrix,
    neuron_signs,
)
from shallowflow.landscape.incremental import fitting_neuron
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class SaddleToSaddle(FrozenArrays):
    """The limit process of a network on orthonormal data, piecewise constant in time.

    Read like a `Trajectory` (times, losses, events, outcome, statistics, final, call, `to_xarray`, `save`),
    but its times are accelerated, τ = t/ln(1/α): in units of ln(1/α), where `gradient_flow` has plain t.

    process: jump times, neurons, fitted points, exponents, rates, ties, groups (see `JumpProcess`);
    corrections C (J,): the flow from scale α jumps at τ_i + C_i/ln(1/α), up to terms that vanish faster;
    shares (m,): the part of its group's squared norm that falls to each neuron.
    """

    process: JumpProcess
    dataset: Dataset
    signs: Floats
    mask: Bools
    shares: Floats
    corrections: Floats

    @property
    def outcome(self) -> Outcome:
        """Whether the process ends at an interpolator; if not, which points can never be fitted."""
        return self.process.outcome

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

    @property
    def times(self) -> Floats:
        """0 and the jump times, (J + 1,)."""
        return np.concatenate([[0.0], self.jump_times])

    @property
    def losses(self) -> Floats:
        """The loss ½·mean r² on each plateau, (J + 1,)."""
        return self.process.losses

    @property
    def events(self) -> tuple[Event, ...]:
        """One "jump" per jump."""
        return tuple(Event(t, "jump", int(j)) for t, j in zip(self.jump_times, self.neurons, strict=True))

    @property
    def statistics(self) -> dict[str, float | int | str]:
        """Numbers of jumps, of jumps with ties, of groups of neurons, of points left; the squared norm."""
        return {
            "jumps": len(self.neurons),
            "ties": len(self.process.ties),
            "groups": len(np.unique(self.process.groups)),
            "unfitted": len(self.process.unfitted),
            "interpolates": int(self.interpolates),
            "squared norm": self.process.squared_norm,
        }

    def save(self, path: str | FilePath) -> None:
        """Write the process, with its data, to a file, atomically."""
        from shallowflow.dynamics.limits.saddle_storage import save

        save(self, as_path(path))

    @classmethod
    def load(cls, path: str | FilePath) -> SaddleToSaddle:
        """Read what `save` wrote; anything else raises `FileFormatError`."""
        from shallowflow.dynamics.limits.saddle_storage import load

        return load(as_path(path))

    def __repr__(self) -> str:
        return (
            f"SaddleToSaddle({len(self.neurons)} jumps of {len(self.signs)} neurons, "
            f"loss {self.losses[0]:.4g} → {self.losses[-1]:.4g}, {self.outcome})"
        )

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

    @property
    def final(self) -> ReLUNetwork:
        """The network after the last jump."""
        return self.saddle(len(self.neurons))

    def saddle(self, jumps: int) -> ReLUNetwork:
        """Return the saddle visited after that many jumps."""
        jumps = self._jumps(jumps)
        inner = np.zeros((len(self.signs), self.dataset.dimension))
        outer = np.zeros(len(self.signs))
        for neuron, points in zip(self.neurons[:jumps], self.process.fitted[:jumps], strict=True):
            weights, size = fitting_neuron(self.dataset.inputs[points], self.dataset.targets[points])
            members = np.flatnonzero(self.process.groups == neuron)
            root = np.sqrt(self.shares[members])
            inner[members] = root[:, None] * weights
            outer[members] = self.signs[members] * root * size
        return ReLUNetwork(inner, outer)

    def __call__(self, time: float) -> ReLUNetwork:
        """Return the network at an accelerated time ≥ 0; at a jump, the one before it."""
        return self.saddle(int(np.searchsorted(self.jump_times, non_negative(time, "time"))))

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
        jumps = self._jumps(jumps)
        left = np.ones(self.dataset.size, dtype=np.bool_)
        for points in self.process.fitted[:jumps]:
            left[points] = False
        pulls = (self.mask * left[:, None] * np.abs(self.dataset.targets)[:, None]).T @ self.dataset.inputs
        norms = np.linalg.norm(pulls, axis=1, keepdims=True)
        return np.asarray(np.divide(pulls, norms, out=np.zeros_like(pulls), where=norms > 0))

    def _jumps(self, jumps: int) -> int:
        return count(jumps, "jumps", at_least=0, at_most=len(self.neurons))

    def predicted_times(self, acceleration: float) -> Floats:
        """Return the flow's jump times from α = e^{−acceleration} to first order, τ + C/ln(1/α), (J,)."""
        return self.jump_times + self.corrections / positive(acceleration, "acceleration")


def saddle_to_saddle(network: ReLUNetwork | LogScaledNetwork, dataset: Dataset) -> SaddleToSaddle:
    """Follow the jump process to which gradient flow tends as the start shrinks, [incremental] Algorithm 1.

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
    if not isinstance(network, ReLUNetwork | LogScaledNetwork):
        raise InvalidInputError(f"network: must be a ReLUNetwork or LogScaledNetwork, got {shown(network)}")
    check_problem(network, dataset, log_scaled=True)
    if isinstance(network, ReLUNetwork) and (network.slope != 0 or network.scale != 1):
        raise InvalidInputError(
            f"network: needs slope 0 and scale 1, got {network.slope:g} and {network.scale:g}"
        )
    check_orthonormal(dataset, "saddle_to_saddle")
    check_labels(dataset)
    signs, mask = neuron_signs(network), mask_matrix(network, dataset)
    process = jump_process(mask, dataset.targets)
    norms = np.linalg.norm(network.inner, axis=1)
    if np.any(norms == 0):
        raise InvalidInputError(f"network: inner weights must not vanish, got 0 at index {np.argmin(norms)}")
    sizes = np.log(norms) + (network.log_scales if isinstance(network, LogScaledNetwork) else 0.0)
    directions = np.maximum(network.preactivations(dataset.inputs), 0.0) / norms[:, None]
    offsets = sizes - sizes.max() + start_offsets(directions, signs, dataset.targets, mask)
    shares, together = _shared(offsets, process.groups)
    corrections = jump_corrections(
        process.neurons, process.fitted, process.rates, together, mask, dataset.targets
    )
    return SaddleToSaddle(process, dataset, signs, mask, shares, corrections)


def _shared(offsets: Floats, groups: Ints) -> tuple[Floats, Floats]:
    """Return each neuron's share of its group's squared norm, and the group's offset ½ ln Σ e^{2·offset}."""
    largest = np.full(len(groups), -np.inf)
    np.maximum.at(largest, groups, offsets)
    peaks = largest[groups]  # of its own group each: scales of different groups may be e^±1000 apart
    weights = np.exp(2.0 * (offsets - peaks))
    totals = np.bincount(groups, weights=weights, minlength=len(groups))[groups]
    return weights / totals, peaks + 0.5 * np.log(totals)
