"""Certificates of the alignment phase, [early_alignment] Thms 1 and 3: hypotheses, promises, what was seen.

Thm 1 (ii) lets w be opposed to D; for a_j < 0 it is w/a_j that is (the proof's symmetric case).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, positive, public
from shallowflow.certificates.certificate import (
    Certificate,
    Hypothesis,
    Promise,
)
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.ends import (
    balance,
    init_scale,
)
from shallowflow.landscape.early_alignment.extremal import (
    STILL,
    ExtremalVectors,
    NeuronAlignment,
    extremal_vectors,
    extremal_vectors_of,
    lifted,
    neuron_alignment,
)
from shallowflow.landscape.early_alignment.pulls import (
    ON,
    AlignmentConstants,
    AlignmentThreshold,
    alignment_constants,
    check_exponents,
    pull,
    still_but_alive,
)
from shallowflow.landscape.geometry.activity import check_relu, check_relu_problem
from shallowflow.landscape.geometry.cones import LIMIT, Cones, cones, span_of
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork

SEARCH_STARTS = 100
"""Starts of the search for saddles of G where the activation cones are too many to list."""

MOST_TIMES = 100
"""At most so many recorded times are looked at."""


class Surroundings:
    """The cones of the data (None where they are too many) and its extremal vectors (then by a search).

    Cones and constants are those of `space.dataset`, in at most n + 1 dimensions; the vectors are in R^d.
    limit: on the number of cones; starts: of the search (0: none is made).
    """

    def __init__(
        self,
        dataset: Dataset,
        loss: Loss | None = None,
        slope: float = 0.0,
        *,
        limit: int = LIMIT,
        starts: int = SEARCH_STARTS,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.space = span_of(dataset)
        self.pull = pull(self.space.dataset, loss, slope)
        self.arrangement: Cones | None = None
        self.constants: AlignmentConstants | None = None
        self.coincidences: int | None = None
        self.vectors = ExtremalVectors(complete=False)
        try:
            self.arrangement = cones(self.space.dataset, limit=limit)
        except InvalidInputError:
            if starts:
                self.vectors = extremal_vectors(dataset, loss, slope, starts=starts, progress=progress)
            return
        show = progress or (lambda share: None)
        patterns = self.arrangement.patterns
        show(0.1)
        shortest = self.pull.minimal_all(patterns)
        show(0.4)
        found = extremal_vectors_of(self.pull, self.arrangement, shortest)
        self.vectors = lifted(found, self.space)
        show(0.6)
        self.constants = alignment_constants(self.pull, self.arrangement, shortest, loss)
        self.coincidences = int(np.sum(still_but_alive(self.pull, patterns, shortest)))


class AlignmentQuery:
    """Data and start under Thms 1 and 3; what needs all activation cones is None where these are too many.

    positive_start: Thm 3, whose neurons start with ⟨D, w/a⟩ > 0 (then alpha_0 = 1); surroundings: cones and
    extremal vectors where they are known already.
    """

    def __init__(
        self,
        network: ReLUNetwork | None,
        dataset: Dataset,
        loss: Loss | None,
        slope: float,
        *,
        epsilon: float,
        alpha_0: float = 1.0,
        positive_start: bool = False,
        surroundings: Surroundings | None = None,
    ) -> None:
        check_exponents(epsilon, alpha_0)
        if network is not None:
            check_relu_problem(network, dataset)
            slope = network.slope
        around = surroundings or Surroundings(dataset, loss, slope)
        self.network, self.space, self.loss = network, around.space, loss
        self.epsilon, self.alpha_0, self.positive_start = epsilon, alpha_0, positive_start
        self.pull = around.pull
        self.scale = None if network is None else init_scale(network)
        self.chosen = None if network is None else self._chosen(network)
        self.vectors, self.coincidences = around.vectors, around.coincidences
        self.general = None if around.arrangement is None else around.arrangement.general
        self.threshold: AlignmentThreshold | None = None
        if around.constants is not None:
            self.threshold = around.constants.threshold(epsilon, alpha_0)

    def alignment(self, network: ReLUNetwork, tolerance: float = ON) -> NeuronAlignment:
        """Return how far the neurons of a network are aligned."""
        inside = self.space.network(network)
        return neuron_alignment(inside, self.space.dataset, loss=self.loss, tolerance=tolerance)

    def _chosen(self, network: ReLUNetwork) -> Bools:
        """Return which neurons satisfy the first point of Condition 1, or of Condition 2, (m,)."""
        found = self.alignment(network)
        if self.positive_start:
            return np.asarray(found.alignments > 0)
        # A dead neuron has 0 > −0 to satisfy; the theorem's D = 0 case is meant for it.
        slack = np.sqrt(1 - self.alpha_0**2) * found.norms
        return np.asarray((found.alignments > -slack) | (found.norms == 0))

    @property
    def saddles(self) -> int:
        """How many saddles of G are known."""
        return len(self.vectors.of_kind("saddle"))

    @property
    def without_saddles(self) -> bool | None:
        """Whether G has no saddle; None if a search found none."""
        return self.saddles == 0 if self.vectors.complete or self.saddles else None

    def end(self, speed: float) -> float | None:
        """Return τ in the trajectory's time."""
        if self.threshold is None or self.network is None or self.scale is None:
            return None
        return self.threshold.time(self.scale) / (speed * self.network.scale)

    def misalignment(self, norm: float) -> float | None:
        """Return the promised bound for an extremal vector of this norm."""
        if self.threshold is None or self.scale is None:
            return None
        return self.threshold.misalignment(self.scale, norm, positive=self.positive_start)

    def data_hypotheses(self) -> list[Hypothesis]:
        """Return Assumptions 1 and 2 in their deterministic form: what Lemmas 2, 9, 10 and 11 need."""
        weakest = float(np.min(np.abs(self.pull.strengths)))
        least = positive_constants = isolated = None
        if self.threshold is not None:
            least = min(self.threshold.alpha_min, self.threshold.d_min, self.threshold.delta_0)
            positive_constants, isolated = least > 0, self.coincidences == 0
        return [
            Hypothesis.that(
                "the loss has a slope at output 0 for every target (Assumption 1)", weakest, ">", 0
            ),
            Hypothesis("the inputs are in general position (Assumption 2)", self.general),
            Hypothesis("α_min, D_min and δ₀ are positive (Lemmas 9, 10)", positive_constants, least, 0),
            Hypothesis("cones with D = 0 though a gate is open (Lemma 11)", isolated, self.coincidences, 0),
        ]

    def start_hypotheses(self) -> list[Hypothesis]:
        """Return what the initialisation must satisfy: (4), λ < λ*, and some neurons of the condition."""
        if self.network is None or self.chosen is None:
            return []
        bound = None if self.threshold is None else self.threshold.scale
        below = None if self.scale is None or bound is None else self.scale < bound
        condition = "Condition 2.1" if self.positive_start else "Condition 1.1"
        covered = f"neurons with {condition} (only these are promised to align)"
        return [
            dominance(self.network),
            Hypothesis("the initialisation scale λ is below λ* (22)", below, self.scale, bound),
            Hypothesis(covered, bool(self.chosen.any()), int(self.chosen.sum()), 1),
        ]


