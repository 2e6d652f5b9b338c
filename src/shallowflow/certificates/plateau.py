"""Certificates of [plateau], Ainsworth & Shin 2020: Theorems 3.1, 3.2, 3.3, Lemma 3.4, Theorem 3.5.

Every function takes a `KnotNetwork` and univariate data; the first three also a trajectory, which is taken to
follow the gradient flow (3.1) of ½Σ or ½·mean of the squares. They certify what the paper proves; where that
differs from what it prints, `landscape.plateau.levels` and `landscape.plateau.stationary` say how.

The verdict on a data set names the level of a planned network's first stage, and when that stage is left.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, count, one_of, positive, public
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise, Question, Verdict, failures
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Trajectory, agreed
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.floors import Blocks, blocks, pattern_level
from shallowflow.landscape.plateau.levels import (
    Passage,
    exit_of,
    level_of,
    next_passage,
    plateau_level,
    rates_of,
)
from shallowflow.landscape.plateau.stationary import regression_lines, stationarity, trap
from shallowflow.models import initialize
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork
from shallowflow.readings.stages import Stage, recorded_loss, stages


@public
def theorem_3_1(
    network: KnotNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    loss: SquareLoss | None = None,
    speed: float = 1.0,
    accuracy: float = 1e-4,
) -> Certificate:
    """Certify the plateau: while the pattern lasts, L − Q₀ falls between exp(−2∫r_max) and exp(−2∫r_min).

    The level and the rates are those of `network` now. With a trajectory both bounds are checked on every
    stage at its sample times, in the form ‖z(t)‖ against ‖z(t_s)‖ exp(−∫r), ‖z‖² ∝ L − Q₀; a violation is
    relative to the whole residual ‖Loss(t_s)‖ and may be as large as `accuracy`, that of the trajectory (an
    integrator's residuals stop falling at some multiple of its tolerance). The theorem's printed upper
    bound, with half this exponent, follows; its printed lower bound is a misprint. Where knots slide on data
    points the rates are those of the others (`landscape.plateau.levels.extreme_rates`).

    loss: what the trajectory recorded; without one ½·mean by default. speed: of the flow, if the trajectory
    does not say.
    """
    if trajectory is not None:
        loss = recorded_loss(trajectory, dataset, loss)
    speed = positive(agreed(trajectory, "speed", speed, 1.0), "speed")
    promises = _plateau_promises(blocks(network, dataset), loss, speed)
    if trajectory is None:
        gap = trap(network, dataset).gap
        hypothesis = Hypothesis.that(
            "no knot lies on a data point: the pattern is constant for a while", gap, ">", 0.0
        )
        return Certificate("plateau/theorem-3.1", (hypothesis,), promises)
    seen = stages(trajectory, dataset, loss=loss, speed=speed)
    name = "the trajectory consists of stages of constant activation pattern"
    hypothesis = Hypothesis(name, True, float(len(seen)), 1.0)
    observed = _observed_bounds(seen, positive(accuracy, "accuracy"))
    return Certificate("plateau/theorem-3.1", (hypothesis,), promises + observed)


def _plateau_promises(found: Blocks, loss: SquareLoss | None, speed: float) -> tuple[Promise, ...]:
    """Return what Thm 3.1 says of the stage that a network is in."""
    rates = rates_of(found, loss)
    promises = (
        Promise(
            "while the activation pattern lasts, the loss falls towards this level", level_of(found, loss)
        ),
        Promise("its distance to the level falls at least at twice the rate", speed * rates.r_min),
        Promise("and at most at twice the rate", speed * rates.r_max),
    )
    if found.rank == 0 or _smallest_coefficient(found) == 0:
        return promises
    statement = "the smaller rate is positive, as no coefficient before data is zero"
    return (*promises, Promise.that(statement, rates.r_min, ">", 0.0))


def _observed_bounds(seen: tuple[Stage, ...], accuracy: float) -> tuple[Promise, Promise]:
    """Return the two bounds of Thm 3.1 against the stages of a trajectory."""
    upper = max(_violation(stage, above=True) for stage in seen)
    lower = max(_violation(stage, above=False) for stage in seen)
    return (
        Promise.that("on no stage does the loss exceed the upper bound by more than", upper, "<=", accuracy),
        Promise.that("on no stage does it fall below the lower bound by more than", lower, "<=", accuracy),
    )


def _violation(stage: Stage, *, above: bool) -> float:
    """Return the largest violation of a bound on ‖z‖, relative to ‖Loss‖ at the stage's start; ≤ 0: none."""
    decay = stage.decay_min if above else stage.decay_max
    sign = 1.0 if above else -1.0
    bound = np.sqrt(stage.excess[0]) * np.exp(sign * decay.errors - decay.values)
    scale = float(np.sqrt(stage.losses[0]))
    return float(np.max(sign * (np.sqrt(stage.excess) - bound))) / scale if scale > 0 else 0.0


def _smallest_coefficient(found: Blocks) -> float:
    """Return min |c_l| over the neurons l with data in U_l; ∞ without any."""
    return float(np.min(np.abs(found.outer[found.counts[1:] > 0]), initial=np.inf))


@public
def theorem_3_2(
    network: KnotNetwork,
    dataset: Dataset,
    trajectory: Trajectory | None = None,
    *,
    stage: int = 0,
    loss: SquareLoss | None = None,
    speed: float = 1.0,
) -> Certificate:
    """Certify that a stage lasted long enough for the next level to be lower.

    stage: the number of the trajectory's stage whose end is looked at. Without a trajectory nothing is known
    about how the stage of `network` ends; `landscape.exit_condition` says it for an end that you choose.
    The condition is exp(−∫r_min) < threshold, as Appendix E needs it (the theorem prints exp(−½∫r_min)).
    """
    theorem, promise = "plateau/theorem-3.2", "the level of the next stage is lower"
    level = level_of(blocks(network, dataset), loss)
    undecided = Hypothesis("a data point passes from one block to its neighbour", None)
    if trajectory is None:
        return Certificate(theorem, (undecided,), (Promise(promise, level),))
    loss = recorded_loss(trajectory, dataset, loss)
    seen = stages(trajectory, dataset, loss=loss, speed=speed)
    if count(stage, "stage", 0) >= len(seen):
        raise InvalidInputError(f"stage: the trajectory has stages 0 to {len(seen) - 1}, got {stage}")
    present = seen[stage]
    if stage == len(seen) - 1:
        return Certificate(theorem, (undecided,), (Promise(promise, present.level),))
    condition = exit_of(present.blocks, seen[stage + 1].blocks, loss)
    passed = float(np.abs(seen[stage + 1].blocks.borders - present.blocks.borders).sum())
    left = float(np.exp(-present.decay_min.total))
    hypotheses = (
        Hypothesis(
            "exactly one data point passes, from a block to its neighbour", condition.applies, passed, 1.0
        ),
        Hypothesis.that("the stage lasts long enough", left, "<", condition.threshold),
    )
    kept = condition.level_after < condition.level_before
    return Certificate(
        theorem, hypotheses, (Promise(promise, condition.level_before, condition.level_after, kept),)
    )


@public
def theorem_3_3(
    network: KnotNetwork, dataset: Dataset, trajectory: Trajectory | None = None, *, accuracy: float = 1e-6
) -> Certificate:
    """Certify that the flow stays in its stage for ever and converges to a stationary point.

    That a pattern never changes again cannot be seen in a finite time; `landscape.trap` proves it where
    the data allow, at `network`, or at the end of the trajectory. Its radius bounds all later movement. (The
    paper's proof bounds ‖b(t) − b(0)‖² by ∫‖ḃ‖², which lacks a factor t; the length of the path, which the
    trap uses, closes that gap.) `accuracy`: of the trajectory, relative to the parameters and the targets.
    """
    accuracy = positive(accuracy, "accuracy")
    last = _checked(network if trajectory is None else trajectory.final)
    here, there = trap(network, dataset), trap(last, dataset)
    smallest = _smallest_coefficient(blocks(last, dataset))
    safe = True if there.holds and smallest > there.radius else None
    hypotheses = (
        Hypothesis("no knot can reach a data point any more", there.holds or None, there.radius, there.gap),
        Hypothesis("no coefficient before data can vanish any more", safe, there.radius, smallest),
    )
    moved = kept = None
    if trajectory is not None and here.holds:
        moved = float(np.linalg.norm(flatten(last) - flatten(network)))
        kept = moved <= here.radius + accuracy * float(np.linalg.norm(flatten(network)))
    error = stationarity(last, dataset).value
    arrived = True if error <= (accuracy * float(np.max(np.abs(dataset.targets)))) ** 2 else None
    promises = (
        Promise("from the network given, knots and coefficients move at most by", here.radius, moved, kept),
        Promise("they converge to a stationary point: the mean square of (3.4) goes to", 0.0, error, arrived),
    )
    return Certificate("plateau/theorem-3.3", hypotheses, promises)


def _checked(network: object) -> KnotNetwork:
    if not isinstance(network, KnotNetwork):
        raise InvalidInputError(f"trajectory: must be of a KnotNetwork, got {type(network).__name__}")
    return network


@public
def lemma_3_4(network: KnotNetwork, dataset: Dataset, *, tolerance: float = 1e-8) -> Certificate:
    """Certify a stationary point: (3.4) holds iff the gradient vanishes.

    With z = (√u_l (f(μ_l) − ȳ_l), √S_xx (A_l − slope_l)), the defects of (3.4) in units of the residual,
    √r_min ‖z‖ ≤ ‖∇L‖ ≤ √r_max ‖z‖: this is the equivalence, with its constants. ‖z‖ counts as zero below
    tolerance·‖y‖. The gradient (of ½Σ) is summed from the residuals themselves.
    """
    found = blocks(network, dataset)
    rates, smallest = rates_of(found, SquareLoss("sum")), _smallest_coefficient(found)
    defect, size = float(np.linalg.norm(found.coordinates)), float(np.linalg.norm(found.targets))
    gradient = stationarity(network, dataset).gradient
    slack = positive(tolerance, "tolerance") * np.sqrt(rates.r_max) * size
    least, most = np.sqrt(rates.r_min) * defect, np.sqrt(rates.r_max) * defect
    hypotheses = (
        Hypothesis.that("no coefficient before data is zero", smallest, ">", 0.0),
        Hypothesis.that("(3.4) holds: its defect is small", defect, "<=", tolerance * size),
    )
    promises = (
        Promise(
            "the network is stationary: the gradient is at most", most, gradient, gradient <= most + slack
        ),
        Promise("conversely, the gradient is at least", least, gradient, gradient >= least - slack),
    )
    return Certificate("plateau/lemma-3.4", hypotheses, promises)


@public
def theorem_3_5(network: KnotNetwork, dataset: Dataset, *, tolerance: float = 1e-8) -> Certificate:
    """Certify that a fully trained network consists of regression lines, block by block.

    Stationary means ‖∇L‖ ≤ tolerance·√r_max·‖y‖ (of ½Σ). The neuron's line and the fitted line of a block
    then differ by at most ‖∇L‖/√r_min on its points. Where all inputs of a block are equal, the neuron's line
    passes through their mean.
    """
    found, lines = blocks(network, dataset), regression_lines(network, dataset)
    rates, smallest = rates_of(found, SquareLoss("sum")), _smallest_coefficient(found)
    size = float(np.linalg.norm(found.targets))
    gradient = stationarity(network, dataset).gradient
    needed = positive(tolerance, "tolerance") * np.sqrt(rates.r_max) * size
    bound = gradient / np.sqrt(rates.r_min) if rates.r_min > 0 else (np.inf if found.rank else 0.0)
    sloped = found.s_xx[1:] > 0

    def promise(statement: str, defects: Floats) -> Promise:
        largest = float(np.max(defects, initial=0.0))
        return Promise(statement, float(bound), largest, largest <= bound + tolerance * size)

    hypotheses = (
        Hypothesis.that("the network is stationary: its gradient is small", gradient, "<=", needed),
        Hypothesis.that("no coefficient before data is zero", smallest, ">", 0.0),
    )
    promises = (
        promise("blocks of several inputs: neuron's and fitted line differ by", lines.defects[sloped]),
        promise("blocks of one input: the neuron's line misses it by", lines.defects[~sloped]),
    )
    return Certificate("plateau/theorem-3.5", hypotheses, promises)


@public
def verdict(question: Question) -> Verdict:
    """Return what Theorem 3.1 says of the first stage of a planned network, and when that stage ends."""
    dataset = _on_the_line(question.dataset)
    if dataset is None:
        found = f"these have dimension {question.dataset.dimension}"
        return Verdict("plateau", None, (f"Does not apply: it is about data on the line, {found}.",))
    if not isinstance(question.loss, SquareLoss | None) or question.slope != 0:
        return Verdict("plateau", None, ("Does not apply: it is about the square loss and ReLU (slope 0).",))
    if not question.own_start:
        return _other_start(question, dataset.with_bias())
    network = initialize.he_knots(question.width, seed=question.seed)
    certificate, caught = theorem_3_1(network, dataset), trap(network, dataset)
    rates, start = rates_of(blocks(network, dataset)), _loss_of(network, dataset)
    level, passage = plateau_level(network, dataset), next_passage(network, dataset)
    slowest = 1 / (2 * rates.r_min) if rates.r_min > 0 else np.inf
    fastest = 1 / (2 * rates.r_max) if rates.r_max > 0 else np.inf
    name = f"{question.width} knots (he_knots, seed {question.seed})"
    words = [*_stage_words(name, start, level, passage, caught.holds)]
    words.append(
        f"Within a stage the distance to the level falls e-fold in a time between {fastest:.3g} and "
        f"{slowest:.3g} "
        "(Theorem 3.1)."
    )
    if not certificate.holds:
        words.append(f"Theorem 3.1 does not apply yet: {failures(certificate)}.")
    numbers = {
        "loss at the start (½·mean)": start,
        "plateau level": level,
        "first passage": passage.time if np.isfinite(passage.time) else None,
        "shortest e-fold": fastest if np.isfinite(fastest) else None,
        "longest e-fold": slowest if np.isfinite(slowest) else None,
    }
    return Verdict("plateau", True if caught.holds else None, tuple(words), numbers, (), (certificate,))


def _loss_of(network: KnotNetwork | ReLUNetwork, dataset: Dataset) -> float:
    return SquareLoss().value(network(dataset.inputs), dataset.targets)


def _stage_words(name: str, start: float, level: float, passage: Passage, caught: bool) -> tuple[str, ...]:
    """Return where the first stage leads, and whether it is left before."""
    begins = (
        f"A network of {name} starts at the loss {start:.4g} (½·mean); the level of its pattern is "
        f"{level:.4g}."
    )
    if caught or not np.isfinite(passage.time):
        return (begins, "Its pattern never changes again: the loss tends to this level (Theorem 3.3).")
    return (
        begins,
        f"It will hardly get there: at present velocities neuron {passage.neuron} meets data point "
        f"{passage.point} at t = {passage.time:.3g}, and a new stage with another level begins.",
    )


def _other_start(question: Question, dataset: Dataset) -> Verdict:
    """Return the same for a `ReLUNetwork` with a bias coordinate, of the initialisation asked for."""
    name = one_of(question.init, "init", ("balanced", "dominated", "gaussian"))
    network: ReLUNetwork = getattr(initialize, name)(
        question.width, 2, init_scale=question.init_scale, seed=question.seed
    )
    start, level = _loss_of(network, dataset), pattern_level(network, dataset)
    passage = next_passage(network, dataset)
    full = f"{question.width} neurons ({name}, λ = {question.init_scale:g}, seed {question.seed})"
    words = (
        *_stage_words(full, start, level, passage, False),
        "The paper's networks have inner weights 1; the level is that of this network's own parameters.",
    )
    numbers = {"loss at the start (½·mean)": start, "plateau level": level, "first passage": passage.time}
    return Verdict("plateau", None, words, numbers)


def _on_the_line(dataset: Dataset) -> Dataset | None:
    """Return univariate data, without a bias coordinate; None for other data."""
    if dataset.dimension == 1:
        return dataset
    if dataset.dimension == 2 and bool(np.all(dataset.inputs[:, 1] == 1)):
        return Dataset(dataset.inputs[:, :1], dataset.targets, dataset.name)
    return None
