"""The verdict of [early_alignment] on a data set: where small networks turn, and whether they get stuck."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import one_of
from shallowflow.certificates import early_alignment
from shallowflow.certificates.alignment_phase import AlignmentQuery, Surroundings
from shallowflow.certificates.certificate import Certificate, Hypothesis
from shallowflow.certificates.verdict import Question, Table, Verdict, failures
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.alignment import AlignmentThreshold
from shallowflow.landscape.cones import face_bound
from shallowflow.landscape.extremal import ExtremalVectors
from shallowflow.landscape.least_squares import least_squares
from shallowflow.landscape.spurious import positivity
from shallowflow.models import initialize
from shallowflow.models.networks import ReLUNetwork

INITIALISATIONS = ("balanced", "dominated", "gaussian")
SEARCH_WORK, MOST_STARTS = 5 * 10**7, 100
"""The search for extremal vectors makes SEARCH_WORK/(n²d) starts, d at most n + 1: a few seconds."""
FITS = 1e-12
"""Relative loss below which the least-squares line fits the data."""
EPSILON, ALPHA_0 = 0.25, 0.1


def verdict(question: Question) -> Verdict:
    """Return extremal vectors, thresholds, and Lemma 1 and Theorems 1 to 4 on the data and a start."""
    dataset = question.dataset
    name = one_of(question.init, "init", INITIALISATIONS)
    start: ReLUNetwork = getattr(initialize, name)(
        question.width, dataset.dimension, init_scale=question.init_scale, seed=question.seed
    )
    reached = min(dataset.dimension, dataset.size + 1)
    starts = min(SEARCH_WORK // (dataset.size**2 * reached), MOST_STARTS)
    around = Surroundings(dataset, starts=starts, progress=question.progress)
    first = AlignmentQuery(start, dataset, None, 0.0, epsilon=EPSILON, alpha_0=ALPHA_0, surroundings=around)
    third = AlignmentQuery(
        start, dataset, None, 0.0, epsilon=EPSILON, positive_start=True, surroundings=around
    )
    aligned = [early_alignment.alignment_certificate(query) for query in (first, third)]
    ends = _line_certificates(dataset, around)
    certificates = (early_alignment.lemma_1(start, dataset), *aligned, *ends)
    words = (
        _vectors_words(around.vectors, starts, dataset),
        _alignment_words(first, third, *aligned),
        *_line_words(dataset, ends),
    )
    applies = any(certificate.holds for certificate in ends) if ends else None
    tables = (_vectors_table(around.vectors),)
    return Verdict("early_alignment", applies, words, _numbers(first), tables, certificates)


def _line_certificates(dataset: Dataset, around: Surroundings) -> tuple[Certificate, ...]:
    """Return Thms 2 and 4 on the data alone, if their cones can be listed."""
    if around.arrangement is None:
        return ()
    return early_alignment.line_certificates(dataset)


def _vectors_words(vectors: ExtremalVectors, starts: int, dataset: Dataset) -> str:
    kinds = [(kind, len(vectors.of_kind(kind))) for kind in ("maximum", "minimum", "saddle")]
    plural = {"maximum": "maxima", "minimum": "minima", "saddle": "saddles"}
    counted = ", ".join(f"{n} {kind if n == 1 else plural[kind]}" for kind, n in kinds if n) or "none"
    neurons = "Neurons with a > 0 turn to maxima of G, those with a < 0 to minima."
    if vectors.complete:
        return f"Small neurons turn to {len(vectors)} extremal vector(s): {counted}. {neurons}"
    faces = face_bound(dataset.size, min(dataset.size, dataset.dimension))
    many = f"There may be {_rough(faces)} activation cones and faces, too many to list"
    if not starts:
        return f"{many}, and too many points for a search of a few seconds: no extremal vector is known."
    return (
        f"{many}: a search from {starts} random direction{'s' if starts > 1 else ''} found {len(vectors)} "
        f"extremal vector(s) ({counted}), maybe not all. {neurons}"
    )


def _rough(number: int) -> str:
    """Return a large integer in words (it may be beyond what a float can hold)."""
    return f"{number:,}" if number < 10**6 else f"about 10^{len(str(number)) - 1}"


def _alignment_words(
    query: AlignmentQuery, third_query: AlignmentQuery, first: Certificate, third: Certificate
) -> str:
    found, scale = query.threshold, query.scale
    if found is None or scale is None:
        return "λ*, τ and the constants of Theorem 1 need all activation cones: unknown here."
    place = f"λ = {scale:.3g}, and λ* = {found.scale:.3g} (ε = {EPSILON}, α₀ = {ALPHA_0})"
    if first.holds:
        end, proven = found.time(scale), found.arrival()
        early = "" if end >= proven else f" (where they are by then is proven only if τ ≥ t₂ = {proven:.3g})"
        return f"Theorem 1 applies to this start ({place}): its neurons align by τ = {end:.3g}{early}."
    if third.holds:
        turned = int(np.sum(third_query.chosen)) if third_query.chosen is not None else 0
        return (
            f"Theorem 1 does not apply to this start ({place}): {failures(first)}. "
            f"Theorem 3 does, with λ* = {_star(third_query)}, to the {turned} neurons that start turned to "
            "where they are pulled."
        )
    smaller = "" if scale < found.scale or found.scale == 0 else " A smaller --init-scale would help."
    return f"Theorem 1 does not apply to this start ({place}): {failures(first)}.{smaller}"


def _star(query: AlignmentQuery) -> str:
    return "unknown" if query.threshold is None else f"{query.threshold.scale:.3g}"


def _line_words(dataset: Dataset, ends: tuple[Certificate, ...]) -> tuple[str, ...]:
    """Return whether small networks end in the least-squares line, or why no theorem says so."""
    if not ends:
        return (_open_words(dataset),)
    second, fourth = ends
    line = least_squares(dataset)
    if fourth.holds:
        fits = line.loss <= FITS * float(np.mean(dataset.targets**2))
        end = "which fits the data" if fits else "which stays positive: a spurious stationary point"
        return (
            "Small initialisation will end in the least-squares line, whatever the width "
            f"(Theorem {2 if second.holds else 4}): loss {line.loss:.10g} (½·mean), {end}.",
        )
    return (
        f"No theorem says that small networks end in the least-squares line (loss {line.loss:.10g}); "
        f"they may or may not. Theorem 4: {failures(fourth)}.",
        _form_words(second.hypotheses[0]),
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


def _form_words(form: Hypothesis) -> str:
    if form.value is None:
        return "Theorem 2: the data are not three points of the form of Assumption 3."
    return f"Theorem 2: Assumption 3 needs η < 1/6, these points have η = {form.value:.4g}."


def _numbers(query: AlignmentQuery) -> dict[str, float | None]:
    found: AlignmentThreshold | None = query.threshold
    scale = query.scale
    return {
        "D_max": None if found is None else found.d_max,
        "D_min": None if found is None else found.d_min,
        "α_min": None if found is None else found.alpha_min,
        "δ₀": None if found is None else found.delta_0,
        "λ*": None if found is None else found.scale,
        "λ": scale,
        "τ": None if found is None or scale is None else found.time(scale),
        "t₂": None if found is None else found.arrival(),
    }


def _vectors_table(vectors: ExtremalVectors) -> Table:
    rows = tuple((vector.kind, vector.value, _direction(vector.direction)) for vector in vectors)
    title = "Extremal vectors" if vectors.complete else "Extremal vectors found by search (maybe not all)"
    return Table(title, ("kind", "G", "direction"), rows)


def _direction(direction: np.ndarray[tuple[int], np.dtype[np.float64]], most: int = 6) -> str:
    shown = ", ".join(f"{entry:.4f}" for entry in direction[:most])
    return f"({shown}{', …' if len(direction) > most else ''})"
