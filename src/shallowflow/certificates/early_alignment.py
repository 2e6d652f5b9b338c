"""Certificates of [early_alignment], Boursier & Flammarion 2024: Lemma 1, Theorems 1, 2, 3 and 4.

Every function takes a `ReLUNetwork` (the start), the data, and maybe a trajectory. For the theorems the
network may be None: then only what concerns the data is decided. λ is √Σ_j a_j², the smallest scale of (3)
for which (5) holds at this width; the proofs use no more of (5). A network with output factor s is the
paper's network with parameters √s·θ and time s·t.

Where the paper's print and its proofs differ, `landscape.alignment` and `landscape.spurious` say how. Two
more: Thm 1 (ii) lets w be opposed to D; for a_j < 0 it is w/a_j that is (the proof's symmetric case). Thms
2 and 4 say h(x) = ⟨β*, x⟩ for all x; the limit is active on all data or on none, so this holds on the cone
that the data span, and fails at −x_k, where the active neurons are off. It is certified on the data.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import positive
from shallowflow.certificates.alignment_phase import (
    AlignmentQuery,
    alignment_promises,
    checked,
    dominance,
    networks_until,
    observe,
)
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.phases import init_scale
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.landscape.balance import balance, check_relu
from shallowflow.landscape.least_squares import least_squares
from shallowflow.landscape.spurious import SpuriousConditions, spurious_conditions
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork


def lemma_1(
    network: ReLUNetwork, dataset: Dataset, trajectory: Trajectory | None = None, *, accuracy: float = 1e-6
) -> Certificate:
    """Certify balancedness: a_j² − ‖w_j‖² is conserved, and the sign of a_j if |a_j| ≥ ‖w_j‖.

    accuracy: of the trajectory, relative to the largest a_j² + ‖w_j‖² on the way (a descent conserves the
    balance only up to its step).
    """
    checked(network, dataset)
    accuracy = positive(accuracy, "accuracy")
    name = "every neuron is positively homogeneous, and the flow trains both layers"
    drift, changes = (None, None) if trajectory is None else _balance_drift(network, trajectory)
    statement = "a_j² − ‖w_j‖² of no neuron changes by more than (relative)"
    promises = [Promise(statement, accuracy, drift, None if drift is None else drift <= accuracy)]
    if balance(network).keeps_signs:
        kept = None if changes is None else changes == 0
        promises.append(Promise("no outer weight changes its sign", 0.0, changes, kept))
    return Certificate("early_alignment/lemma-1", (Hypothesis(name, True),), tuple(promises))


def _balance_drift(network: ReLUNetwork, trajectory: Trajectory) -> tuple[float, int]:
    """Return the largest change of a balance, relative, and the number of outer weights that change sign."""
    first, drift, size = balance(network).values, 0.0, 0.0
    changed = np.zeros(network.width, np.bool_)
    for _, later in networks_until(trajectory, np.inf):
        drift = max(drift, float(np.max(np.abs(balance(later).values - first))))
        size = max(size, float(np.max(later.outer**2 + np.sum(later.inner**2, axis=1))))
        changed |= later.outer * network.outer < 0
    return (drift / size if size > 0 else 0.0), int(changed.sum())


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
    the theorem; speed: of the flow; accuracy: of the trajectory (relative; and how near, in angle, a neuron
    lies on a data hyperplane).
    """
    query = AlignmentQuery(network, dataset, loss, slope, epsilon=epsilon, alpha_0=alpha_0)
    return alignment_certificate(query, trajectory, speed, accuracy)


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
    query = AlignmentQuery(network, dataset, loss, slope, epsilon=epsilon, positive_start=True)
    return alignment_certificate(query, trajectory, speed, accuracy)


def alignment_certificate(
    query: AlignmentQuery, trajectory: Trajectory | None = None, speed: float = 1.0, accuracy: float = 1e-6
) -> Certificate:
    """Return the certificate of Thm 1, or of Thm 3 if the query is about neurons of Condition 2."""
    theorem, second = (
        ("theorem-3", _stays(query)) if query.positive_start else ("theorem-1", _no_saddle(query))
    )
    accuracy = positive(accuracy, "accuracy")
    hypotheses = (*query.data_hypotheses(), second, *query.start_hypotheses(), *_vanishing(query))
    promises = alignment_promises(query, observe(query, trajectory, speed, accuracy), accuracy)
    return Certificate(f"early_alignment/{theorem}", hypotheses, promises)


def _no_saddle(query: AlignmentQuery) -> Hypothesis:
    return Hypothesis("G has no saddle point on the sphere", query.without_saddles, query.saddles, 0)


def _stays(query: AlignmentQuery) -> Hypothesis:
    name = "neurons stay in a cone while they can (Condition 2.2; certain if G has no saddle)"
    return Hypothesis(name, query.without_saddles or None, query.saddles, 0)


