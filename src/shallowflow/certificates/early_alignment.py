"""Certificates of [early_alignment], Boursier & Flammarion 2024: Lemma 1, Theorems 2 and 4; the verdict.

Every function takes a `ReLUNetwork` (the start), the data, and maybe a trajectory. For the theorems, of which
`certificates.alignment_phase` has 1 and 3, the network may be None: then only what concerns the data is
decided. λ is √Σ_j a_j², the smallest scale of (3) for which (5) holds at this width; the proofs use no more
of (5). A network with output factor s is the paper's network with parameters √s·θ and time s·t.

Where the paper's print and its proofs differ, `landscape.early_alignment` says how. One more: Thms 2 and 4
say h(x) = ⟨β*, x⟩ for all x; the limit is active on all data or on none, so this holds on the cone that the
data span, and fails at −x_k, where the active neurons are off. It is certified on the data.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import one_of, positive, public
from shallowflow.certificates.alignment_phase import (
    AlignmentQuery,
    Surroundings,
    alignment_certificate,
    dominance,
    networks_until,
)
from shallowflow.certificates.certificate import (
    Certificate,
    Hypothesis,
    Promise,
    Question,
    Table,
    Verdict,
    failures,
)
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.landscape.early_alignment.ends import (
    SpuriousConditions,
    balance,
    init_scale,
    least_squares,
    positivity,
    spurious_conditions,
)
from shallowflow.landscape.early_alignment.extremal import (
    ExtremalVectors,
)
from shallowflow.landscape.early_alignment.frozen import destinations, exit_time
from shallowflow.landscape.geometry.activity import check_relu, check_relu_problem
from shallowflow.landscape.geometry.cones import face_bound
from shallowflow.models import initialize
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork


@public
def lemma_1(
    network: ReLUNetwork, dataset: Dataset, trajectory: Trajectory | None = None, *, accuracy: float = 1e-6
) -> Certificate:
    """Certify balancedness: a_j² − ‖w_j‖² is conserved, and the sign of a_j if |a_j| ≥ ‖w_j‖.

    accuracy: of the trajectory, relative to the largest a_j² + ‖w_j‖² on the way (a descent conserves the
    balance only up to its step).
    """
    check_relu_problem(network, dataset)
    accuracy = positive(accuracy, "accuracy")
    name = "every neuron is positively homogeneous, and the flow trains both layers"
    drift, changes = (None, None) if trajectory is None else _balance_drift(network, trajectory)
    statement = "a_j² − ‖w_j‖² of no neuron changes by more than (relative)"
    promises = [Promise.that(statement, drift, "<=", accuracy)]
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


@public
def theorem_2(
    network: ReLUNetwork | None,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    accuracy: float = 1e-6,
) -> Certificate:
    """Certify that small networks end in the least-squares line on three points like Assumption 3's, η < 1/6.

    Lemma 8, by which Assumptions 4 to 6 would follow, has a slip (see
    `landscape.early_alignment.ends`), so they are checked too. Parameters and promises as in `theorem_4`.
    """
    hypotheses = (*_three_points(spurious_conditions(dataset)), *_small_start(network, dataset))
    promises = _line_promises(dataset, trajectory, positive(accuracy, "accuracy"))
    return Certificate("early_alignment/theorem-2", hypotheses, promises)


@public
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
    check_relu_problem(network, dataset)
    scale = init_scale(network)
    return (
        Hypothesis.that("the activation is ReLU: its leaky slope is", network.slope, "<=", 0),
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


INITIALISATIONS = ("balanced", "dominated", "gaussian")
SEARCH_WORK, MOST_STARTS = 5 * 10**7, 100
"""The search for extremal vectors makes SEARCH_WORK/(n²d) starts, d at most n + 1: a few seconds."""
FITS = 1e-12
"""Relative loss below which the least-squares line fits the data."""
EPSILON, ALPHA_0 = 0.25, 0.1
SHOWN = 4
"""So many destinations of neurons are named."""


@public
def verdict(question: Question) -> Verdict:
    """Return extremal vectors, thresholds, and Lemma 1 and Theorems 1 to 4 on the data and a start.

    That small networks end in the line is never promised of a given scale: Theorems 2 and 4 hold below a λ̃
    that the paper does not give (`dynamics.critical_scale` measures one).
    """
    dataset, loss, slope = question.dataset, question.loss, question.slope
    if loss is not None:
        loss.check(dataset.targets)
    name = one_of(question.init, "init", INITIALISATIONS)
    start: ReLUNetwork = getattr(initialize, name)(
        question.width, dataset.dimension, init_scale=question.init_scale, slope=slope, seed=question.seed
    )
    reached = min(dataset.dimension, dataset.size + 1)
    starts = min(SEARCH_WORK // (dataset.size**2 * reached), MOST_STARTS)
    around = Surroundings(dataset, loss, slope, starts=starts, progress=question.progress)
    first = AlignmentQuery(start, dataset, loss, slope, epsilon=EPSILON, alpha_0=ALPHA_0, surroundings=around)
    third = AlignmentQuery(
        start, dataset, loss, slope, epsilon=EPSILON, positive_start=True, surroundings=around
    )
    aligned = [alignment_certificate(query) for query in (first, third)]
    # Thms 2 and 4 concern the data alone, if their cones can be listed; and the square loss and ReLU.
    lines = slope == 0 and (loss is None or isinstance(loss, SquareLoss))
    ends = line_certificates(dataset) if lines and around.arrangement is not None else ()
    certificates = (lemma_1(start, dataset), *aligned, *ends)
    ways, counted = _ways_words(start, dataset, loss)
    words = (
        _vectors_words(around.vectors, starts, dataset),
        ways,
        _alignment_words(first, third, *aligned, asked=question.init_scale),
        *(_line_words(dataset, ends, init_scale(start)) if lines else (OTHER_SETTING,)),
    )
    # Where the data satisfy Theorem 4, whether λ is below λ̃ is open; where they do not, nothing is promised.
    applies = None if not ends or any(certificate.holds for certificate in ends) else False
    tables = (_vectors_table(around.vectors),)
    numbers = {**_numbers(first), **counted}
    return Verdict("early_alignment", applies, words, numbers, tables, certificates)


def _vectors_words(vectors: ExtremalVectors, starts: int, dataset: Dataset) -> str:
    """Return what small neurons turn to; starts: of the search where the cones are too many to list."""
    kinds = [(kind, len(vectors.of_kind(kind))) for kind in ("maximum", "minimum", "saddle")]
    plural = {"maximum": "maxima", "minimum": "minima", "saddle": "saddles"}
    counted = ", ".join(f"{n} {kind if n == 1 else plural[kind]}" for kind, n in kinds if n) or "none"
    neurons = "Neurons with a > 0 turn to maxima of G, those with a < 0 to minima."
    some = f"{len(vectors)} extremal vector{'' if len(vectors) == 1 else 's'}"
    if vectors.complete:
        return f"Small neurons turn to {some}: {counted}. {neurons}"
    faces = face_bound(dataset.size, min(dataset.size, dataset.dimension))
    # The number may be beyond what a float can hold.
    rough = f"{faces:,}" if faces < 10**6 else f"about 10^{len(str(faces)) - 1}"
    many = f"There may be {rough} activation cones and faces, too many to list"
    if not starts:
        return f"{many}, and too many points for a search of a few seconds: no extremal vector is known."
    return (
        f"{many}: a search from {starts} random direction{'s' if starts > 1 else ''} found {some} "
        f"({counted}), maybe not all. {neurons}"
    )


def _vectors_table(vectors: ExtremalVectors) -> Table:
    """Return the extremal vectors with their kinds and values."""
    rows = tuple((vector.kind, vector.value, _direction(vector.direction)) for vector in vectors)
    title = "Extremal vectors" if vectors.complete else "Extremal vectors found by search (maybe not all)"
    return Table(title, ("kind", "G", "direction"), rows)


def _direction(direction: np.ndarray[tuple[int], np.dtype[np.float64]], most: int = 6) -> str:
    shown = ", ".join(f"{entry:.4f}" for entry in direction[:most])
    return f"({shown}{', …' if len(direction) > most else ''})"


def _ways_words(
    start: ReLUNetwork, dataset: Dataset, loss: Loss | None
) -> tuple[str, dict[str, float | None]]:
    """Say where the neurons of a start turn to while the forces stay, and when the loss begins to fall."""
    found, leaves = destinations(start, dataset, loss=loss), exit_time(start, dataset, loss=loss)
    reached = found.of >= 0
    dead, other = int(found.dead.sum()), int(np.sum(~found.dead & ~reached))
    ends = ", ".join(
        f"{number} reach a {vector.kind} with ‖D‖ = {vector.norm:.3g}"
        for number, vector in list(zip(found.visits.tolist(), found.vectors, strict=True))[:SHOWN]
    )
    if len(found.vectors) > SHOWN:
        ends += (
            f", {int(found.visits[SHOWN:].sum())} one of {len(found.vectors) - SHOWN} other extremal vectors"
        )
    parts = [f"{dead} {'dies' if dead == 1 else 'die'}"] + ([ends] if ends else [])
    parts += [f"{other} reach none"] if other else []
    last = float(np.max(found.arrivals[reached], initial=0.0))
    words = f"Of the {start.width} neurons of this start (closed form, forces frozen): {'; '.join(parts)}"
    words += f", the last within cos 0.99 at t = {last:.3g}" if reached.any() else ""
    words += (
        f". The loss is 1 % lower at t = {leaves.time:.4g} (exit clock)."
        if leaves.reached
        else ". Frozen forces never lower the loss by 1 %."
    )
    return words, {"neurons that die": float(dead), "1 % less at t": leaves.time if leaves.reached else None}


OTHER_SETTING = "Theorems 2 and 4, about the end of training, are for the square loss and ReLU (slope 0) "
"only."


def _alignment_words(
    query: AlignmentQuery,
    third_query: AlignmentQuery,
    first: Certificate,
    third: Certificate,
    *,
    asked: float,
) -> str:
    found, scale = query.threshold, query.scale
    if found is None or scale is None:
        return "λ*, τ and the constants of Theorem 1 need all activation cones: unknown here."
    place = (
        f"λ = √Σa_j² = {scale:.3g} where {asked:g} was asked for, and λ* = {found.scale:.3g} "
        f"(ε = {EPSILON}, α₀ = {ALPHA_0})"
    )
    if first.holds:
        end, proven = found.time(scale), found.arrival()
        if end < proven:
            return (
                f"Theorem 1 applies to this start ({place}), but says nothing yet of where its neurons are "
                f"at "
                f"τ = {end:.3g}: that is proven only from t₂ = {proven:.3g} on; outer weights stay small "
                f"until τ."
            )
        return f"Theorem 1 applies to this start ({place}): its neurons align by τ = {end:.3g}."
    if third.holds:
        turned = int(np.sum(third_query.chosen)) if third_query.chosen is not None else 0
        star = "unknown" if third_query.threshold is None else f"{third_query.threshold.scale:.3g}"
        return (
            f"Theorem 1 does not apply to this start ({place}): {failures(first)}. "
            f"Theorem 3 does, with λ* = {star}, to the {turned} neurons that start turned to "
            "where they are pulled."
        )
    failing = [one.name for one in first.hypotheses if one.holds is False]
    alone = failing == [one.name for one in first.hypotheses if "below λ*" in one.name]
    smaller = " A smaller --init-scale would help." if alone and found.scale > 0 else ""
    return f"Theorem 1 does not apply to this start ({place}): {failures(first)}.{smaller}"


def _line_words(dataset: Dataset, ends: tuple[Certificate, ...], scale: float) -> tuple[str, ...]:
    """Return whether small networks end in the least-squares line, or why no theorem says so; scale: λ."""
    if not ends:
        return (_open_words(dataset),)
    second, fourth = ends
    line = least_squares(dataset)
    if fourth.holds:
        fits = line.loss <= FITS * float(np.mean(dataset.targets**2))
        end = "which fits the data" if fits else "which stays positive: a spurious stationary point"
        return (
            "Below some scale λ̃ > 0, whatever the width, training ends in the least-squares line "
            f"(Theorem {2 if second.holds else 4}): loss {line.loss:.10g} (½·mean), {end}. The paper gives "
            f"no "
            f"number for λ̃: at your λ = {scale:.3g} it is undecided; --critical-scale measures it.",
        )
    form = second.hypotheses[0]
    return (
        f"No theorem says that small networks end in the least-squares line (loss {line.loss:.10g}); "
        f"they may or may not. Theorem 4: {failures(fourth)}.",
        "Theorem 2: the data are not three points of the form of Assumption 3."
        if form.value is None
        else f"Theorem 2: Assumption 3 needs η < 1/6, these points have η = {form.value:.4g}.",
    )


def _open_words(dataset: Dataset) -> str:
    """Return what can be said of Theorems 2 and 4 without the cones: Assumption 4's signs."""
    correlation, target = positivity(dataset)
    if min(correlation, target) > 0:
        return "Whether small networks end in the least-squares line is undecided: too many cones."
    found = f"⟨x_k, x_k'⟩ = {correlation:.4g}" if correlation <= 0 else f"y_k = {target:.4g}"
    return (
        "No theorem says that small networks end in the least-squares line: Assumption 4 fails, as the "
        f"smallest {found} is not positive."
    )


def _numbers(query: AlignmentQuery) -> dict[str, float | None]:
    found, scale = query.threshold, query.scale
    if found is None:
        return {**dict.fromkeys(("D_max", "D_min", "α_min", "δ₀", "λ*", "τ", "t₂")), "λ": scale}
    return {
        "D_max": found.d_max,
        "D_min": found.d_min,
        "α_min": found.alpha_min,
        "δ₀": found.delta_0,
        "λ*": found.scale,
        "λ": scale,
        "τ": None if scale is None else found.time(scale),
        "t₂": found.arrival(),
    }
