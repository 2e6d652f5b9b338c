"""Certificates of [weak_interaction], Dana, Bach & Pillaud-Vivien 2025: Thm 1, Cor. 1, Prop. 1.

For Prop. 2, Thm 2 see `weak_interaction_groups`, for Prop. 3 `weak_interaction_collapse`. Every function
takes a `ReLUNetwork` (the start; None: only what concerns the data is decided), the data, and maybe a
trajectory of the flow at some `speed` (asked for if the trajectory does not say it; a descent has speed 1).
Where print and proof differ:

- Thm 1: its C lacks the factor 2 − √2 of (30); (26) uses ‖r(0)‖ ≤ √n C_y^+, which no assumption says, so
  ν‖r(0)‖ < C_x^−² C_y^−, what the step needs, is a hypothesis of its own here. The rule m ≥ 4 ln(n/ε) is only
  there for the event 𝓘; for a given network 𝓘 itself is looked at.
- Prop. 1: (49) takes ‖w_j‖ for its part on active inputs; with the rest, which does not move,
  C₂ = 2C_x^+² (1/m)Σ_j (a_j² + ‖w_j‖²)(0), and C₁ = 4C_x^+² C_y^+ π/(√6 C_x^−).

The verdict of [weak_interaction] on a data set: do its inputs interact weakly enough to be fitted?
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shallowflow.arrays import count, positive, probability
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise, Question, Verdict
from shallowflow.certificates.curvature_watch import (
    Moment,
    assumption_1,
    checked_start,
    event,
    moments,
    relu,
    vanishing_loss,
)
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.landscape.weak_interaction.first_activation import extinction_time, lemma_5_widths
from shallowflow.landscape.weak_interaction.interactions import (
    Interaction,
    dimension_needed,
    interaction,
    ratio_of,
)
from shallowflow.models.initialize import asymmetric
from shallowflow.models.networks import ReLUNetwork

ROUNDING = 1e-9
ORTHOGONAL = 1e-12
"""Share of the largest ‖x‖² below which ν counts as zero."""
WEAK = "Assumption 2: the inputs interact weakly, ‖XᵀX − D_X‖ < C_x^−² C_y^−/(√n C_y^+)"
NONZERO = "no input and no label is zero: the smallest"
SMALL_START = "(26): ν‖r(0)‖ < C_x^−² C_y^−: the residuals of the start are not too large"
"""Names of hypotheses of Theorem 1, by which the verdict finds them."""


def theorem_1(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    speed: float = 1.0,
    width: int | None = None,
    epsilon: float = 0.05,
    antipodal: bool = False,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that the loss tends to 0 exponentially on inputs that interact weakly.

    width: if there is no network, the width of one to be drawn (the event 𝓘 then has probability 1 − ε);
    antipodal: leave antipodal pairs out of the interaction, App. C.2; accuracy: share of the first loss at
    which the loss counts as zero.
    """
    start, found = checked_start(network, dataset), interaction(dataset, antipodal=antipodal)
    speed, accuracy = positive(speed, "speed"), positive(accuracy, "accuracy")
    width = None if width is None else count(width, "width")
    epsilon = probability(epsilon, "epsilon")
    hypotheses = [
        *_data_hypotheses(found),
        assumption_1(start),
        event(start, dataset)
        if start is not None or width is None
        else _wide_enough(width, dataset, epsilon),
        _small_start(start, dataset, found),
        relu(start),
    ]
    rate = (2 - np.sqrt(2)) * found.smallest_input**2 * found.smallest_label
    rate /= dataset.size * found.largest_input
    promises = (
        vanishing_loss(trajectory, accuracy),
        *_rate_promises(trajectory, dataset, rate, speed),
    )
    return Certificate("weak_interaction/theorem-1", tuple(hypotheses), promises)


def _data_hypotheses(found: Interaction) -> list[Hypothesis]:
    least = min(found.smallest_input, found.smallest_label)
    return [
        Hypothesis(WEAK, found.holds, found.norm, found.bound),
        Hypothesis(NONZERO, least > 0, least, 0),
    ]


def _wide_enough(width: int, dataset: Dataset, epsilon: float) -> Hypothesis:
    needed = lemma_5_widths(dataset.size, epsilon)[1]
    name = f"Lemma 5: m ≥ 4 ln(n/ε) neurons, for the event 𝓘 with probability {1 - epsilon:g}"
    return Hypothesis(name, width >= needed, width, needed)


