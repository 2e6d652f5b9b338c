"""Certificates of [two_timescale], Marion & Berthier 2023: Def. 2, the lemmas, Props 1 to 4, Thms 1 and 2.

Every function takes a `StepNetwork` (the start) and a `PiecewiseConstant` target. Def. 2, Lemma 10 and
Prop. 1 are about positions alone. Where a promise can be seen in a run, its trajectory is taken too: that of
`two_timescale_limit` for Prop. 3 and Thm 2, of `population_flow` for Prop. 4 and Thm 1. The constants are
those of the proofs (C_1 = 2⁻²¹, C_2 = 2⁻³⁶, C = 2⁻¹⁹). They are tiny: hypotheses on η and ε name the factor
by which a run misses them. The theorems are about targets: of samples the verdict says nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shallowflow.arrays import Seed, count, generator, positive, public
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise, Question, Verdict
from shallowflow.data.dataset import PiecewiseConstant
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import (
    best_outer,
    check_steps,
    feature_gram,
    separation,
    step_loss,
    well_separated,
)
from shallowflow.landscape.two_timescale.step_classes import (
    Goodness,
    ProofStep,
    StepClass,
    checked_delta,
    fewest_per_piece,
    goodness,
    jump_distances,
    limit_slope,
    proof_steps,
    step_class,
)
from shallowflow.models.networks import Network, StepNetwork

C_1, C_2, C = 2.0**-21, 2.0**-36, 2.0**-19
ROUNDING = 1e-12
"""A bound that is attained may be missed by this share."""


@public
def definition_2(
    network: StepNetwork, target: PiecewiseConstant, *, distance: float | None = None
) -> Certificate:
    """Certify that positions are D-good, with margins; distance: D, that of Prop. 3 by default."""
    known = class_of(network, target)
    wanted = recovery_distance(network, known) if distance is None else positive(distance, "distance")
    found = goodness(network, target)
    largest = min(found.separation, found.asymmetry) if found.fewest >= 6 else 0.0
    promise = Promise("the positions are D-good for every D up to", largest)
    return Certificate("two_timescale/definition-2", good(found, wanted), (promise,))


@public
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
    distance = delta / (6.0 * (m + 1) ** 2)
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


@public
def prop_1(network: StepNetwork, target: PiecewiseConstant) -> Certificate:
    """Certify that H(u) is positive definite: its least eigenvalue is at least Δ(u)/8 for u ∈ 𝒰."""
    check_steps(network, target)
    gap = separation(network)
    inside = Hypothesis("u ∈ 𝒰: in [0, 1], Δ(u) > 2η", well_separated(network), gap, 2.0 * network.sharpness)
    least = float(np.linalg.eigvalsh(feature_gram(network))[0])
    statement = "the least eigenvalue of the Hessian in the weights is at least"
    bound = gap / 8.0 if inside.holds else None
    return Certificate("two_timescale/prop-1", (inside,), (Promise.that(statement, least, ">=", bound),))


@public
def appendix_a(
    network: StepNetwork, target: PiecewiseConstant, trajectory: Trajectory | None = None
) -> Certificate:
    """Certify the lemmas behind the theorems, 1 to 9: what each bounds, where it comes nearest to its bound.

    With a trajectory the lemmas are read at up to fifty recorded times. Each promise says how loose a step of
    the proofs is. Prop. 2 names no bound: shown is the largest slope of G on the way.
    """
    class_of(network, target)
    networks = [network] if trajectory is None else [now for _, now in _recorded(trajectory)]
    chosen = networks[:: max(1, -(-len(networks) // 50))]
    tightest: dict[str, ProofStep] = {}
    for now in chosen:
        for step in proof_steps(now, target):
            known = tightest.get(step.name)
            tightest[step.name] = step if known is None or step.share > known.share else known
    inside = [now for now in chosen if well_separated(now)]
    gap = min(separation(now) for now in chosen)
    hypothesis = Hypothesis("u ∈ 𝒰, always", len(inside) == len(chosen), gap, 2.0 * network.sharpness)
    promises = [
        Promise(name, one.bound, one.observed, one.share <= 1 + ROUNDING)
        for name, one in sorted(tightest.items())
    ]
    if inside and network.sharpness > 0:
        steepest = max(limit_slope(now, target) for now in inside[:: max(1, -(-len(inside) // 5))])
        promises.append(Promise("Prop. 2: G is Lipschitz continuous; its largest slope seen", None, steepest))
    return Certificate("two_timescale/appendix-a", (hypothesis,), tuple(promises))


def class_of(network: StepNetwork, target: PiecewiseConstant) -> StepClass:
    """Return the constants of Def. 1 of a target; refuse anything but steps."""
    check_steps(network, target)
    return step_class(target)


def recovery_distance(network: StepNetwork, known: StepClass) -> float:
    """Return Prop. 3's D = 2^{13/2} (m+1)^{1/2} M η^{1/2} / Δf."""
    return float(2.0**6.5 * np.sqrt((network.width + 1) * network.sharpness) * known.bound / known.jump)


