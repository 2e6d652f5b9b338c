"""The local Polyak–Łojasiewicz curvature μ = −L'/L of a `ReLUNetwork` with the loss ½·mean of squares.

Along dθ/dt = −speed·∇L, μ = speed·‖∇L‖²/L and L(t) = L(0) exp(−t⟨μ⟩). [weak_interaction] takes the output
factor 1/m and speed = m. For any factor s and any speed v, and with ν = ‖XᵀX − D_X‖, Lemma 6 reads

    (2vs²/n)(C_x^−² − ν) min_i Σ_j a_j² 1_ji  ≤  μ  ≤  (2vs²/n)(C_x^+² + ν) max_i Σ_j (a_j² + ‖w_j‖²) 1_ji.

(The print of (15) lacks the squares on C_x^∓, (21) and (22) have them; (22) drops ‖w_j‖² in its first line.)
No neuron is active on two antipodal inputs at once, so that ν may be that of App. C.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, increasing, positive, same_length, vector
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.interaction import Interaction, interaction
from shallowflow.landscape.relu_problem import check_relu_problem
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork


def local_pl(network: ReLUNetwork, dataset: Dataset, *, speed: float | None = None) -> float:
    """Return μ = speed·‖∇L‖²/L; speed is the width unless given, as in [weak_interaction] (3), (5).

    Examples
    --------
    >>> from shallowflow.data import Dataset
    >>> net = ReLUNetwork([[1.0]], [1.0])
    >>> local_pl(net, Dataset([[1.0]], [3.0]))
    4.0
    """
    check_relu_problem(network, dataset)
    pace = checked_speed(network, speed)
    predictions = network.predict(dataset.inputs)
    loss = SquareLoss()
    value = loss.value(predictions, dataset.targets)
    if value == 0:
        raise InvalidInputError("network: must not fit the data exactly: the curvature is 0/0, got loss 0")
    gradient = network.pullback(dataset.inputs, loss.slopes(predictions, dataset.targets))
    square = sum(float(np.sum(part * part)) for part in gradient.values())
    return pace * square / value


@dataclass(frozen=True)
class PLBounds:
    """Lemma 6: lower ≤ μ ≤ upper."""

    lower: float
    upper: float


def pl_bounds(
    network: ReLUNetwork,
    dataset: Dataset,
    *,
    speed: float | None = None,
    known: Interaction | None = None,
) -> PLBounds:
    """Return the bounds of Lemma 6 on μ, [weak_interaction] (21), (22); ReLU only.

    known: what `interaction(dataset)` returned, to save its cost along a trajectory. The lower bound may be
    negative if the data interact strongly.
    """
    check_relu_problem(network, dataset)
    if network.slope:
        raise InvalidInputError(f"network: Lemma 6 is about the ReLU, got slope {network.slope:g}")
    found = known or interaction(dataset)
    active = network.preactivations(dataset.inputs) > 0
    squares = network.outer**2
    inner = np.einsum("jd,jd->j", network.inner, network.inner)
    factor = 2.0 * checked_speed(network, speed) * network.scale**2 / dataset.size
    least = float(np.min(squares @ active))
    most = float(np.max((squares + inner) @ active))
    low, high = found.smallest_input**2 - found.norm, found.largest_input**2 + found.norm
    return PLBounds(factor * low * least, factor * high * most)


def energies(network: ReLUNetwork, dataset: Dataset) -> Floats:
    """Return (1/m) Σ_j a_j² 1_ji for every sample i, the measure behind μ_low and μ_upp of Figure 5."""
    check_relu_problem(network, dataset)
    active = network.preactivations(dataset.inputs) > 0
    shares: Floats = (network.outer**2 @ active) / network.width
    return shares


def average_pl(times: ArrayLike, losses: ArrayLike) -> Floats:
    """Return ⟨μ⟩(t) = ln(L(0)/L(t))/t at the times after the first, [weak_interaction] Lemma 2.

    times: from 0, in the clock of the flow (a descent with step m·η makes η per step at speed m).
    """
    moments, values = increasing(times, "times"), vector(losses, "losses")
    same_length(moments, values, "times, losses")
    if len(moments) < 2 or moments[0] != 0:
        raise InvalidInputError(f"times: must begin with 0 and go on, got {moments[:2]}")
    if np.any(values <= 0):
        raise InvalidInputError(f"losses: must be > 0, got {values.min():g}")
    rates: Floats = np.log(values[0] / values[1:]) / moments[1:]
    return rates


def checked_speed(network: ReLUNetwork, speed: float | None) -> float:
    """Return the speed of the flow: the width unless given."""
    return float(network.width) if speed is None else positive(speed, "speed")