def dominance(network: ReLUNetwork) -> Hypothesis:
    """Return hypothesis (4)."""
    found = balance(network)
    name = "|a_j| ≥ ‖w_j‖ for every neuron (4): the least a_j² − ‖w_j‖²"
    return Hypothesis(name, found.keeps_signs, float(np.min(found.values)), 0)


@dataclass(frozen=True)
class Observed:
    """What a trajectory showed until τ: the change of outer weights, ‖w_j‖/|a_j|, and the alignment at τ."""

    change: float
    ratio: float
    alignment: NeuronAlignment
    signs: Bools


def observe(
    query: AlignmentQuery, trajectory: Trajectory | None, speed: float, accuracy: float
) -> Observed | None:
    """Return what was seen, or None without a trajectory that reaches τ and can be read there."""
    end = query.end(positive(agreed(trajectory, "speed", speed, 1.0), "speed"))
    if trajectory is None or end is None or query.network is None:
        return None
    networks = networks_until(trajectory, end)
    if not networks or networks[-1][0] < end:
        return None
    start, change, ratio = query.network.outer, 1.0, 0.0
    seen = start != 0
    for _, network in networks:
        factors = np.abs(network.outer[seen] / start[seen])
        lengths = np.linalg.norm(network.inner[seen], axis=1)
        with np.errstate(divide="ignore"):
            change = max(change, float(np.max(np.maximum(factors, 1.0 / factors), initial=1.0)))
            ratio = max(ratio, float(np.max(lengths / np.abs(network.outer[seen]), initial=0.0)))
    return Observed(change, ratio, query.alignment(networks[-1][1], accuracy), start > 0)