def good(found: Goodness, distance: float) -> tuple[Hypothesis, ...]:
    """Return the three conditions of Def. 2 for a given D."""
    far, lopsided = found.separation, found.asymmetry
    off = missing(distance, lopsided)
    return (
        Hypothesis.that("at least 6 positions on every piece of the target", found.fewest, ">=", 6),
        Hypothesis.that(f"Δ(u) ≥ D{missing(distance, far)}", far, ">=", distance),
        Hypothesis.that(f"|u_R + u_L − 2v| ≥ D at every jump{off}", lopsided, ">=", distance),
    )


def wide(width: int, known: StepClass, delta: float) -> Hypothesis:
    """Return the hypothesis (2) that a network is wide enough."""
    needed = known.neurons(delta)
    name = f"enough neurons, (2){missing(needed, width)}"
    return Hypothesis.that(name, width, ">=", needed)


def missing(larger: float, smaller: float) -> str:
    """Return by what factor a hypothesis is missed, in words; nothing if it holds."""
    if larger <= smaller:
        return ""
    return f" (missed by a factor of {larger / smaller:.3g})" if smaller > 0 else " (missed: it is zero)"


@public
def prop_3(
    network: StepNetwork, target: PiecewiseConstant, trajectory: Trajectory | None = None
) -> Certificate:
    """Certify that the two-timescale limit brings a neuron within η of every jump by T = 6/(Δf)²."""
    known = class_of(network, target)
    found = goodness(network, target)
    wanted, until = recovery_distance(network, known), known.slow_time
    then = None if trajectory is None else _at(trajectory, until)
    far = None if then is None else float(jump_distances(then, target).max())
    sharp = Hypothesis("η > 0: at η = 0 no neuron is closer than η", network.sharpness > 0)
    kept = None if far is None or not sharp.holds else far < network.sharpness
    promises = (
        Promise("the limit stays in 𝒰 at least until τ =", until, *_time_in_domain(trajectory, until)),
        Promise("then every jump has a neuron closer than η", network.sharpness, far, kept),
    )
    return Certificate("two_timescale/prop-3", (sharp, *good(found, wanted)), promises)


@public
def prop_4(
    network: StepNetwork,
    target: PiecewiseConstant,
    trajectory: Trajectory | None = None,
    *,
    epsilon: float | None = None,
    speed: float = 1.0,
) -> Certificate:
    """Certify that the weights follow a*(u): ‖a − a*‖ ≤ 3M√(m+1) exp(−Dt/16) + 2¹⁷M³(m+1)³ε/D².

    With a trajectory (of `population_flow` at `speed`), D is twice the least Δ(u) on the way; without, 2Δ(u)
    at the start, where hypotheses on the way can only be seen to fail. The bound is checked at every
    recorded time; the promise names the time at which it is tightest.
    """
    epsilon, speed = _clock(trajectory, epsilon, speed)
    known, m = class_of(network, target), network.width
    networks = [(0.0, network)] if trajectory is None else _recorded(trajectory, speed)
    distance = 2.0 * min(separation(now) for _, now in networks)
    fewest = min(fewest_per_piece(now.positions, target) for _, now in networks)
    allowed = 2.0**-16 * distance**2 / known.bound**2 / (m + 1) ** 2.5
    silent = float(np.abs(network.outer).max() + np.abs(network.offset))
    hypotheses: tuple[Hypothesis, ...] = (
        Hypothesis.that("the weights start at zero", silent, "<=", 0.0),
        Hypothesis.that("at least 2 positions on every piece, always", fewest, ">=", 2),
        Hypothesis.that("D ≥ 32η", distance, ">=", 32 * network.sharpness),
        _at_most("ε", epsilon, allowed),
    )
    if trajectory is None:
        # Of the whole way only the start was seen: what holds there is open.
        hypotheses = (hypotheses[0], *(replace(one, holds=one.holds and None) for one in hypotheses[1:]))
    statement = "‖a − a*‖ is at most (where the bound is tightest)"
    if epsilon is None or trajectory is None:
        return Certificate("two_timescale/prop-4", hypotheses, (Promise(statement),))
    bound, observed = _tightest(networks, target, known, distance, epsilon)
    return Certificate(
        "two_timescale/prop-4",
        hypotheses,
        (
            Promise.that(statement, observed, "<=", bound),
            _late(networks, target, known, distance, epsilon),
        ),
    )


