"""Figure 3 from many starts: how many recover, what hitting times foresee, what §4.2 and App. C assume."""

from __future__ import annotations

from collections.abc import Sequence

import shallowflow.experiments.two_timescale.training as training
from shallowflow.dynamics.two_timescale import hitting_times
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Sweep, Values
from shallowflow.experiments.two_timescale.training import (
    AUTHORS,
    PRINTED,
    PUBLISHED,
    SETTINGS,
    Setting,
    case,
    foreseen,
)
from shallowflow.landscape import step_class
from shallowflow.studies import Result, Study

STEP_OF_PAPER = 1e-5


def train_many(parameters: Values, sweep: Sweep) -> dict[str, list[Result]]:
    """Train from many starts by SGD with larger steps, in both settings."""
    step, points = parameters["starts_step"], list[Values]()
    for setting in SETTINGS:
        steps = round(parameters["steps"][setting.name] / (step / parameters["step"]))
        points += [
            case(parameters, setting, start, step=step, steps=steps) for start in range(parameters["starts"])
        ]
    results = sweep(Study("two_timescale/fig3, starts", training.task, points))
    return {
        setting.name: [one for one in results if one.parameters["setting"] == setting.name]
        for setting in SETTINGS
    }


def setting_claims(parameters: Values, setting: Setting, results: list[Result]) -> list[Claim]:
    """Judge the many starts of a setting: what hitting times foresee, how many recover."""
    whole = sum(one.metrics["missed"] == 0 for one in results)
    said = sum(bool(foreseen(one.parameters).all()) for one in results)
    right = round(sum(one.metrics["as_foreseen"] for one in results))
    jumps = len(results) * len(setting.target.jumps)
    return [
        foresight_claim(setting.name, right, jumps, (whole, said, len(results))),
        share_claim(setting.name, whole, len(results)),
    ]


def share_claim(setting: str, whole: int, starts: int) -> Claim:
    """Judge from how many uniform starts SGD recovers the target."""
    return Claim.that(
        "From most uniform starts SGD recovers the target",
        "in the two-timescale regime SGD recovers the target",
        Interval.of_share(whole, starts),
        least=0.5,
        words=f"share {{}} of {starts} starts cover all jumps",
        setting=setting,
    )


def start_claims(parameters: Values, results: list[Result]) -> list[Claim]:
    """Judge what §4.2 assumes, what of it is needed, and App. C's number of steps."""
    crowded = [training.two_per_piece(parameters, start) for start in range(parameters["starts"])]
    recovered = [one.metrics["missed"] == 0 for one in results]
    others = [whole for whole, two in zip(recovered, crowded, strict=True) if not two]
    published = case(parameters, AUTHORS, PUBLISHED)
    network = training.start_of(parameters, PUBLISHED)
    last = float(hitting_times(network, AUTHORS.target).max()) / AUTHORS.loss_factor
    steps = last / (published["epsilon"] * STEP_OF_PAPER)
    return [
        crowded_claim(sum(crowded), len(crowded), sum(others), len(others)),
        steps_claim(steps),
        remark_claim(recovered_times(parameters)),
    ]


def crowded_claim(crowded: int, starts: int, recovered: int, others: int) -> Claim:
    """Judge the assumption of §4.2 for uniform starts."""
    return Claim.that(
        "(assumed in §4.2) Uniform starts have two neurons on every piece",
        "the closed form (7) needs it; m = 20",
        Interval.of_share(crowded, starts),
        least=0.5,
        words=f"share {{}} of {starts} starts",
        reason=f"20 neurons are too few for it, but it is not needed: the authors' run recovers from "
        f"{recovered} of the {others} others",
    )


def steps_claim(steps: float) -> Claim:
    """Judge App. C: about 2·10⁸ steps are needed; `steps` bring the limit to its last jump."""
    return Claim.that(
        "About 2·10⁸ steps bring every neuron to its jump (App. C)",
        "≈ 2·10⁸ steps of 10⁻⁵ at ε = 2·10⁻⁵, by the order of magnitude",
        Interval.exact(steps / 2e8),
        least=0.2,
        most=5,
        words=f"the last hitting time of the published start takes {steps:.2g} steps: {{}} times as many",
        setting="authors",
    )


def recovered_times(parameters: Values) -> list[float]:
    """Return for many starts the last hitting time in units of T = 6/(Δf)², which does not know of ξ."""
    until = step_class(PRINTED.target).slow_time
    starts = range(parameters["starts"])
    return [
        float(hitting_times(training.start_of(parameters, start), PRINTED.target).max()) / until
        for start in starts
    ]


def remark_claim(shares: Sequence[float]) -> Claim:
    """Judge Remark 2: the time of recovery does not depend on the error asked for; T is enough."""
    return Claim.that(
        "The limit recovers by T = 6/(Δf)², whatever error is asked for (Remark 2)",
        "T does not depend on ξ",
        Interval.exact(max(shares)),
        most=1.0,
        words=f"with η = 0 the error is 0 at the last hitting time, at most {{}} T over {len(shares)} starts",
        setting="printed",
    )


def foresight_claim(setting: str, right: int, jumps: int, starts: tuple[int, int, int]) -> Claim:
    """Judge what hitting times foresee; starts: recovered, said to be recovered, all of them."""
    whole, said, total = starts
    return Claim.that(
        "The hitting times of the limit say which jumps SGD reaches, from any start",
        "the dynamics match closely",
        Interval.of_share(right, jumps),
        least=0.9,
        words=f"so it is for a share {{}} of the jumps; all five are reached from {whole} of {total} starts, "
        f"said: {said}",
        reason="a neuron counts once it is within η, which is before it arrives" if whole > said else "",
        setting=setting,
    )
