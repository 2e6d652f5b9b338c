"""Certificate of [weak_interaction] Prop. 3: two neurons collapse onto the larger label.

(77) prints its lower bound as √(max/y₁)·8/y₁; the proof ends with (85), √(8 max/y₁), which is used here. The
proof's (78) has ¼ where the flow at speed 2 has ½, and its constraint (82) cannot hold with 2δ, only with
some larger multiple; "δ small enough, y₁ large enough" therefore stays undecided, with the numbers shown.

Certificates of [weak_interaction] Prop. 2 and Thm 2: group initialisation on orthonormal inputs.

Both are read off the corrected closed form (`landscape.weak_interaction.group_flow`). Prop. 2's printed time
n^{3α−1} is n^α ln(·) by its own (52); with the corrected (55) its K₁ becomes

    K₁ = 2 min_j D_j q_j/(1 + q_j + ρ_j²(1 − g_j²)/(2e)),   q_j = ρ_j²(1 + g_j)²/4,

because cI − N ≤ ½(1 − g²)ct and x e^{−x} ≤ 1/e.
"""

from __future__ import annotations

import math

import numpy as np

from shallowflow.arrays import Floats, positive
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise
from shallowflow.certificates.curvature_watch import Moment, given_start, moments
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity, check_relu
from shallowflow.landscape.geometry.orthonormal import ORTHONORMAL, orthonormality
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow, group_flow
from shallowflow.models.networks import ReLUNetwork
from shallowflow.readings.settings import resting_at