@public
def theorem_1(
    network: StepNetwork,
    target: PiecewiseConstant,
    trajectory: Trajectory | None = None,
    *,
    epsilon: float | None = None,
    speed: float = 1.0,
    delta: float = 0.1,
    error: float = 0.01,
) -> Certificate:
    """Certify recovery by the gradient flow (1): ∫|f* − f|² ≤ ξ at T = 6/(ε(Δf)²), with probability 1 − δ.

    epsilon, speed: of the run (if it does not say), whose time t is speed·t in (1); delta, error: δ and ξ of
    the theorem. Positions are taken to be drawn uniformly.
    """
    epsilon, speed = _clock(trajectory, epsilon, speed)
    known, m, delta = class_of(network, target), network.width, checked_delta(delta)
    xi, size = positive(error, "error"), (network.width + 1.0)
    q_1 = C_1 / (known.bound**2 * size) * min(delta**2 * known.jump**2 / size**4, xi)
    q_2 = C_2 * delta**2 / (known.bound**4 * size**8.5) * min(delta * known.jump**2 / size, xi)
    silent = float(np.abs(network.outer).max() + np.abs(network.offset))
    hypotheses = (
        wide(m, known, delta),
        Hypothesis.that("the weights start at zero", silent, "<=", 0.0),
        _at_most("η", network.sharpness, q_1),
        _at_most("ε", epsilon, q_2),
    )
    until = None if epsilon is None else known.slow_time / epsilon
    promise = _recovery(trajectory, until, target, xi, speed)
    return Certificate("two_timescale/theorem-1", hypotheses, promise)


@public
def theorem_2(
    network: StepNetwork,
    target: PiecewiseConstant,
    trajectory: Trajectory | None = None,
    *,
    delta: float = 0.1,
    error: float = 0.01,
) -> Certificate:
    """Certify recovery by the two-timescale limit (8): ∫|f* − f|² ≤ ξ at τ = 6/(Δf)², as in `theorem_1`."""
    known, m, delta = class_of(network, target), network.width, checked_delta(delta)
    xi, size = positive(error, "error"), network.width + 1.0
    q = C / known.bound**2 * min(delta**2 * known.jump**2 / size**5, xi / known.pieces)
    hypotheses = (wide(m, known, delta), _at_most("η", network.sharpness, q))
    promise = _recovery(trajectory, known.slow_time, target, xi, 1.0)
    return Certificate("two_timescale/theorem-2", hypotheses, promise)


def _clock(trajectory: Trajectory | None, epsilon: float | None, speed: float) -> tuple[float | None, float]:
    """Return ε and the speed of a run, as it says or as given."""
    epsilon = agreed(trajectory, "epsilon", epsilon, None)
    speed = positive(agreed(trajectory, "speed", speed, 1.0), "speed")
    return None if epsilon is None else positive(epsilon, "epsilon"), speed


def _at_most(symbol: str, value: float | None, bound: float) -> Hypothesis:
    """Return the hypothesis that a small parameter is small enough; undecided without a value."""
    if value is None:
        return Hypothesis(f"{symbol} is small enough", None, None, bound)
    name = f"{symbol} is small enough{missing(value, bound)}"
    return Hypothesis.that(name, value, "<=", bound)


