"""Certificates of [weak_interaction], Dana, Bach & Pillaud-Vivien 2025: are data fitted? Thm 1 and Cor. 1.

How fast they are is in `weak_interaction_rates`: Props 1 to 3 and Thm 2. Every function takes a `ReLUNetwork`
(the start; None: only what concerns the data is decided), the data, and maybe a trajectory of the flow at
some `speed` (asked for if the trajectory does not say it; a descent has speed 1). A network with output
factor s is the paper's network (factor 1/m) with parameters √(sm)·θ; along a flow at speed v the paper's time
is s·v·t.

Where print and proof differ in Thm 1: its C lacks the factor 2 − √2 of (30); (26) uses ‖r(0)‖ ≤ √n C_y^+,
which no assumption says, so ν‖r(0)‖ < C_x^−² C_y^−, what the step needs, is a hypothesis of its own here. The
rule m ≥ 4 ln(n/ε) is only there for the event 𝓘; for a given network 𝓘 itself is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, count, positive, probability, public
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise, Question, Verdict
from shallowflow.data.dataset import Dataset, orthogonalised
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity, check_relu, check_relu_problem
from shallowflow.landscape.weak_interaction.interactions import (
    Interaction,
    correctly_activated,
    dimension_needed,
    interaction,
    lemma_5_widths,
    local_pl,
    ratio_of,
)
from shallowflow.models.initialize import asymmetric
from shallowflow.models.networks import ReLUNetwork

ROUNDING = 1e-9
WEAK = "Assumption 2: the inputs interact weakly, ‖XᵀX − D_X‖ < C_x^−² C_y^−/(√n C_y^+)"
NONZERO = "no input and no label is zero: the smallest"
SMALL_START = "(26): ν‖r(0)‖ < C_x^−² C_y^−: the residuals of the start are not too large"
"""Names of hypotheses of Theorem 1, by which the verdict finds them."""
EPSILON = 0.05
"""Probability with which a start may fail to have a neuron for every sample (Lemma 5), or the inputs to
interact too much (Lemma 3)."""
MOST_TIMES = 200
"""At most so many recorded times are looked at."""


@public
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
    least = min(found.smallest_input, found.smallest_label)
    hypotheses = [
        Hypothesis(WEAK, found.holds, found.norm, found.bound),
        Hypothesis.that(NONZERO, least, ">", 0),
        assumption_1(start),
        event(start, dataset)
        if start is not None or width is None
        else _wide_enough(width, dataset, epsilon),
        _small_start(start, dataset, found),
        relu(start),
    ]
    rate = (2 - np.sqrt(2)) * found.smallest_input**2 * found.smallest_label
    rate /= dataset.size * found.largest_input
    promises = (vanishing_loss(trajectory, accuracy), *_rate_promises(trajectory, dataset, rate, speed))
    return Certificate("weak_interaction/theorem-1", tuple(hypotheses), promises)


def _wide_enough(width: int, dataset: Dataset, epsilon: float) -> Hypothesis:
    needed = lemma_5_widths(dataset.size, epsilon)[1]
    name = f"Lemma 5: m ≥ 4 ln(n/ε) neurons, for the event 𝓘 with probability {1 - epsilon:g}"
    return Hypothesis.that(name, width, ">=", needed)


def _small_start(start: ReLUNetwork | None, dataset: Dataset, found: Interaction) -> Hypothesis:
    bound = found.smallest_input**2 * found.smallest_label
    if start is None:
        return Hypothesis(SMALL_START, found.norm == 0 or None, None, bound)
    residual = float(np.linalg.norm(dataset.targets - start.predict(dataset.inputs)))
    return Hypothesis.that(SMALL_START, found.norm * residual, "<", bound)


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
        lower = rate * float(np.min(np.abs(moment.predictions / dataset.targets)))
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
        Promise.that(active, lost, "<=", 0),
    )


@public
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
        Hypothesis.that("m ≥ 8 ln(n/ε)", wide, ">=", width),
        assumption_1(start),
        relu(start),
    )
    active = event(start, dataset)
    promises = (
        Promise("Assumption 2 holds: ‖XᵀX − D_X‖ stays below", found.bound, found.norm, found.holds),
        Promise(active.name, 0, active.value, active.holds),
        vanishing_loss(trajectory, positive(accuracy, "accuracy")),
    )
    return Certificate("weak_interaction/corollary-1", hypotheses, promises)


def in_paper_units(network: ReLUNetwork) -> ReLUNetwork:
    """Return the same function with output factor 1/m."""
    factor = np.sqrt(network.scale * network.width)
    return ReLUNetwork(
        factor * network.inner, factor * network.outer, slope=network.slope, scale=1.0 / network.width
    )


def checked_start(network: ReLUNetwork | None, dataset: Dataset) -> ReLUNetwork | None:
    """Return the network in the paper's units after checking that it fits the data."""
    if network is None:
        return None
    check_relu_problem(network, dataset)
    return in_paper_units(network)


@dataclass(frozen=True)
class Moment:
    """A recorded time in the paper's clock: the network, which neurons are active, its predictions, and μ.

    active: (m, n); curvature: None where the network fits exactly.
    """

    time: float
    network: ReLUNetwork
    active: Bools
    predictions: Floats
    curvature: float | None