def _small_start(start: ReLUNetwork | None, dataset: Dataset, found: Interaction) -> Hypothesis:
    bound = found.smallest_input**2 * found.smallest_label
    if start is None:
        return Hypothesis(SMALL_START, found.norm == 0 or None, None, bound)
    residual = float(np.linalg.norm(dataset.targets - start.predict(dataset.inputs)))
    return Hypothesis(SMALL_START, found.norm * residual < bound, found.norm * residual, bound)


def _unfitted(moment: Moment, dataset: Dataset) -> float:
    """Return min_i |1 − r_i/y_i| = min_i |h_i/y_i|."""
    return float(np.min(np.abs(moment.predictions / dataset.targets)))


def _rate_promises(
    trajectory: Trajectory | None, dataset: Dataset, rate: float, speed: float
) -> tuple[Promise, ...]:
    """Return (6), ⟨μ_∞⟩, and that every sample stays active."""
    ratio = "(6): μ(t) is at least (2 − √2)C/n · min_i |1 − r_i/y_i|: the smallest quotient is at least"
    mean = "⟨μ_∞⟩ is at least (2 − √2)C/n"
    active = "every sample stays active for some neuron: samples that do not"
    if trajectory is None or np.any(dataset.targets == 0):
        return Promise(ratio, 1), Promise(mean, rate), Promise(active, 0)
    smallest, lost, last = np.inf, 0, 0.0
    for moment in moments(trajectory, dataset, speed):
        lower = rate * _unfitted(moment, dataset)
        if moment.curvature is not None and lower > 0:
            smallest = min(smallest, moment.curvature / lower)
        lost = max(lost, int(np.sum(~np.any(moment.active, axis=0))))
        last = moment.time
    average = None
    if last > 0 and trajectory.losses[-1] > 0:
        average = float(np.log(trajectory.losses[0] / trajectory.losses[-1]) / last)
    seen = smallest if np.isfinite(smallest) else None
    return (
        Promise(ratio, 1, seen, None if seen is None else seen >= 1 - ROUNDING),
        Promise(mean, rate, average, True if average is not None and average >= rate else None),
        Promise(active, 0, lost, lost == 0),
    )


