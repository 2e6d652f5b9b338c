"""Certificates of [weak_interaction] on the speed of fitting: Props 1 to 3, Thm 2, and the rest of a run.

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

A-posteriori certificates: from the state that a run has reached, what is proved of the rest, and at what
rate.

Theorem 1 of [weak_interaction] asks for weakly interacting inputs because it starts from nothing. Later in a
run less is enough. With K = J Jᵀ the tangent kernel, r the residual, s the output factor, v the speed of the
flow (v = 1 by default), L = ½ mean r², there are two ways to prove that the loss falls to 0 from here on:

- **Independent inputs** (slope 0). If |a_j| ≥ ‖w_j‖ for all neurons (Assumption 1; a_j² − ‖w_j‖² is
  conserved) and ‖r‖ < min_i |y_i|, then no residual reaches its label any more, since ‖r‖ falls. So every
  sample stays active, s Σ_j a_j² 1_ji ≥ (|y_i| − ‖r‖)/‖x_i‖ as in (29), and, because a principal submatrix of
  XXᵀ has no smaller eigenvalue than XXᵀ itself, (18) gives

      μ ≥ (2vs/n) λ_min(XXᵀ) min_i (|y_i| − ‖r‖)/‖x_i‖.

  This needs neither Assumption 2 nor ν < C_x^−²: λ_min(XXᵀ) ≥ C_x^−² − ν, and it is positive for independent
  inputs. Resting pairs count as inactive.
- **A pattern that stands** (any n, any slope). Let J be that of a set of neurons that do not rest, σ =
  σ_min(J) > 0 and c = 4s‖X‖‖r‖/σ². All others can only lower the loss further. As long as σ_min ≥ σ/2 the
  residual falls at least like e^{−vσ²t/(4n)}, so that |a_j| + ‖w_j‖ grows by the factor e^c at most and a
  neuron of the set moves by at most (e^c − 1)(|a_j| + ‖w_j‖). If none of the set can reach a data point on
  such a way, and s‖X‖(e^c − 1)(Σ_j (|a_j| + ‖w_j‖)²)^{1/2} ≤ σ/2, then σ_min ≥ σ/2 for ever, and μ ≥
  vσ²/(2n).

Where n > d the first is out of question; the smallest eigenvalue of the matrix of (17), σ²/n, can be watched
all the same: 2vσ²/n is the least rate at which any residual falls at this moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, positive, public
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
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed, checked_trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting, Signs, activity, check_relu, check_relu_problem
from shallowflow.landscape.geometry.orthonormal import ORTHONORMAL, orthonormality
from shallowflow.landscape.geometry.tangent import free_directions
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow, group_flow
from shallowflow.landscape.weak_interaction.interactions import Interaction, extinction_time, interaction
from shallowflow.models.loss import SquareLoss
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


MOST_TIMES = 60
"""At most so many recorded times are looked at."""
MOST_SAMPLES = 2000
"""Eigenvalues of n × n matrices are computed up to this n."""
NO_EIGENVALUE = 1e-10
"""An eigenvalue below this share of the largest one is taken for zero."""
SETS = 12
"""Sets of neurons that are tried for the second way."""
SLACK = 1e-9


class Standing(NamedTuple):
    """What the two ways ask of a state, and what they give.

    weakest: λ_min(K)/n; residual, allowed: ‖r‖ and min|y_i|; independence: λ_min(XXᵀ); dominance: the least
    |a_j| − ‖w_j‖; room: by what factor the neurons of the best set may move more than they can before one
    reaches a point or σ_min is halved (≥ 1: proved); rates: of the two ways, 0 where they prove nothing.
    """

    weakest: float
    residual: float
    allowed: float
    independence: float
    dominance: float
    room: float
    rates: tuple[float, float]


def standing(
    network: ReLUNetwork, dataset: Dataset, *, speed: float = 1.0, resting: Resting | None = None
) -> Standing:
    """Return what is proved of the flow from this state on."""
    check_relu_problem(network, dataset)
    if dataset.size > MOST_SAMPLES:
        raise InvalidInputError(f"dataset: must have at most {MOST_SAMPLES} samples, got {dataset.size}")
    inputs, size = dataset.inputs, dataset.size
    signs = activity(network, inputs, resting=resting)
    gates = np.where(signs > 0, 1.0, np.where(signs < 0, network.slope, 0.0))
    residual = float(np.linalg.norm(network.predict(inputs) - dataset.targets))
    lengths, labels = np.linalg.norm(inputs, axis=1), np.abs(dataset.targets)
    gram = inputs @ inputs.T
    kernel = _kernel(network, inputs, signs, gates, gram)
    weakest, independence = _least(kernel), _least(gram)
    dominance = float(np.min(np.abs(network.outer) - np.linalg.norm(network.inner, axis=1)))
    first = 0.0
    tolerance = 1e-12 * float(np.max(np.abs(network.outer)))
    if network.slope == 0 and dominance >= -tolerance and residual < labels.min() and lengths.min() > 0:
        least = float(np.min((labels - residual) / lengths))
        first = 2.0 * speed * network.scale / size * independence * least
    room, square = _standing_pattern(network, inputs, signs, residual)
    second = speed * square / (2.0 * size) if room >= 1.0 else 0.0
    return Standing(
        weakest / size, residual, float(labels.min()), independence, dominance, room, (first, second)
    )


def _kernel(network: ReLUNetwork, inputs: Floats, signs: Signs, gates: Floats, gram: Floats) -> Floats:
    """Return K (n, n) of the flow: a neuron that rests slides along its hyperplanes."""
    features = gates * (network.inner @ inputs.T)
    kernel = features.T @ features + (gates.T @ (network.outer[:, None] ** 2 * gates)) * gram
    held = (signs == 0) & inputs.any(axis=1)
    for j in np.flatnonzero(held.any(axis=1)).tolist():
        part = gates[j][:, None] * (inputs @ free_directions(inputs[held[j]]))
        kernel += network.outer[j] ** 2 * (part @ part.T - np.outer(gates[j], gates[j]) * gram)
    return np.asarray(network.scale**2 * kernel)


def _least(matrix: Floats) -> float:
    """Return the smallest eigenvalue, 0 if it is rounding."""
    values = np.linalg.eigvalsh(matrix)
    return float(values[0]) if values[0] > NO_EIGENVALUE * values[-1] else 0.0


def _standing_pattern(
    network: ReLUNetwork, inputs: Floats, signs: Signs, residual: float
) -> tuple[float, float]:
    """Return room and σ² of the second way, for the set of neurons that suits it best.

    Sets are those of the neurons that are farthest from a data point, measured by their own size; `SETS` of
    them are tried.
    """
    filled = inputs.any(axis=1)
    norms = np.linalg.norm(inputs[filled], axis=1)
    sizes = np.abs(network.outer) + np.linalg.norm(network.inner, axis=1)
    distances = np.abs(network.inner @ inputs[filled].T) / norms
    nearest = np.min(distances, axis=1, initial=np.inf) / np.maximum(sizes, 1e-300)
    fixed = ~np.any(signs[:, filled] == 0, axis=1)
    live = np.flatnonzero(fixed & (np.any(signs[:, filled] > 0, axis=1) | (network.slope > 0)))
    order = live[np.argsort(-nearest[live], kind="stable")]
    reach, gram = float(np.linalg.norm(inputs, 2)) * network.scale, inputs @ inputs.T
    gates = np.where(signs > 0, 1.0, network.slope)
    best = (0.0, 0.0)
    for count in np.unique(np.linspace(1, len(order), min(SETS, len(order))).astype(int)):
        chosen = order[:count]
        part = ReLUNetwork(network.inner[chosen], network.outer[chosen], network.slope, network.scale)
        weakest = _least(_kernel(part, inputs, signs[chosen], gates[chosen], gram))
        if weakest == 0.0:
            continue
        growth = float(np.expm1(min(4.0 * reach * residual / weakest, 50.0)))
        halved = 0.5 * np.sqrt(weakest) / (reach * float(np.linalg.norm(sizes[chosen])))
        allowed = min(float(nearest[chosen[-1]]), float(halved))
        room = allowed / growth if growth > 0 else np.inf
        # A set that proves, with the best rate; failing that, the one that comes nearest to it.
        if (room >= 1.0, weakest if room >= 1.0 else room) > (
            best[0] >= 1.0,
            best[1] if best[0] >= 1.0 else best[0],
        ):
            best = room, weakest
    return best


@public
def from_now(
    network: ReLUNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    speed: float = 1.0,
) -> Certificate:
    """Certify that the flow from this state on fits the data, with a rate: one of two ways is enough.

    trajectory: the run from here on, if there is one; it must keep below L e^{−rate·t}.
    """
    pace = positive(speed, "speed") if trajectory is None else _pace(trajectory, speed)
    if trajectory is not None:
        trajectory.setting.agreed("data", dataset, dataset)
        _check_flow(trajectory)
    found = standing(network, dataset, speed=pace)
    rate = max(found.rates)
    hypotheses = (
        Hypothesis(
            "one of the two holds: independent inputs, |a_j| ≥ ‖w_j‖ and ‖r‖ < min|y_i|; "
            "or no neuron can reach a data point any more: the rate that follows",
            rate > 0,
            rate,
            0,
        ),
    )
    statement = "the loss stays below L e^{−rate·t}: the largest quotient of the two is at most"
    worst = None
    if trajectory is not None and rate > 0:
        passed = trajectory.times - trajectory.times[0]
        worst = float(
            np.max(trajectory.losses / trajectory.losses[0] * np.exp(np.minimum(rate * passed, 700.0)))
        )
    kept = None if worst is None else worst <= 1.0 + SLACK
    promises = (
        Promise(statement, 1.0, worst, kept),
        Promise("the loss tends to 0 at least at the rate", rate),
    )
    return Certificate("weak_interaction/from-now", hypotheses, promises)


def _check_flow(trajectory: Trajectory) -> None:
    """Refuse a run of another loss, or one that is no flow, where the trajectory says so."""
    loss, verb = trajectory.setting.loss, trajectory.setting.verb
    if loss is not None and loss != SquareLoss():
        raise InvalidInputError(f"trajectory: must be of the loss SquareLoss(), got one of {loss!r}")
    if verb not in (None, "gradient_flow"):
        raise InvalidInputError(f"trajectory: must be a flow, whose rest is proved; got one of {verb}")


def _pace(trajectory: Trajectory, speed: float) -> float:
    return positive(agreed(checked_trajectory(trajectory), "speed", speed, 1.0), "speed")


@dataclass(frozen=True, eq=False, repr=False)
class Along(FrozenArrays):
    """What is proved at moments of a run, each (k,).

    times, losses; weakest: the smallest eigenvalue of the tangent kernel over n; residual: ‖r‖/min|y_i|
    (below 1: no residual reaches its label again); rates (k, 2): proved from then on by independent inputs,
    and by a pattern that stands (0: nothing); independence: λ_min(XXᵀ), 0 where n > d.
    """

    times: Floats
    losses: Floats
    weakest: Floats
    residual: Floats
    dominance: Floats
    rates: Floats
    independence: float

    @property
    def proved_from(self) -> float | None:
        """The first moment from which on the rest is proved; None: none."""
        proved = np.flatnonzero(self.rates.max(axis=1) > 0)
        return float(self.times[proved[0]]) if proved.size else None

    def text(self) -> str:
        """Return in sentences what is proved, or what is left to prove."""
        lines = []
        start = self.proved_from
        if start is not None:
            k = int(np.flatnonzero(self.times == start)[0])
            way = (
                "the inputs are independent" if self.rates[k, 0] >= self.rates[k, 1] else "the pattern stands"
            )
            lines.append(
                f"From t = {start:.4g} on it is proved that the loss tends to 0 ({way}), at least like "
                f"e^(−{self.rates[k].max():.3g} t); it was {self.losses[k]:.4g}. At the end the proved rate "
                f"is {self.rates[-1].max():.3g}."
            )
        else:
            lines.append("At no recorded moment is the rest of the run proved. Left to prove at its end:")
            lines += [f"- {one}" for one in self._left()]
        lines.append(
            f"Smallest eigenvalue of the tangent kernel over n: {self.weakest[0]:.3g} at first, "
            f"{self.weakest[-1]:.3g} at the end"
            + (
                ": at that moment every residual falls at least at the rate "
                f"{2 * self.weakest[-1]:.3g} (speed 1)."
                if self.weakest[-1] > 0
                else ": some residuals do not fall at all."
            )
        )
        return "\n".join(lines)

    def _left(self) -> list[str]:
        left = []
        if self.independence == 0.0:
            left.append(
                "the inputs are dependent (n > d, or nearly so): only a pattern that stands can prove it"
            )
        if self.dominance[-1] < 0:
            left.append(f"|a_j| ≥ ‖w_j‖ fails by {-self.dominance[-1]:.3g}")
        if self.residual[-1] >= 1:
            left.append(f"‖r‖ is {self.residual[-1]:.3g} times the smallest |y_i|, and must be below it")
        if self.weakest[-1] == 0.0:
            left.append("the tangent kernel is singular: in this pattern some data cannot be fitted")
        else:
            left.append("‖r‖ is still so large that a neuron may reach a data point")
        return left

    def __str__(self) -> str:
        return self.text()


@public
def along(trajectory: Trajectory, dataset: Dataset | None = None, *, speed: float = 1.0) -> Along:
    """Return what is proved of the rest of a run at its recorded moments (square loss, ½ mean; the flow).

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["orthonormal"](5, labels="bounded")
    >>> run = sf.gradient_flow(sf.initialize.asymmetric(20, 5, seed=0), data, until=400.0)
    >>> found = along(run)
    >>> found.proved_from is not None
    True
    """
    pace, data = _pace(trajectory, speed), trajectory.setting.agreed("data", dataset, None)
    if not isinstance(data, Dataset):
        raise InvalidInputError("dataset: the trajectory does not say its data: give them")
    _check_flow(trajectory)
    recorded = trajectory.path.times
    chosen = np.unique(np.linspace(0, len(recorded) - 1, min(len(recorded), MOST_TIMES)).astype(int))
    rows = []
    for time in recorded[chosen].tolist():
        network = check_relu(trajectory(time), "trajectory")
        found = standing(network, data, speed=pace, resting=trajectory.resting(time))
        share = found.residual / found.allowed if found.allowed > 0 else np.inf
        loss = 0.5 * found.residual**2 / data.size
        rows.append([time, loss, found.weakest, share, found.dominance, *found.rates])
    columns = np.array(rows).T
    times, losses, weakest, residual, dominance = columns[:5]
    return Along(times, losses, weakest, residual, dominance, columns[5:].T, found.independence)