def networks_until(trajectory: Trajectory, end: float) -> list[tuple[float, ReLUNetwork]]:
    """Return (time since the start, network) at up to `MOST_TIMES` records until `end`, and at `end`."""
    check_relu(trajectory.initial, "trajectory")
    begin, last = float(trajectory.path.times[0]), float(trajectory.path.times[-1])
    times = trajectory.path.times[trajectory.path.times - begin <= end]
    chosen = times[np.unique(np.linspace(0, len(times) - 1, MOST_TIMES).astype(np.int64))].tolist()
    if chosen[-1] < begin + end <= last:
        chosen.append(begin + end)
    networks = []
    for time in chosen:
        try:
            networks.append((time - begin, check_relu(trajectory(time), "trajectory")))
        except InvalidInputError:
            break  # a trajectory without networks on the way
    return networks


def alignment_promises(
    query: AlignmentQuery, observed: Observed | None, accuracy: float
) -> tuple[Promise, ...]:
    """Return statements (i) and (ii) of Thm 1 or 3, with what was observed."""
    end = query.end(1.0)
    until = "τ" if end is None else f"τ = {end:.4g} (in the flow's own time)"
    factor = None if query.scale is None else float(query.scale ** (-2 * query.epsilon))
    change = ratio = elsewhere = kept_factor = kept_ratio = None
    if observed is not None and factor is not None and query.chosen is not None:
        change, ratio = observed.change, observed.ratio
        kept_factor, kept_ratio = change <= factor * (1 + accuracy), ratio <= 1 + accuracy
        elsewhere = query.chosen & ~_arrived(query, observed)
    return (
        Promise(
            f"(i) until {until}, outer weights change at most by the factor", factor, change, kept_factor
        ),
        Promise("(i) ‖w_j‖ ≤ |a_j|: the largest ratio is at most", 1.0, ratio, kept_ratio),
        _whereabouts(query, elsewhere),
        _misalignment(query, observed, elsewhere, accuracy),
    )


def _promised(query: AlignmentQuery) -> float | None:
    """Return 0, the number of neurons that may be elsewhere at τ, or None if τ < t₂: nothing is proven."""
    end = query.end(1.0)
    if query.threshold is None or query.network is None or end is None:
        return None
    arrival = query.threshold.arrival(positive=query.positive_start) / query.network.scale
    return 0.0 if end >= arrival else None


def _whereabouts(query: AlignmentQuery, elsewhere: Bools | None) -> Promise:
    """Return the promise on the cones in which the neurons of the condition are at τ."""
    promised = _promised(query)
    statement = "(ii) at τ (if τ ≥ t₂), neurons of the condition that are not where they should be"
    if elsewhere is None:
        return Promise(statement, promised)
    unproven = promised is None and elsewhere.any()
    return Promise(statement, promised, int(elsewhere.sum()), None if unproven else not elsewhere.any())


def _arrived(query: AlignmentQuery, observed: Observed) -> Bools:
    """Return which neurons are at τ where Thm 1 (extrema of G, or dead) or Thm 3 has them."""
    found = observed.alignment
    if query.positive_start:
        return np.asarray(found.states >= 0)
    extrema = np.where(observed.signs, found.of_kind("maximum"), found.of_kind("minimum"))
    return np.asarray((found.states == STILL) | extrema)


