"""Figure 2 from data: slow growth, rapid fitting and realignment around a jump, and how long they last."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.saddle_to_saddle import saddle_to_saddle
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.staircase import CHOSEN, LN10, PROBLEM, Training, train
from shallowflow.models import initialize
from shallowflow.readings.curves import log_slope
from shallowflow.readings.phases import JumpPhases, jump_course, jump_phases, predicted_phases

LEVEL = 0.01
"""ε: what is below counts as small, fitted or aligned."""


class Durations(NamedTuple):
    """Of all jumps of the start of Figure 1, by ln(1/α) (k,).

    fitting, turning: the longest rapid fitting and realignment, plain time, (k,), infinite where one that
    ends at another scale has not ended by the middle of its plateau; error: the largest of the
    closed form's entry and exit times, in units of the fitting's length; stays: the largest 1 − cos between
    realignment and the next jump.
    """

    scales: Floats
    fitting: Floats
    turning: Floats
    error: float
    stays: float


def run_phases(parameters: Values, progress: Progress) -> Findings:
    """Read the phases of the jumps of Figure 1's start, from several scales, and of unselected starts."""
    trainings = [train({**parameters, "digits": d}) for d in parameters["scales"]]
    progress(0.3, "phases")
    found = [jump_phases(one.flow, one.limit, LEVEL) for one in trainings]
    durations = _durations(trainings, found)
    progress(0.5, "unselected starts")
    ordered = [_in_order(parameters, seed) for seed in range(parameters["starts"])]
    figure = _figure(trainings[-1], found[-1])
    return Findings((figure,), phase_claims(durations, ordered))


def _durations(trainings: list[Training], found: list[JumpPhases]) -> Durations:
    fitting = np.array([np.nanmax(one.fitted - one.grown) for one in found])
    turns = np.array([one.aligned - one.fitted for one in found])
    turns = turns[:, np.isfinite(turns).any(axis=0)]  # the jumps after which a neuron has to turn
    turning = np.max(np.where(np.isnan(turns), np.inf, turns), axis=1)
    error, stays = 0.0, 0.0
    for training, one in zip(trainings, found, strict=True):
        expected = predicted_phases(training.limit, training.network.acceleration, LEVEL)
        length = expected.fitted - expected.grown
        wrong = np.maximum(np.abs(one.grown - expected.grown), np.abs(one.fitted - expected.fitted)) / length
        error = max(error, float(np.max(np.nan_to_num(wrong, nan=np.inf))))
        for jump, (since, until) in enumerate(zip(one.aligned, one.grown[1:], strict=False)):
            if np.isfinite(since + until):
                times = np.linspace(since, until, 10)
                course = jump_course(training.flow, training.limit, jump, times)
                stays = max(stays, float(course.misdirection.max()))
    accelerations = np.array([one.network.acceleration for one in trainings])
    return Durations(accelerations, fitting, turning, error, stays)


def _in_order(parameters: Values, seed: int) -> bool:
    """Return whether the phases of a start's jumps follow each other: grown, fitted, aligned, grown …"""
    size = parameters["few"]
    dataset = orthonormal(size, labels="positive", seed=parameters["data_seed"] + seed)
    scale = -max(parameters["scales"]) * LN10
    network = initialize.log_scaled(parameters["width"], size, log_scale=scale, seed=seed)
    limit = saddle_to_saddle(network, dataset)
    if not len(limit.neurons):
        return True  # no neuron has the sign of the labels
    until = 1.3 * network.acceleration * float(limit.jump_times[-1])
    found = jump_phases(gradient_flow(network, dataset, until=until, tolerance=1e-8), limit, LEVEL)
    ends = np.where(np.isnan(found.aligned), found.fitted, found.aligned)
    order = np.column_stack([found.grown, found.fitted, np.maximum(ends, found.fitted)]).ravel()
    return bool(np.all(np.diff(order) >= 0))


