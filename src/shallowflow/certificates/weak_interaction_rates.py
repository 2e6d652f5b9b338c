"""Certificates of [weak_interaction] on the speed of fitting, the curvature μ: Props 1, 2, 3 and Thm 2.

Arguments, units and clock as in `weak_interaction`. Where print and proof differ:

- Prop. 1: (49) takes ‖w_j‖ for its part on active inputs; with the rest, which does not move,
  C₂ = 2C_x^+² (1/m)Σ_j (a_j² + ‖w_j‖²)(0), and C₁ = 4C_x^+² C_y^+ π/(√6 C_x^−).
- Prop. 2 and Thm 2 (group initialisation) are read off the corrected closed form of
  `landscape.weak_interaction.group_flow`. Prop. 2's printed time n^{3α−1} is n^α ln(·) by its own (52); with
  the corrected (55), because cI − N ≤ ½(1 − g²)ct and x e^{−x} ≤ 1/e, its K₁ becomes

      K₁ = 2 min_j D_j q_j/(1 + q_j + ρ_j²(1 − g_j²)/(2e)),   q_j = ρ_j²(1 + g_j)²/4.

- Prop. 3: (77) prints its lower bound as √(max/y₁)·8/y₁; the proof ends with (85), √(8 max/y₁), which is used
  here. The proof's (78) has ¼ where the flow at speed 2 has ½, and its constraint (82) cannot hold with 2δ,
  only with some larger multiple; "δ small enough, y₁ large enough" therefore stays undecided, with numbers.
"""

from __future__ import annotations

import math

import numpy as np

from shallowflow.arrays import Floats, positive, public
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise
from shallowflow.certificates.weak_interaction import (
    Moment,
    assumption_1,
    checked_start,
    event,
    moments,
    relu,
    vanishing_loss,
)
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity, check_relu
from shallowflow.landscape.geometry.orthonormal import ORTHONORMAL, orthonormality
from shallowflow.landscape.weak_interaction.first_activation import extinction_time
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow, group_flow
from shallowflow.landscape.weak_interaction.interactions import Interaction, interaction
from shallowflow.models.networks import ReLUNetwork

ROUNDING = 1e-6
ORTHOGONAL = 1e-12
"""Share of the largest ‖x‖² below which ν counts as zero."""


