"""Lemma 5: how many neurons make a good start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import (
    activation_probability,
    fair_activation_probability,
    lemma_5_widths,
    sampled_probability,
)

TONES = ("sky", "blue", "green", "orange")
SURE = 4.0
"""Standard errors beyond which a difference is none of chance."""


@dataclass(frozen=True)
class _Sample:
    """Probabilities of a good start: exact and sampled on orthogonal inputs, sampled on others.

    like_others: exact on orthogonal inputs with as many labels of either sign as the others have.
    """

    widths: Ints
    exact: Floats
    orthogonal: list[tuple[float, float]]
    others: list[tuple[float, float]]
    like_others: Floats

    def errors(self, draws: int) -> float:
        """Return the largest difference from the exact probability, in standard errors."""
        pairs = zip(self.orthogonal, self.exact, strict=True)
        return float(max(abs(found - true) / max(error, 1 / draws) for (found, error), true in pairs))

    def gains(self, draws: int) -> tuple[Floats, Floats]:
        """Return by how much a good start is likelier on the others, by width, and in standard errors."""
        true = self.like_others
        gains = np.array([found for found, _ in self.others]) - true
        return gains, gains / np.sqrt(true * (1 - true) / draws)


def run_lemma5(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Set the exact probability of a good start beside Lemma 5's rules and Monte Carlo."""
    widths = np.arange(1, parameters["most"] + 1)
    exact = {
        n: np.array([fair_activation_probability(int(m), n) for m in widths]) for n in parameters["sizes"]
    }
    needed = {n: _fewest(widths, table >= 1 - parameters["epsilon"]) for n, table in exact.items()}
    progress(0.2, "Monte Carlo")
    sample = _sampled(parameters)
    claims = (*_rule_claims(needed, parameters["epsilon"]), *_sample_claims(sample, parameters))
    panels = _exact_panel(widths, exact, needed, parameters["epsilon"]), _sample_panel(sample, parameters)
    return Findings((Figure("lemma5", "How many neurons make a good start", panels),), claims)


def _sampled(parameters: Mapping[str, Any]) -> _Sample:
    size, draws, widths = parameters["sampled"], parameters["draws"], np.arange(6, 41, 4)
    flat, near = orthogonal(size, size), sphere(size, parameters["dimension"])
    exact, like_near = (
        np.array([activation_probability(int(m), plus, size - plus) for m in widths])
        for plus in (int(np.sum(dataset.targets > 0)) for dataset in (flat, near))
    )
    return _Sample(
        widths,
        exact,
        [sampled_probability(flat, int(m), draws=draws, seed=int(m)) for m in widths],
        [sampled_probability(near, int(m), draws=draws, seed=int(m)) for m in widths],
        like_near,
    )


def _rule_claims(needed: Mapping[int, float], epsilon: float) -> tuple[Claim, ...]:
    rules = {n: lemma_5_widths(n, epsilon) for n in needed}
    return (
        Claim(
            "4 ln(n/ε) neurons make a good start with probability 1 − ε",
            "P(𝓘) ≥ 1 − ε",
            "; ".join(f"n = {n}: {m:g} suffice, 4 ln(n/ε) = {rules[n][1]:.1f}" for n, m in needed.items()),
            all(m <= rules[n][1] for n, m in needed.items()),
        ),
        Claim(
            "P(𝓘) = 1 − ε implies m ∈ [3 ln(n/ε) − 2, 4 ln(n/ε)]",
            "both bounds",
            "; ".join(f"n = {n}: {m:g} in [{rules[n][0]:.1f}, {rules[n][1]:.1f}]" for n, m in needed.items()),
            all(rules[n][0] <= m <= rules[n][1] for n, m in needed.items()),
            "true for orthogonal inputs by the exact formula, though the proof (14) of the lower bound fails",
        ),
    )


def _sample_claims(sample: _Sample, parameters: Mapping[str, Any]) -> tuple[Claim, ...]:
    size, off = parameters["sampled"], sample.errors(parameters["draws"])
    gains, in_errors = sample.gains(parameters["draws"])
    return (
        Claim(
            "The exact formula agrees with Monte Carlo on orthogonal inputs",
            "exact",
            f"largest difference {off:.1f} standard errors, n = {size}",
            off < SURE,
        ),
        Claim(
            "(not claimed) Correlated inputs make a good start more likely",
            "Lemma 5 treats all inputs alike",
            f"n = {size} in dimension {parameters['dimension']}: P(𝓘) larger by up to {gains.max():.2f}, "
            f"{in_errors.max():.1f} standard errors (at the least favourable width {in_errors.min():+.1f})",
            bool(in_errors.max() >= SURE and in_errors.min() > -SURE),
            "inputs that point in similar directions share their neurons",
        ),
    )


def _exact_panel(
    widths: Ints, exact: Mapping[int, Floats], needed: Mapping[int, float], epsilon: float
) -> Panel:
    curves = [
        Series(widths, table, f"n = {n}", tone=tone)
        for (n, table), tone in zip(exact.items(), TONES, strict=False)
    ]
    level = Series([1, widths[-1]], [1 - epsilon] * 2, "1 − ε", style="dashed", tone="muted")
    return Panel(
        (*curves, level),
        title="exact, orthogonal inputs",
        x_label="neurons m",
        y_label="probability of a good start",
        marks=tuple((m, "") for m in needed.values() if np.isfinite(m)),
    )


def _sample_panel(sample: _Sample, parameters: Mapping[str, Any]) -> Panel:
    flat, near = ([found for found, _ in part] for part in (sample.orthogonal, sample.others))
    return Panel(
        (
            Series(sample.widths, sample.exact, "exact, orthogonal", tone="blue"),
            Series(sample.widths, flat, "sampled, orthogonal", style="points", tone="blue"),
            Series(
                sample.widths,
                near,
                f"sampled, d = {parameters['dimension']}",
                style="points",
                tone="orange",
            ),
        ),
        title=f"n = {parameters['sampled']}",
        x_label="neurons m",
        y_label="probability of a good start",
    )


def _fewest(widths: Ints, enough: Bools) -> float:
    """Return the smallest width that is enough; ∞ if none of them is."""
    return float(widths[np.argmax(enough)]) if enough.any() else float("inf")


LEMMA5 = Experiment(
    "weak_interaction/lemma5",
    "How many neurons make a good start",
    "Lemma 5, App. A.1",
    {
        scale: {
            "sizes": (10, 100, 1000, 10_000),
            "epsilon": 0.05,
            "most": 60,
            "sampled": 40,
            "dimension": 5,
            "draws": draws,
        }
        for scale, draws in (("quick", 1000), ("paper", 20_000))
    },
    run_lemma5,
    cost={"quick": 0.7, "paper": 8},
)