def _misalignment(
    query: AlignmentQuery, observed: Observed | None, elsewhere: Bools | None, accuracy: float
) -> Promise:
    """Return the promise on ‖D‖ − ⟨D, w/a⟩, over the neurons that are neither dead nor exactly opposed."""
    statement = "(ii) at τ, the others are aligned: ‖D‖ − ⟨D, w/a⟩ is at most"
    if observed is None or elsewhere is None or query.chosen is None:
        least = min((vector.norm for vector in query.vectors), default=None)
        return Promise(statement, None if least is None else query.misalignment(least))
    found = observed.alignment
    chosen = query.chosen & ~elsewhere & (found.states >= 0) & ~found.opposed(accuracy)
    errors, norms = found.misalignments[chosen], found.norms[chosen]
    distinct, which = np.unique(norms, return_inverse=True)
    bounds = np.array([query.misalignment(norm) for norm in distinct.tolist()], dtype=np.float64)[which]
    kept = bool(np.all(errors <= bounds + accuracy * norms))
    largest = float(np.max(bounds)) if len(bounds) else None
    return Promise(statement, largest, float(np.max(errors, initial=0.0)), kept)


@public
def theorem_1(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    loss: Loss | None = None,
    slope: float = 0.0,
    speed: float = 1.0,
    epsilon: float = 0.25,
    alpha_0: float = 0.1,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify early alignment if G has no saddle: until τ outer weights stay, neurons turn to extrema of G.

    loss: ½·mean of squares by default; slope: the leaky slope if there is no network; epsilon, alpha_0: of
    the theorem; speed: of the flow, if the trajectory does not say; accuracy: of the trajectory (relative;
    and how near, in angle, a neuron lies on a data hyperplane).
    """
    loss = agreed(trajectory, "loss", loss, None)
    query = AlignmentQuery(network, dataset, loss, slope, epsilon=epsilon, alpha_0=alpha_0)
    return alignment_certificate(query, trajectory, speed, accuracy)


@public
def theorem_3(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    loss: Loss | None = None,
    slope: float = 0.0,
    speed: float = 1.0,
    epsilon: float = 0.25,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify early alignment for any G, of the neurons that start with ⟨D(w, 0), w/a⟩ > 0 (Condition 2.1).

    Condition 2.2, that a neuron stays in a cone as long as it can, is a property of the solution: it
    follows if G has no saddle (Lemma 13), else it stays undecided. Parameters as in `theorem_1`.
    """
    loss = agreed(trajectory, "loss", loss, None)
    query = AlignmentQuery(network, dataset, loss, slope, epsilon=epsilon, positive_start=True)
    return alignment_certificate(query, trajectory, speed, accuracy)


def alignment_certificate(
    query: AlignmentQuery, trajectory: Trajectory | None = None, speed: float = 1.0, accuracy: float = 1e-6
) -> Certificate:
    """Return the certificate of Thm 1, or of Thm 3 if the query is about neurons of Condition 2."""
    theorem, name, holds = "theorem-1", "G has no saddle point on the sphere", query.without_saddles
    if query.positive_start:
        name = "neurons stay in a cone while they can (Condition 2.2; certain if G has no saddle)"
        theorem, holds = "theorem-3", holds or None
    second = Hypothesis(name, holds, query.saddles, 0)
    accuracy = positive(accuracy, "accuracy")
    hypotheses = (*query.data_hypotheses(), second, *query.start_hypotheses(), *_vanishing(query))
    promises = alignment_promises(query, observe(query, trajectory, speed, accuracy), accuracy)
    return Certificate(f"early_alignment/{theorem}", hypotheses, promises)


def _vanishing(query: AlignmentQuery) -> tuple[Hypothesis, ...]:
    """Return Condition 1.2 of Thm 1."""
    if query.network is None or query.positive_start:
        return ()
    stays = balance(query.network).kind == "balanced" or query.network.slope == 0
    name = "a neuron that vanishes stays zero (Condition 1.2): balanced, or ReLU'(0) = 0"
    return (Hypothesis(name, stays or None),)