def _recorded(trajectory: Trajectory, speed: float = 1.0) -> list[tuple[float, StepNetwork]]:
    """Return the recorded networks with their times in the clock of (1)."""
    return [(time * speed, _steps(trajectory(time))) for time in trajectory.path.times.tolist()]


def _steps(network: Network) -> StepNetwork:
    if not isinstance(network, StepNetwork):
        raise InvalidInputError(f"trajectory: must be of a StepNetwork, got {type(network).__name__}")
    return network


def _at(trajectory: Trajectory, time: float) -> StepNetwork | None:
    """Return the network at a time, None if the trajectory ends before."""
    last = float(trajectory.path.times[-1])
    return _steps(trajectory(min(time, last))) if time <= last * (1 + 1e-12) else None


def _time_in_domain(trajectory: Trajectory | None, until: float) -> tuple[float | None, bool | None]:
    """Return how long a trajectory stays in 𝒰 (up to its end), and whether that is long enough."""
    if trajectory is None:
        return None, None
    stayed = 0.0
    for time, network in _recorded(trajectory):
        if not well_separated(network):
            return stayed, stayed >= until
        stayed = time
    return stayed, True if stayed >= until * (1 - 1e-12) else None


def _late(
    networks: list[tuple[float, StepNetwork]],
    target: PiecewiseConstant,
    known: StepClass,
    distance: float,
    epsilon: float,
) -> Promise:
    """Return Prop. 4 after the fast phase: the exponential is below the term in ε, twice of which is left."""
    size = networks[0][1].width + 1
    floor = 2.0**17 * known.bound**3 * size**3 / distance**2 * epsilon
    start = 16.0 / distance * np.log(max(3.0 * known.bound * np.sqrt(size) / floor, 1.0))
    late = [_off(network, target) for time, network in networks if time >= start]
    statement = f"after the fast phase, t ≥ {start:.4g}, ‖a − a*‖ is at most"
    return Promise.that(statement, max(late) if late else None, "<=", 2.0 * floor)


def _off(network: StepNetwork, target: PiecewiseConstant) -> float:
    """Return ‖a − a*(u)‖."""
    best = best_outer(network, target)
    return float(np.linalg.norm(np.append(network.outer - best.outer, network.offset - best.offset)))


def _tightest(
    networks: list[tuple[float, StepNetwork]],
    target: PiecewiseConstant,
    known: StepClass,
    distance: float,
    epsilon: float,
) -> tuple[float, float]:
    """Return Prop. 4's bound and ‖a − a*‖ at the recorded time at which their ratio is largest."""
    size = networks[0][1].width + 1
    floor = 2.0**17 * known.bound**3 * size**3 / distance**2 * epsilon
    worst = (np.inf, 0.0)
    for time, network in networks:
        bound = 3.0 * known.bound * np.sqrt(size) * np.exp(-distance / 16.0 * time) + floor
        observed = _off(network, target)
        if observed * worst[0] >= worst[1] * bound or worst[0] == np.inf:
            worst = (float(bound), observed)
    return worst


def _recovery(
    trajectory: Trajectory | None, until: float | None, target: PiecewiseConstant, error: float, speed: float
) -> tuple[Promise, Promise]:
    """Return the promise of recovery at a time, and what a trajectory shows at that time."""
    network = None if trajectory is None or until is None else _at(trajectory, until / speed)
    observed = None if network is None else 2.0 * step_loss(network, target)
    end = None if trajectory is None or until is None else float(trajectory.path.times[-1]) * speed
    arrived = True if end is not None and until is not None and end >= until * (1 - 1e-12) else None
    return (
        Promise("the solution is defined at least until", until, end, arrived),
        Promise.that("then ∫|f* − f|² is at most", observed, "<=", error),
    )


WORDS = (
    "Does not apply: it is about piecewise constant functions on [0, 1], not about samples. "
    "`certify('two_timescale/theorem-1', …)` takes a `PiecewiseConstant` target; "
    "`StepRegressor` fits steps to samples."
)


@public
def verdict(question: Question) -> Verdict:
    """Return that the paper says nothing about samples, and what to use instead."""
    return Verdict("two_timescale", None, (WORDS,))