def _vanishing(query: AlignmentQuery) -> tuple[Hypothesis, ...]:
    """Return Condition 1.2 of Thm 1."""
    if query.network is None or query.positive_start:
        return ()
    stays = balance(query.network).kind == "balanced" or query.network.slope == 0
    name = "a neuron that vanishes stays zero (Condition 1.2): balanced, or ReLU'(0) = 0"
    return (Hypothesis(name, stays or None),)


def theorem_2(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that small networks end in the least-squares line on three points like Assumption 3's, η < 1/6.

    Lemma 8, by which Assumptions 4 to 6 would follow, has a slip (see `landscape.spurious`), so they are
    checked too. Parameters and promises as in `theorem_4`.
    """
    hypotheses = (*_three_points(spurious_conditions(dataset)), *_small_start(network, dataset))
    promises = _line_promises(dataset, trajectory, positive(accuracy, "accuracy"))
    return Certificate("early_alignment/theorem-2", hypotheses, promises)


def theorem_4(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that small ReLU networks of any width end in the least-squares line (square loss).

    Without a network this is a statement about the data: there is a λ̃ > 0 such that every start (3)–(5) with
    λ < λ̃ ends there. The paper gives no number for λ̃, so that for a given network the last hypothesis stays
    undecided. accuracy: of the end of the trajectory, relative to the targets. A trajectory that has not
    arrived neither keeps nor breaks the promise; one that falls below the line's loss breaks it.
    """
    hypotheses = (*_line_hypotheses(spurious_conditions(dataset)), *_small_start(network, dataset))
    promises = _line_promises(dataset, trajectory, positive(accuracy, "accuracy"))
    return Certificate("early_alignment/theorem-4", hypotheses, promises)


def line_certificates(dataset: Dataset) -> tuple[Certificate, Certificate]:
    """Return Thms 2 and 4 on the data alone; the cones are listed once for both."""
    found, promises = spurious_conditions(dataset), _line_promises(dataset, None, 1.0)
    return (
        Certificate("early_alignment/theorem-2", _three_points(found), promises),
        Certificate("early_alignment/theorem-4", _line_hypotheses(found), promises),
    )


def _three_points(found: SpuriousConditions) -> tuple[Hypothesis, ...]:
    """Return Assumption 3, and Assumptions 4 to 6."""
    eta = found.eta if np.isfinite(found.eta) else None
    first = Hypothesis("Assumption 3 holds with η < 1/6: the smallest η", found.assumption_3, eta, 1 / 6)
    return (first, *_line_hypotheses(found))


def _line_hypotheses(found: SpuriousConditions) -> tuple[Hypothesis, ...]:
    """Return Assumptions 4, 5 and 6."""
    numbers = (
        ("Assumption 4: all inputs are positively correlated", found.correlation),
        ("Assumption 4: all targets are positive", found.target),
        ("Assumption 5: a neuron that fits stays active on the extreme points", found.dominance),
        ("Assumption 6: extreme points lie above the least-squares line", found.above),
        ("Assumption 6 (1): negative neurons are driven over the hyperplanes they approach", found.inward),
        ("Assumption 6 (2): a negative neuron only worsens the line", found.worse),
    )
    margins = [
        Hypothesis(name, value > 0, value if np.isfinite(value) else None, 0) for name, value in numbers
    ]
    position = Hypothesis("Assumption 4: n ≥ d inputs in general position", found.general)
    return (*margins[:2], position, *margins[2:])


def _small_start(network: ReLUNetwork | None, dataset: Dataset) -> tuple[Hypothesis, ...]:
    """Return what a given network must satisfy."""
    if network is None:
        return ()
    scale = init_scale(checked(network, dataset))
    return (
        Hypothesis("the activation is ReLU: its leaky slope is", network.slope == 0, network.slope, 0),
        dominance(network),
        Hypothesis("λ is below λ̃ (the paper proves that there is one, without a number): λ is", None, scale),
    )


def _line_promises(dataset: Dataset, trajectory: Trajectory | None, accuracy: float) -> tuple[Promise, ...]:
    """Return the promises of Thms 2 and 4: the line, and its loss."""
    line = least_squares(dataset)
    distance = loss = arrived = kept = None
    if trajectory is not None:
        predictions = check_relu(trajectory.final, "trajectory")(dataset.inputs)
        distance = float(np.max(np.abs(predictions - dataset.inputs @ line.coefficients)))
        loss = SquareLoss().value(predictions, dataset.targets)
        size = accuracy * float(np.max(np.abs(dataset.targets)))
        arrived = True if distance <= size else None
        kept = arrived if loss >= line.loss - size**2 else False
    return (
        Promise(
            "the network tends to the least-squares line: its distance on the data to", 0, distance, arrived
        ),
        Promise("and its loss (½·mean), which stays positive, to", line.loss, loss, kept),
    )