def moments(trajectory: Trajectory, dataset: Dataset, speed: float) -> Iterator[Moment]:
    """Yield what was recorded, at evenly chosen times; speed: of the flow, if the run does not say."""
    speed = positive(agreed(trajectory, "speed", speed, 1.0), "speed")
    times = trajectory.path.times
    chosen = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_TIMES)).astype(int))
    for time in times[chosen]:
        now = check_relu(trajectory(float(time)), "trajectory")
        network = in_paper_units(now)
        predictions = network.predict(dataset.inputs)
        exact = np.array_equal(predictions, dataset.targets)
        resting = trajectory.resting(float(time))
        yield Moment(
            float(time) * now.scale * speed,
            network,
            activity(network, dataset.inputs, resting=resting) > 0,
            predictions,
            None if exact else local_pl(network, dataset, resting=resting),
        )


def assumption_1(network: ReLUNetwork | None) -> Hypothesis:
    """Return |a_j| ≥ ‖w_j‖ for all neurons, with the smallest difference."""
    name = "Assumption 1: |a_j| ≥ ‖w_j‖ for every neuron: the smallest difference"
    if network is None:
        return Hypothesis(name, None, None, 0)
    margin = float(np.min(np.abs(network.outer) - np.linalg.norm(network.inner, axis=1)))
    size = float(np.max(np.abs(network.outer)))
    return Hypothesis(name, margin >= -1e-12 * size, margin, 0)


def event(network: ReLUNetwork | None, dataset: Dataset) -> Hypothesis:
    """Return the event 𝓘 of Lemma 5, with the number of samples that lack a neuron of their sign."""
    name = "the event 𝓘: samples without an active neuron of their sign"
    if network is None:
        return Hypothesis(name, None, None, 0)
    missing = int(np.sum(~correctly_activated(network, dataset)))
    return Hypothesis.that(name, missing, "<=", 0)


def relu(network: ReLUNetwork | None) -> Hypothesis:
    """Return that the activation is the ReLU."""
    slope = None if network is None else network.slope
    return Hypothesis("the activation is the ReLU: its leaky slope", slope is None or slope == 0, slope, 0)


def vanishing_loss(trajectory: Trajectory | None, accuracy: float) -> Promise:
    """Return the promise L → 0: kept if the loss fell to `accuracy` of its start, else not decided."""
    statement = "the loss tends to 0: its last value, relative to the first, to"
    if trajectory is None:
        return Promise(statement, 0)
    ratio = float(trajectory.losses[-1] / trajectory.losses[0]) if trajectory.losses[0] > 0 else 0.0
    return Promise(statement, 0, ratio, True if ratio <= accuracy else None)


@public
def verdict(question: Question) -> Verdict:
    """Return whether Thm 1 applies, with its margin, or which hypothesis fails and by how much.

    A network of the given width is drawn as in App. B, and the certificate is about it; whether it meets
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
        missed = "; ".join(str(one) for one in certificate.hypotheses if not one.holds)
        drawn = f"does not: {missed}" if missed else "meets what a start must meet, (26) too"
        words = (
            f"Theorem 1 applies, margin {weak.bound - weak.value:.4g}: the inputs interact with strength "
            f"{weak.value:.4g} of at most {weak.bound:.4g}; a network of {width} neurons (Lemma 5 asks for "
            f"{np.ceil(needed):.0f}) with |a_j| ≥ ‖w_j‖ has a good neuron for every sample with probability "
            f"at least {1 - EPSILON:g}, and fits the data then, if its residuals are as small as (26) asks. "
            f"The start drawn here {drawn}."
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
            f"({_dimension_words(dataset)}{_whitened_words(dataset)})"
        )
    if small.holds is False and named[NONZERO].holds:
        fails.append(
            f"(26) fails: the residuals of the start drawn here are too large (ν‖r(0)‖ = {small.value:.4g}, "
            f"allowed {small.bound:.4g})"
        )
    return fails


def _dimension_words(dataset: Dataset) -> str:
    """Say in which dimension as many Gaussian inputs are known to do: enough, not necessary."""
    labels = np.abs(dataset.targets)
    ratio = ratio_of(float(labels.min()), float(labels.max()))
    dimension = dimension_needed(dataset.size, ratio, EPSILON)
    if dimension is None:
        return "the labels differ by so much that no dimension would do"
    needed = str(dimension) if dimension < 10**9 else f"about 10^{len(str(dimension)) - 1}"
    return f"as many Gaussian inputs are known to do in dimension {needed}, and may in a lower one"


def _whitened_words(dataset: Dataset) -> str:
    """Say that independent samples can be made orthogonal, and what that costs."""
    if dataset.size > dataset.dimension:
        return ""
    try:
        found = orthogonalised(dataset)
    except InvalidInputError:
        return ""
    return (
        "; whitened samples, `data.orthogonalised`, would not interact, but new inputs are then stretched "
        f"unevenly, by up to {found.condition:.3g} times as much in one direction as in another"
    )