def phase_claims(found: Durations, ordered: list[bool]) -> tuple[Claim, ...]:
    """The phases of all jumps become sharp in accelerated time, and follow each other."""
    fitting, turning = (_slope(found.scales, length) for length in (found.fitting, found.turning))
    return (
        Claim.that(
            "Rapid fitting takes no time in the limit (Lemmas 5, 6)",
            "from the threshold to the fitted data within any τ > 0, as α → 0",
            fitting,
            most=-0.9,
            words=_words(found.scales, found.fitting),
        ),
        Claim.that(
            "Nor does realignment (Lemma 7)",
            "aligned by any time after the jump, as α → 0",
            turning,
            most=-0.9,
            words=_words(found.scales, found.turning),
        ),
        Claim.that(
            "Then the directions stay until the next jump (Lemma 8)",
            "this alignment remains stable",
            Interval.exact(found.stays),
            most=1.001 * LEVEL,
            words="largest 1 − cos {}",
        ),
        Claim.that(
            "From unselected starts too, each phase ends before the next begins",
            "Hypothesis 1 holds at every saddle",
            Interval.of_share(sum(ordered), len(ordered)),
            least=0.8,
            words="share of starts {}",
            reason="jumps that follow each other closely overlap at any fixed α",
        ),
        Claim.that(
            "The logistic of a lone jump says when rapid fitting begins and ends",
            "not in the paper",
            Interval.exact(found.error),
            most=1e-3,
            words="off by {} of its length at most",
            ours=True,
        ),
    )


def _slope(scales: Floats, lengths: Floats) -> Interval:
    """Return the power of ln(1/α) by which accelerated lengths grow; unknown from fewer than two that end."""
    ended = np.isfinite(lengths)
    if ended.sum() < 2:
        return Interval(np.nan, -np.inf, np.inf)
    return Interval.exact(log_slope(scales[ended], (lengths / scales)[ended]))


def _words(scales: Floats, lengths: Floats) -> str:
    listed = ", ".join(
        f"{length:.0f} at ln(1/α) = {scale:.0f}" for scale, length in zip(scales, lengths, strict=True)
    )
    return f"in accelerated time it falls like ln(1/α)^{{}}; plain time {listed}"


def _figure(training: Training, found: JumpPhases) -> Figure:
    first, aligned = float(found.grown[0]), float(found.aligned[0])
    reach = aligned - first
    times = np.linspace(first - 0.6 * reach, aligned + 0.9 * reach, 300)
    course = jump_course(training.flow, training.limit, 0, times)
    x = times - training.predicted[0]
    ends = (found.grown[0], found.fitted[0], found.aligned[0])
    marks = tuple(
        (float(end - training.predicted[0]), name)
        for end, name in zip(ends, ("grown", "fitted", "aligned"), strict=True)
    )
    middles = [float(np.mean(pair)) for pair in pairwise([x[0], *(at for at, _ in marks), x[-1]])]
    names = ("slow growth", "fitting", "turning", "slow growth")
    curves = (
        Series(x, course.growth, "‖w‖² of the neuron that jumps, over its limit", tone="blue"),
        Series(x, course.residual, "largest residual of its points, over the label", tone="orange"),
        Series(x, course.misdirection, "largest 1 − cos to the next direction", tone="green"),
    )
    labels = "time from the jump", "share"
    plain = tuple((at, "") for at, _ in marks)
    linear = Panel(curves, "", *labels, marks=plain, headings=tuple(zip(middles, names, strict=True)))
    logarithmic = Panel(curves, "", *labels, y_scale="log", y_limits=(1e-6, 2.0), marks=marks)
    return Figure(
        "fig2",
        "The phases of a jump",
        (linear, logarithmic),
        f"The first jump of Figure 1's start, ε = {LEVEL:g}: slow growth until the neuron has ε of its final "
        "squared norm, rapid fitting until its points are fitted up to ε, realignment until the others point "
        "to the directions of the next saddle. " + CHOSEN,
    )


PHASES = Experiment(
    "incremental/phases",
    "The phases of a jump",
    "Figure 2, Lemmas 3 to 8",
    scales(
        {key: value for key, value in PROBLEM.items() if key != "digits"},
        quick={"scales": (100, 300, 1000, 3000), "starts": 40, "few": 24},
        paper={"scales": (100, 300, 1000, 3000, 10000), "starts": 200, "few": 64},
    ),
    run_phases,
    cost={"quick": 4.3, "paper": 18},
)