@public
def prop_1(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    speed: float = 1.0,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify μ(t) ≤ C₁√(m/n) max_i |1 − r_i/y_i| + C₂/n after extinction, on orthogonal inputs.

    "d large enough" means that |h(x_i)| ≤ |y_i|/2 until the extinction time of Lemma 7; it is read off the
    trajectory, if there is one.
    """
    start = checked_start(network, dataset)
    found = interaction(dataset)
    seen = () if trajectory is None else tuple(moments(trajectory, dataset, speed))
    end = None if start is None else extinction_time(start, dataset)
    zero = ORTHOGONAL * found.largest_input**2
    hypotheses = (
        Hypothesis.that("the inputs are orthogonal: ‖XᵀX − D_X‖", found.norm, "<=", zero),
        assumption_1(start),
        event(start, dataset),
        _unmoved(start, dataset, end, seen),
        relu(start),
    )
    late = [moment for moment in seen if end is not None and moment.time >= end]
    other = [moment.active & (moment.network.outer[:, None] * dataset.targets < 0) for moment in late]
    wrong = max((int(pairs.sum()) for pairs in other), default=None)
    statement = "after the extinction time no neuron is active on a label of the other sign: pairs"
    promises = (
        Promise("the extinction time of Lemma 7 (paper's clock)", end),
        Promise.that(statement, wrong, "<=", 0),
        _upper_promise(start, dataset, found, late),
        vanishing_loss(trajectory, positive(accuracy, "accuracy")),
    )
    return Certificate("weak_interaction/prop-1", hypotheses, promises)


def _unmoved(
    start: ReLUNetwork | None, dataset: Dataset, end: float | None, seen: tuple[Moment, ...]
) -> Hypothesis:
    name = "d is large enough: until the extinction time |h(x_i)/y_i| stays below"
    if start is None or end is None or np.any(dataset.targets == 0):
        return Hypothesis(name, None, None, 0.5)
    outputs = [start.predict(dataset.inputs), *(m.predictions for m in seen if m.time <= end)]
    largest = max(float(np.max(np.abs(output / dataset.targets))) for output in outputs)
    if largest > 0.5:
        return Hypothesis(name, False, largest, 0.5)
    watched = bool(seen) and seen[-1].time >= end
    return Hypothesis(name, True if watched else None, largest, 0.5)


def _upper_promise(
    start: ReLUNetwork | None, dataset: Dataset, found: Interaction, late: list[Moment]
) -> Promise:
    """Return (8) with its constants: the largest quotient of μ and its bound after extinction."""
    statement = "(8): μ(t) is at most C₁√(m/n) max_i |1 − r_i/y_i| + C₂/n: the largest quotient is at most"
    if start is None or not late or min(found.smallest_input, found.smallest_label) == 0:
        return Promise(statement, 1)
    c2 = 2 * found.largest_input**2 * float(np.mean(start.outer**2 + np.sum(start.inner**2, axis=1)))
    c1 = 4 * found.largest_input**2 / found.smallest_input * np.pi / np.sqrt(6) * found.largest_label
    worst = 0.0
    for moment in late:
        if moment.curvature is not None:
            fitted = float(np.max(np.abs(moment.predictions / dataset.targets)))
            bound = c1 * np.sqrt(start.width / dataset.size) * fitted + c2 / dataset.size
            worst = max(worst, moment.curvature / bound)
    return Promise(statement, 1, worst, worst <= 1 + 1e-9)


def _groups(network: ReLUNetwork, dataset: Dataset) -> tuple[GroupFlow | None, tuple[Hypothesis, ...]]:
    """Return the closed form, and the hypothesis that the start is a group initialisation."""
    start = _given_start(network, dataset)
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


@public
def prop_2(
    network: ReLUNetwork, dataset: Dataset, trajectory: Trajectory | None = None, *, speed: float = 1.0
) -> Certificate:
    """Certify that μ is of the order n^{−α} for groups of k = n^{2(1−α)} samples, with its constants."""
    flow, hypotheses = _groups(network, dataset)
    if flow is not None:
        alike = not np.ptp(flow.sizes) and not flow.excess.any()
        name = "groups of one size, and |a_j| the norm of w_j on its group: the constants are for these"
        hypotheses = (*hypotheses, Hypothesis(name, bool(alike)))
        flow = flow if alike else None
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


@public
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
        Promise.that(follow, difference, "<=", accuracy),
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


@public
def prop_3(
    network: ReLUNetwork, dataset: Dataset, trajectory: Trajectory | None = None, *, accuracy: float = 1e-6
) -> Certificate:
    """Certify that two neurons on two orthonormal inputs with labels of either sign lose the smaller label.

    Promised: lim L ≥ y₂²/4 > 0, |y₂| the smaller label. accuracy: of the trajectory's loss, relative.
    """
    start = _given_start(network, dataset)
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
        Hypothesis.that("the inputs are orthonormal, up to", error, "<=", ORTHONORMAL),
        Hypothesis.that("y₁y₂ < 0", labels[0] * labels[1], "<", 0),
        Hypothesis.that("both neurons are active on both inputs: the smallest ⟨w_j, x_i⟩", least, ">", 0),
        Hypothesis.that("λ = |y₂/y₁| is at least √(8 max ⟨w_j, x_i⟩/|y₁|) (85)", ratio, ">=", lower),
        Hypothesis.that("λ is at most min ⟨w_j, x_i⟩/max ⟨w_j, x_i⟩", ratio, "<=", upper),
        Hypothesis("δ = max |a_j| is small and y₁ large enough (no numbers in the paper): δ", None, delta),
    )
    floor = float(labels[1] ** 2 / 4)
    observed = None if trajectory is None else float(trajectory.losses[-1])
    kept = None
    if trajectory is not None and observed is not None:
        end = check_relu(trajectory.final, "trajectory")
        # A dead sample stays dead on orthogonal inputs, which decides the promise in finite time.
        resting = trajectory.resting(float(trajectory.path.times[-1]))
        dead = bool(np.all(activity(end, dataset.inputs, resting=resting)[:, order[1]] <= 0))
        kept = True if dead else (False if observed < floor * (1 - accuracy) else None)
    return Certificate(
        "weak_interaction/prop-3", hypotheses, (Promise(small.statement, floor, observed, kept),)
    )


def _given_start(network: ReLUNetwork | None, dataset: Dataset) -> ReLUNetwork:
    """Return the network in the paper's units, where a theorem is about nothing without one."""
    start = checked_start(check_relu(network), dataset)
    assert start is not None
    return start
