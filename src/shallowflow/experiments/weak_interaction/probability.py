"""Figure 2: how likely training reaches zero loss on n samples, and what is left of the loss if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.fits import Threshold, threshold
from shallowflow.experiments.weak_interaction.runs import stated_width
from shallowflow.experiments.weak_interaction.sweeps import (
    PAPER,
    QUICK,
    Run,
    execute,
    plan,
    said,
    shares_of,
    successes,
)

PUBLISHED, SHARP = 30.0, 200 / 3000
"""The published transition at d = 100: at n ≈ 3000, per dimension; from likely (2900) to almost never (3100),
relative to it."""
TONES = {"stated width": "blue", "authors' weights": "orange", "4 × the width": "green"}


@dataclass(frozen=True)
class _Part:
    """The runs of one setting: sizes, shares that converged, mean last loss over first, threshold."""

    sizes: Floats
    shares: Floats
    losses: Floats
    fit: Threshold | None
    said: str


def _part(runs: list[Run], results: list[Mapping[str, float]]) -> _Part:
    sizes, success = successes(runs, results)
    fit = threshold(sizes, success)
    kinds, shares = shares_of(sizes, success)
    losses = np.array([result["loss"] for result in results])
    return _Part(kinds, shares, shares_of(sizes, losses)[1], fit, said(fit, success))


def run_fig2(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Measure the probability of convergence over n: stated width, authors' weights, four times the width."""
    dimension, sizes = parameters["dimension"], parameters["sizes"]
    stated = plan(sizes, dimension, [stated_width(n) for n in sizes], parameters)
    authors = [{**run, "setting": "authors"} for run in stated]
    wider_sizes = parameters["wider_sizes"]
    wider = plan(wider_sizes, dimension, [stated_width(n, 4.0) for n in wider_sizes], parameters)
    done = execute("fig2", [stated, authors], parameters, sweep)
    fewer = {**parameters, "repeats": parameters["wider_repeats"]}
    done += execute("fig2, wider", [wider], fewer, sweep)
    parts = {name: _part(*found) for name, found in zip(TONES, done, strict=True)}
    claims = (*_transition_claims(dimension, parts), _loss_claim(parts["stated width"]))
    return Findings((_figure(dimension, parts),), claims)


def _figure(dimension: int, parts: Mapping[str, _Part]) -> Figure:
    curves = []
    for name, part in parts.items():
        curves.append(Series(part.sizes, part.shares, name, style="points", tone=TONES[name]))
        if part.fit is not None:
            x = np.linspace(part.sizes[0], part.sizes[-1], 200)
            curves.append(Series(x, part.fit(x), tone=TONES[name], style="dashed"))
    stated = parts["stated width"]
    losses = (
        Series(stated.sizes, 100 * stated.losses, "mean over networks", tone="blue"),
        Series(stated.sizes, 100 / stated.sizes, "one example", style="dashed", tone="muted"),
    )
    return Figure(
        "fig2",
        f"Probability of convergence in dimension {dimension}",
        (
            Panel(tuple(curves), title="probability that Σr² < 1", x_label="n", y_label="share of networks"),
            Panel(
                losses,
                title="last loss over first, stated width",
                x_label="n",
                y_label="per cent",
                y_scale="symlog",
            ),
        ),
        "Points: shares of networks; dashed: logistic fits. A network that converged counts with loss 0.",
    )


def _transition_claims(dimension: int, parts: Mapping[str, _Part]) -> tuple[Claim, ...]:
    stated, authors, wide = (parts[name] for name in TONES)
    goal = PUBLISHED * dimension
    near, near_wide = (_within_tenth(part.fit, goal) for part in (stated, wide))
    same = stated.fit is not None and _within_tenth(authors.fit, stated.fit.middle)
    return (
        Claim(
            "Convergence is likely for few samples and almost impossible for many",
            "likely for n ≤ 2900, almost never for n ≥ 3100 (d = 100)",
            f"{stated.shares[0]:.0%} of networks at n = {stated.sizes[0]:.0f}, {stated.shares[-1]:.0%} at "
            f"n = {stated.sizes[-1]:.0f}; N = {stated.said}",
            bool(stated.shares[0] >= 0.8 and stated.shares[-1] <= 0.2),
        ),
        _sharpness_claim(stated.fit),
        Claim(
            "The transition is at n ≈ 3000 for d = 100 with the stated number of neurons",
            f"n ≈ 3000, here 30·d = {goal:.0f}",
            f"N = {stated.said} (95 %), d = {dimension}",
            near,
            "" if near else "the stated number of neurons is too small for it; see the next claim",
        ),
        Claim(
            "(not claimed) Four times the stated number of neurons moves it there",
            f"n ≈ {goal:.0f}",
            f"N = {wide.said}",
            near_wide,
            "" if near_wide else "N is not proportional to d, so that 30·d is right near d = 100 only",
        ),
        Claim(
            "(not claimed) The authors' initial weights U(±1/√d) give the threshold of the printed ones",
            "the paper does not distinguish them",
            f"N = {authors.said} beside {stated.said}",
            same,
        ),
    )


def _within_tenth(fit: Threshold | None, goal: float) -> bool:
    return fit is not None and abs(fit.middle - goal) < 0.1 * goal


def _sharpness_claim(fit: Threshold | None) -> Claim:
    """Judge where the fit falls from 90 % to 10 %, 2 ln 9 of its widths: up to twice the published range."""
    spread = np.inf if fit is None else 2 * np.log(9) * fit.width / fit.middle
    sharp = bool(spread <= 2 * SHARP)
    return Claim(
        "The transition is sharp",
        f"from n = 2900 to 3100, {SHARP:.0%} of N",
        "no transition among these n" if fit is None else f"from 90 % to 10 % within {spread:.0%} of N",
        sharp,
        "" if sharp else "more than twice the published range",
    )


def _loss_claim(part: _Part) -> Claim:
    rare = part.shares < 0.2
    beyond = int(np.argmax(rare)) if rare.any() else len(part.sizes) - 1
    return Claim(
        "Beyond the transition all but one example are fitted",
        "0.6 % of the initial loss",
        f"{100 * part.losses[beyond]:.2g} % at n = {part.sizes[beyond]:.0f}, where one example is "
        f"{100 / part.sizes[beyond]:.2g} %; {100 * part.losses[-1]:.2g} % at n = {part.sizes[-1]:.0f}",
        bool(0.5 < part.losses[-1] * part.sizes[-1] < 2),
        "at n = 3000 one example is 0.033 % of the loss, not 0.6 %; the loss grows on with n",
    )


FIG2 = Experiment(
    "weak_interaction/fig2",
    "Probability of convergence over the number of samples",
    "Figure 2, §5.1, App. B",
    {
        "quick": {
            **QUICK,
            "dimension": 30,
            "sizes": tuple(range(80, 281, 25)),
            "wider_sizes": tuple(range(150, 401, 50)),
            "wider_repeats": 8,
        },
        "paper": {
            **PAPER,
            "dimension": 100,
            "sizes": (*range(1200, 2101, 100), 2300, 2500, 2800, 3100, 3500),
            "wider_sizes": (2500, 2800, 3100, 3400, 3700),
            "wider_repeats": 10,
        },
    },
    run_fig2,
    sweeps=True,
    cost={"quick": 6, "paper": 840},
)