def prop_3(
    network: ReLUNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that two neurons on two orthonormal inputs with labels of either sign lose the smaller label.

    Promised: lim L ≥ y₂²/4 > 0, |y₂| the smaller label. accuracy: of the trajectory's loss, relative.
    """
    start = given_start(network, dataset)
    accuracy = positive(accuracy, "accuracy")
    two = dataset.size == dataset.dimension == start.width == 2
    small = Promise("the loss tends to at least y₂²/4")
    shape = Hypothesis("d = n = m = 2", two)
    if not two:
        return Certificate("weak_interaction/prop-3", (shape,), (small,))
    order = np.argsort(-np.abs(dataset.targets))
    labels, inputs = dataset.targets[order], dataset.inputs[order]
    z = start.preactivations(inputs)
    least, most = float(np.min(z)), float(np.max(z))
    ratio = float(np.abs(labels[1] / labels[0])) if labels[0] else 1.0
    lower = float(np.sqrt(8 * max(most, 0.0) / np.abs(labels[0]))) if labels[0] else np.inf
    upper = least / most if most > 0 else -np.inf
    error = orthonormality(inputs)
    delta = float(np.max(np.abs(start.outer)))
    hypotheses = (
        shape,
        Hypothesis("the inputs are orthonormal, up to", error <= ORTHONORMAL, error, ORTHONORMAL),
        Hypothesis("y₁y₂ < 0", labels[0] * labels[1] < 0, labels[0] * labels[1], 0),
        Hypothesis("both neurons are active on both inputs: the smallest ⟨w_j, x_i⟩", least > 0, least, 0),
        Hypothesis("λ = |y₂/y₁| is at least √(8 max ⟨w_j, x_i⟩/|y₁|) (85)", ratio >= lower, ratio, lower),
        Hypothesis("λ is at most min ⟨w_j, x_i⟩/max ⟨w_j, x_i⟩", ratio <= upper, ratio, upper),
        Hypothesis("δ = max |a_j| is small and y₁ large enough (no numbers in the paper): δ", None, delta),
    )
    floor = float(labels[1] ** 2 / 4)
    observed = None if trajectory is None else float(trajectory.losses[-1])
    kept = None
    if trajectory is not None and observed is not None:
        end = check_relu(trajectory.final, "trajectory")
        # A dead sample stays dead on orthogonal inputs, which decides the promise in finite time.
        resting = resting_at(trajectory, float(trajectory.path.times[-1]))
        dead = bool(np.all(activity(end, dataset.inputs, resting=resting)[:, order[1]] <= 0))
        kept = True if dead else (False if observed < floor * (1 - accuracy) else None)
    return Certificate(
        "weak_interaction/prop-3", hypotheses, (Promise(small.statement, floor, observed, kept),)
    )


ROUNDING = 1e-6


def _groups(network: ReLUNetwork, dataset: Dataset) -> tuple[GroupFlow | None, tuple[Hypothesis, ...]]:
    """Return the closed form, and the hypothesis that the start is a group initialisation."""
    start = given_start(network, dataset)
    name = "group initialisation (9) on orthonormal inputs, one sign of labels per group"
    try:
        return group_flow(start, dataset), (Hypothesis(name, True),)
    except InvalidInputError as error:
        return None, (Hypothesis(f"{name}: {error}", False),)


def curvature_bounds(flow: GroupFlow) -> tuple[float, float, float]:
    """Return Prop. 2's bounds on μ, and the time (paper's clock) from which they hold."""
    unit = np.sqrt(flow.size / flow.width) / flow.size
    squares, g0 = flow.norms**2, flow.alignments
    share = squares * (1 + g0) ** 2 / 4
    least = flow.labels * share / (1 + share + squares * (1 - g0**2) / (2 * math.e))
    full = np.sqrt(flow.size * flow.width) * flow.labels
    most: Floats = np.maximum(flow.labels, squares / np.sqrt(flow.size * flow.width))
    after = float(np.max(np.log(np.maximum(full, 1.0)) / flow.rates))
    return float(2 * unit * np.min(least)), float(4 * unit * np.max(most)), after


def prop_2(
    network: ReLUNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    speed: float = 1.0,
) -> Certificate:
    """Certify that μ is of the order n^{−α} for groups of k = n^{2(1−α)} samples, with its constants."""
    flow, hypotheses = _groups(network, dataset)
    lower, upper, after = (None, None, None) if flow is None else curvature_bounds(flow)
    seen: list[Moment] = []
    if trajectory is not None and after is not None:
        seen = [moment for moment in moments(trajectory, dataset, speed) if moment.time >= after]
    rates = [moment.curvature for moment in seen if moment.curvature is not None]
    least, most = (min(rates), max(rates)) if rates else (None, None)
    low_kept = None if least is None or lower is None else least >= lower * (1 - ROUNDING)
    high_kept = None if most is None or upper is None else most <= upper * (1 + ROUNDING)
    promises = (
        Promise("the bounds on μ hold from this time on (paper's clock)", after),
        Promise("μ is at least K₁/n^α", lower, least, low_kept),
        Promise("μ is at most K₂/n^α", upper, most, high_kept),
    )
    return Certificate("weak_interaction/prop-2", hypotheses, promises)


def theorem_2(
    network: ReLUNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    speed: float = 1.0,
    accuracy: float = 1e-3,
) -> Certificate:
    """Certify one transition per group at t_n/D_j: the limit, where it lies at this n, and the trajectory.

    The theorem is about n → ∞ and the convergence is only logarithmic; the closed form says where the
    transitions lie at this n. accuracy: of the trajectory's loss, relative to the first.
    """
    flow, hypotheses = _groups(network, dataset)
    accuracy = positive(accuracy, "accuracy")
    limit = "transitions of L_∞ at 1/D_j in units of t_n: the first; observed: where L^j halves at this n"
    window = "windows (2/D_j) ln C(¼)/ln(nm) of the limit: the longest; observed: at this n"
    follow = "the loss follows the closed form: largest difference, relative to the first loss"
    if flow is None or flow.size * flow.width <= 1:  # a single sample has no unit of time
        return Certificate(
            "weak_interaction/theorem-2",
            hypotheses,
            (Promise(limit), Promise(window), Promise(follow, accuracy)),
        )
    halves, order = flow.transition_times(0.5) / flow.unit, int(np.argmin(flow.limit_transitions))
    difference = _difference(flow, trajectory, dataset, speed)
    promises = (
        Promise(limit, flow.limit_transitions[order], halves[order]),
        Promise(window, np.max(flow.limit_windows(0.25)), np.max(flow.windows(0.25))),
        Promise(follow, accuracy, difference, None if difference is None else difference <= accuracy),
    )
    return Certificate("weak_interaction/theorem-2", hypotheses, promises)


def _difference(
    flow: GroupFlow, trajectory: Trajectory | None, dataset: Dataset, speed: float
) -> float | None:
    if trajectory is None:
        return None
    seen = list(moments(trajectory, dataset, speed))
    losses = np.array([0.5 * np.mean((m.predictions - dataset.targets) ** 2) for m in seen])
    expected = flow.loss([moment.time for moment in seen])
    return float(np.max(np.abs(losses - expected)) / expected[0])