def corollary_1(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    epsilon: float = 0.05,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that random white data in high dimension are fitted: the condition on the dimension.

    The paper's C in d ≥ C(n² + n ln(1/ε)) has no number; `gaussian_dimension` gives one for Gaussian inputs.
    That the inputs are drawn white cannot be decided from one sample; ν is set beside what is usual then.
    """
    start = checked_start(network, dataset)
    found, epsilon = interaction(dataset), probability(epsilon, "epsilon")
    size, dimension = dataset.size, dataset.dimension
    scale = float(np.mean(np.sum(dataset.inputs**2, axis=1)))
    usual = 2 * np.sqrt(size / dimension) + size / dimension
    needed = dimension_needed(size, found.label_ratio, epsilon / 2)
    white = None if found.norm <= 1.5 * usual * scale else False
    wide = None if start is None else start.width
    width = 8 * float(np.log(size / epsilon))
    hypotheses = (
        Hypothesis(
            "the inputs are drawn white and sub-Gaussian: ν beside its usual size then",
            white,
            found.norm,
            usual * scale,
        ),
        Hypothesis(
            "the dimension is at least that of Lemma 3 for Gaussian inputs",
            needed is not None and dimension >= needed,
            dimension,
            needed,
        ),
        Hypothesis("m ≥ 8 ln(n/ε)", None if wide is None else wide >= width, wide, width),
        assumption_1(start),
        relu(start),
    )
    promises = (
        Promise("Assumption 2 holds: ‖XᵀX − D_X‖ stays below", found.bound, found.norm, found.holds),
        _event_promise(start, dataset),
        vanishing_loss(trajectory, positive(accuracy, "accuracy")),
    )
    return Certificate("weak_interaction/corollary-1", hypotheses, promises)


def _event_promise(start: ReLUNetwork | None, dataset: Dataset) -> Promise:
    found = event(start, dataset)
    return Promise(found.name, 0, found.value, found.holds)


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
        Hypothesis("the inputs are orthogonal: ‖XᵀX − D_X‖", found.norm <= zero, found.norm, zero),
        assumption_1(start),
        event(start, dataset),
        _unmoved(start, dataset, end, seen),
        relu(start),
    )
    late = [moment for moment in seen if end is not None and moment.time >= end]
    wrong = max((_wrongly_active(moment, dataset) for moment in late), default=None)
    statement = "after the extinction time no neuron is active on a label of the other sign: pairs"
    promises = (
        Promise("the extinction time of Lemma 7 (paper's clock)", end),
        Promise(statement, 0, wrong, None if wrong is None else wrong == 0),
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


def _wrongly_active(moment: Moment, dataset: Dataset) -> int:
    return int(np.sum(moment.active & (moment.network.outer[:, None] * dataset.targets < 0)))


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
    return Promise(statement, 1, worst, worst <= 1 + ROUNDING)


EPSILON = 0.05
"""Probability with which a start may fail to have a neuron for every sample (Lemma 5), or the inputs to
interact too much (Lemma 3)."""


def verdict(question: Question) -> Verdict:
    """Return whether Thm 1 applies, with its margin, or which hypothesis fails and by how much.

    A network of the width in mind is drawn as in App. B, and the certificate is about it; whether it meets
    what a start must meet is said too. Antipodal inputs are left out of the interaction (App. C.2).

    Examples
    --------
    >>> from shallowflow.data.generators import orthonormal
    >>> verdict(Question(orthonormal(5, labels="bounded"))).applies
    True
    """
    dataset, width = question.dataset, question.width
    start = asymmetric(width, dataset.dimension, seed=question.seed)
    certificate = theorem_1(start, dataset, antipodal=True)
    named = {hypothesis.name: hypothesis for hypothesis in certificate.hypotheses}
    weak, needed = named[WEAK], lemma_5_widths(dataset.size, EPSILON)[1]
    assert weak.value is not None
    assert weak.bound is not None
    fails = _failures(named, dataset)
    if width < needed:
        fails.append(f"{width} neurons are fewer than the 4 ln(n/ε) = {needed:.1f} of Lemma 5")
    if fails:
        words = f"Theorem 1 does not apply: {'; '.join(fails)}."
    else:
        words = (
            f"Theorem 1 applies, margin {weak.bound - weak.value:.4g}: the inputs interact with strength "
            f"{weak.value:.4g} of at most {weak.bound:.4g}; a network of {width} neurons (Lemma 5 asks for "
            f"{np.ceil(needed):.0f}) with |a_j| ≥ ‖w_j‖ fits the data with probability at least "
            f"{1 - EPSILON:g}. {_start_sentence(certificate)}"
        )
    numbers = {"ν": weak.value, "ν allowed": weak.bound, "neurons asked for": needed}
    return Verdict("weak_interaction", not fails, (words,), numbers, certificates=(certificate,))


def _failures(named: Mapping[str, Hypothesis], dataset: Dataset) -> list[str]:
    """Say what the data fail, and by how much."""
    weak, small = named[WEAK], named[SMALL_START]
    fails = []
    if not named[NONZERO].holds:
        fails.append("an input or a label is zero, where both must be nonzero")
    elif not weak.holds and weak.value is not None and weak.bound is not None:
        fails.append(
            f"Assumption 2 fails: the inputs interact with strength {weak.value:.4g}, "
            f"{ratio_of(weak.bound, weak.value):.3g} times the {weak.bound:.4g} allowed "
            f"({_dimension_words(dataset)})"
        )
    if small.holds is False:
        fails.append(
            f"(26) fails: the residuals of the start drawn here are too large (ν‖r(0)‖ = {small.value:.4g}, "
            f"allowed {small.bound:.4g})"
        )
    return fails


def _dimension_words(dataset: Dataset) -> str:
    """Say in which dimension as many Gaussian inputs would do."""
    labels = np.abs(dataset.targets)
    ratio = ratio_of(float(labels.min()), float(labels.max()))
    dimension = dimension_needed(dataset.size, ratio, EPSILON)
    if dimension is None:
        return "the labels differ by so much that no dimension would do"
    told = str(dimension) if dimension < 10**9 else f"about 10^{len(str(dimension)) - 1}"
    return f"Gaussian inputs of this number need dimension {told}"


def _start_sentence(certificate: Certificate) -> str:
    """Say whether the drawn start meets its hypotheses."""
    missed = [str(hypothesis) for hypothesis in certificate.hypotheses if not hypothesis.holds]
    if missed:
        return f"The start drawn here does not: {'; '.join(missed)}."
    return "The start drawn here meets what a start must meet."
