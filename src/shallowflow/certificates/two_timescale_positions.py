"""Certificates of [two_timescale] on positions: Def. 2, Lemma 10, Prop. 1, and what the theorems share.

Every function takes a `StepNetwork` and a `PiecewiseConstant` target; nothing here needs a run.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Seed, count, generator, positive
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.landscape.population import check_steps, feature_gram, separation, well_separated
from shallowflow.landscape.step_class import Goodness, StepClass, checked_delta, goodness, step_class
from shallowflow.models.networks import StepNetwork


def definition_2(
    network: StepNetwork, target: PiecewiseConstant, *, distance: float | None = None
) -> Certificate:
    """Certify that positions are D-good, with margins; distance: D, that of Prop. 3 by default."""
    known = class_of(network, target)
    wanted = recovery_distance(network, known) if distance is None else positive(distance, "distance")
    found = goodness(network, target)
    promise = Promise("the positions are D-good for every D up to", _largest_distance(found))
    return Certificate("two_timescale/definition-2", good(found, wanted), (promise,))


def lemma_10(
    network: StepNetwork,
    target: PiecewiseConstant,
    *,
    delta: float = 0.1,
    samples: int = 1000,
    seed: Seed = 0,
) -> Certificate:
    """Certify that uniform positions are D-good with probability 1 − δ, D = δ/(6(m+1)²), beside a Monte
    Carlo.

    The network gives the width and η; `samples` draws of positions are tried.
    """
    known, m = class_of(network, target), network.width
    delta = checked_delta(delta)
    distance = _lemma_distance(delta, m)
    rng, good = generator(seed), 0
    for _ in range(count(samples, "samples")):
        drawn = network.moved({"positions": rng.random(m)})
        good += goodness(drawn, target).good(distance)
    share, needed = good / samples, 1.0 - delta
    # Draws at the bound itself fall short of it half of the time, but seldom by three standard errors.
    broken = share < needed - 3.0 * np.sqrt(needed * delta / samples)
    kept = True if share >= needed else (False if broken else None)
    promise = Promise("uniform positions are D-good with a probability of at least", needed, share, kept)
    return Certificate("two_timescale/lemma-10", (wide(m, known, delta),), (promise,))


def prop_1(network: StepNetwork, target: PiecewiseConstant) -> Certificate:
    """Certify that H(u) is positive definite: its least eigenvalue is at least Δ(u)/8 for u ∈ 𝒰."""
    check_steps(network, target)
    gap = separation(network)
    inside = Hypothesis("u ∈ 𝒰: Δ(u) > 2η", well_separated(network), gap, 2.0 * network.sharpness)
    least = float(np.linalg.eigvalsh(feature_gram(network))[0])
    statement = "the least eigenvalue of the Hessian in the weights is at least"
    return Certificate(
        "two_timescale/prop-1", (inside,), (Promise(statement, gap / 8.0, least, least >= gap / 8.0),)
    )


def class_of(network: StepNetwork, target: PiecewiseConstant) -> StepClass:
    """Return the constants of Def. 1 of a target; refuse anything but steps."""
    check_steps(network, target)
    return step_class(target)


def recovery_distance(network: StepNetwork, known: StepClass) -> float:
    """Return Prop. 3's D = 2^{13/2} (m+1)^{1/2} M η^{1/2} / Δf."""
    return float(2.0**6.5 * np.sqrt((network.width + 1) * network.sharpness) * known.bound / known.jump)


def _lemma_distance(delta: float, width: int) -> float:
    """Return Lemma 10's D = δ/(6(m+1)²)."""
    return delta / (6.0 * (width + 1) ** 2)


def _largest_distance(found: Goodness) -> float:
    """Return the largest D for which positions are D-good, 0 if a piece has fewer than 6."""
    return min(found.separation, found.asymmetry) if found.fewest >= 6 else 0.0


def good(found: Goodness, distance: float) -> tuple[Hypothesis, ...]:
    """Return the three conditions of Def. 2 for a given D."""
    far, lopsided = found.separation, found.asymmetry
    return (
        Hypothesis("at least 6 positions on every piece of the target", found.fewest >= 6, found.fewest, 6),
        Hypothesis(f"Δ(u) ≥ D{missing(distance, far)}", far >= distance, far, distance),
        Hypothesis(
            f"|u_R + u_L − 2v| ≥ D at every jump{missing(distance, lopsided)}",
            lopsided >= distance,
            lopsided,
            distance,
        ),
    )


def wide(width: int, known: StepClass, delta: float) -> Hypothesis:
    """Return the hypothesis (2) that a network is wide enough."""
    needed = known.neurons(delta)
    name = f"enough neurons, (2){missing(needed, width)}"
    return Hypothesis(name, width >= needed, width, needed)


def missing(larger: float, smaller: float) -> str:
    """Return by what factor a hypothesis is missed, in words; nothing if it holds."""
    if larger <= smaller:
        return ""
    return f" (missed by a factor of {larger / smaller:.3g})" if smaller > 0 else " (missed: it is zero)"
