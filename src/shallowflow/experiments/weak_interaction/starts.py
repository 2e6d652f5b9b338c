"""Figure 1: two groups, several n and n = ∞: the loss falls in two steps that sharpen slowly.

Lemma 5: how many neurons make a good start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data import Dataset
from shallowflow.data.generators import orthogonal, orthonormal, sphere
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import (
    activation_probability,
    fair_activation_probability,
    lemma_5_widths,
    sampled_probability,
)
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow, group_flow
from shallowflow.models import SquareLoss, initialize
from shallowflow.readings.plateaus import falls

LABELS = (1.0, 2.0)
TONES = ("sky", "blue", "green", "orange", "pink", "red")
SURE = 4.0
"""Standard errors beyond which a difference is none of chance."""


def _power(size: float) -> str:
    """Return n as a power of ten."""
    return f"n = 10^{np.log10(size):.0f}"


def _flow(size: float, alignment: float) -> GroupFlow:
    return GroupFlow(size, LABELS, [alignment] * 2, [1.0, 1.0])


def _trained(parameters: Values) -> float:
    """Return the largest distance of the closed form from a trained network, relative to the first loss."""
    size = parameters["checked"]
    base = orthonormal(size, labels="positive", seed=parameters["seed"])
    dataset = Dataset(base.inputs, np.repeat(LABELS, size // 2))
    network = initialize.grouped(dataset.inputs, dataset.targets, 2, seed=parameters["seed"])
    flow = group_flow(network, dataset)
    trajectory = gradient_flow(network, dataset, until=1.5 * flow.unit, speed=2.0, tolerance=1e-9)
    times = np.linspace(0.0, trajectory.times[-1], 40)
    losses = [SquareLoss().value(trajectory(t)(dataset.inputs), dataset.targets) for t in times]
    return float(np.max(np.abs(flow.loss(times) - losses)) / losses[0])


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Evaluate the closed form for every n, beside its limit."""
    sizes, alignment = parameters["sizes"], parameters["alignment"]
    distance = _trained(parameters)
    progress(0.7, "closed form")
    flows = [_flow(size, alignment) for size in sizes]
    halves = [flow.transition_times(0.5) / flow.unit for flow in flows]
    limits = flows[-1].limit_transitions
    errors = [float(np.max(np.abs(half - limits) / limits)) for half in halves]
    times = np.linspace(0.0, 1.5, 3000)
    first, last = (falls(times, flow.loss(times * flow.unit)) for flow in (flows[0], flows[-1]))
    claims = (
        Claim(
            "L_∞ is constant by parts, with one transition per group at 1/‖D_j‖ (Theorem 2)",
            "transitions at 1 and ½ in units of t_n",
            f"at {_power(sizes[-1])} they lie at {halves[-1][0]:.3f} and {halves[-1][1]:.3f}; largest "
            f"relative error {errors[0]:.2f} at {_power(sizes[0])}, {errors[-1]:.3f} there",
            errors[-1] < 0.05 and errors[-1] < errors[0],
            "the convergence is logarithmic in n",
        ),
        Claim(
            "Two phase transitions are visible only in very high dimension",
            "two steps of the loss curve",
            f"{last} steps at {_power(sizes[-1])}, {first} at {_power(sizes[0])}",
            last == 2,
        ),
        _window_claim(flows[-1], sizes[-1]),
        Claim(
            "The closed form is the flow of the network",
            "(55), corrected",
            f"largest distance of the losses {distance:.1e} of the first, n = {parameters['checked']}",
            distance < 1e-4,
        ),
    )
    return Findings((_transitions_figure(sizes, flows),), claims)


def _window_claim(flow: GroupFlow, size: float) -> Claim:
    logarithm = np.log(2 * size)
    window = float(flow.windows(0.25)[0] * logarithm)
    expected = float(flow.limit_windows(0.25)[0] * logarithm)
    printed = float(np.log((1 - 0.5) / (2 - 0.5) * (2 - 0.75**0.5) / (1 - 0.75**0.5)) / 2)
    return Claim(
        "The window of a transition is ln C(ε)/(2‖D‖ ln n) (12)",
        f"{printed:.3f} for ε = ¼, D = 1, times 1/ln n",
        f"{window:.3f} at {_power(size)}; the corrected (2/D) ln C(ε) is {expected:.3f}",
        abs(window - printed) < 0.05 * printed,
        "slips in (71), where ψ lost a factor ‖D‖, and in (73), where 1/(c t_n) is 2/(‖D‖ ln n)",
    )


def _transitions_figure(sizes: tuple[float, ...], flows: list[GroupFlow]) -> Figure:
    times = np.linspace(0.0, 1.75, 1200)
    curves = [
        Series(times, flow.loss(times * flow.unit), _power(size), tone=tone)
        for size, flow, tone in zip(sizes, flows, TONES, strict=False)
    ]
    limit = Series(times, flows[-1].limit_loss(times), "n = ∞", style="steps", tone="ink")
    exponents = np.linspace(2.0, 100.0, 50)
    many = [_flow(10.0**e, float(flows[0].alignments[0])) for e in exponents]
    halves, starts, ends = (
        np.array([flow.transition_times(level) / flow.unit for flow in many]) for level in (0.5, 0.75, 0.25)
    )
    bands = [
        Series(exponents, halves[:, j], f"D = {LABELS[j]:g}", tone=tone, band=(starts[:, j], ends[:, j]))
        for j, tone in ((0, "blue"), (1, "orange"))
    ]
    targets = [
        Series([2.0, 100.0], [1 / label] * 2, "limit" if label == 1 else "", style="dashed", tone="muted")
        for label in LABELS
    ]
    return Figure(
        "fig1",
        "Two groups: the loss in units of t_n, and where its transitions lie",
        (
            Panel((*curves, limit), "loss", "t / t_n", "L_n(t)"),
            Panel((*bands, *targets), "transition times, from ¾ to ¼ of D²/2", "log₁₀ n", "t / t_n"),
        ),
        "Left: the closed form for several n, and its limit. Right: transitions approach 1/D like 1/ln n.",
    )


@dataclass(frozen=True)
class _Sample:
    """Probabilities of a good start by width: exact and sampled on orthogonal inputs, sampled on others.

    like_others: exact on orthogonal inputs with as many labels of either sign as the others have.
    """

    widths: Ints
    draws: int
    exact: Floats
    like_others: Floats
    orthogonal: list[tuple[float, float]]
    others: list[tuple[float, float]]

    @property
    def errors(self) -> float:
        """The largest difference from the exact probability, in standard errors."""
        pairs = zip(self.orthogonal, self.exact, strict=True)
        return float(max(abs(found - true) / max(error, 1 / self.draws) for (found, error), true in pairs))

    @property
    def gains(self) -> tuple[Floats, Floats]:
        """By how much a good start is likelier on the others, by width, and in standard errors."""
        true = self.like_others
        gains = np.array([found for found, _ in self.others]) - true
        return gains, gains / np.sqrt(true * (1 - true) / self.draws)


def run_lemma5(parameters: Values, progress: Progress) -> Findings:
    """Set the exact probability of a good start beside Lemma 5's rules and Monte Carlo."""
    widths, epsilon = np.arange(1, parameters["most"] + 1), parameters["epsilon"]
    exact = {
        n: np.array([fair_activation_probability(int(m), n) for m in widths]) for n in parameters["sizes"]
    }
    needed = {}
    for n, table in exact.items():
        enough = table >= 1 - epsilon
        needed[n] = float(widths[np.argmax(enough)]) if enough.any() else float("inf")
    progress(0.2, "Monte Carlo")
    sample = _sampled(parameters)
    curves = [
        Series(widths, table, f"n = {n}", tone=tone)
        for (n, table), tone in zip(exact.items(), TONES, strict=False)
    ]
    level = Series([1, widths[-1]], [1 - epsilon] * 2, "1 − ε", style="dashed", tone="muted")
    labels, marks = (
        ("neurons m", "probability of a good start"),
        [m for m in needed.values() if np.isfinite(m)],
    )
    flat, near = ([found for found, _ in part] for part in (sample.orthogonal, sample.others))
    sampled = (
        Series(sample.widths, sample.exact, "exact, orthogonal", tone="blue"),
        Series(sample.widths, flat, "sampled, orthogonal", style="points", tone="blue"),
        Series(sample.widths, near, f"sampled, d = {parameters['dimension']}", style="points", tone="orange"),
    )
    panels = (
        Panel((*curves, level), "exact, orthogonal inputs", *labels, marks=tuple((m, "") for m in marks)),
        Panel(sampled, f"n = {parameters['sampled']}", *labels),
    )
    claims = (*_rule_claims(needed, epsilon), *_sample_claims(sample, parameters))
    return Findings((Figure("lemma5", "How many neurons make a good start", panels),), claims)


def _sampled(parameters: Values) -> _Sample:
    size, draws, widths = parameters["sampled"], parameters["draws"], np.arange(6, 41, 4)
    data = orthogonal(size, size), sphere(size, parameters["dimension"])
    exact, like_others = (
        np.array([activation_probability(int(m), plus, size - plus) for m in widths])
        for plus in (int(np.sum(dataset.targets > 0)) for dataset in data)
    )
    flat, near = (
        [sampled_probability(dataset, int(m), draws=draws, seed=int(m)) for m in widths] for dataset in data
    )
    return _Sample(widths, draws, exact, like_others, flat, near)


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


def _sample_claims(sample: _Sample, parameters: Values) -> tuple[Claim, ...]:
    size, (gains, in_errors) = parameters["sampled"], sample.gains
    return (
        Claim(
            "The exact formula agrees with Monte Carlo on orthogonal inputs",
            "exact",
            f"largest difference {sample.errors:.1f} standard errors, n = {size}",
            sample.errors < SURE,
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


FIG1 = Experiment(
    "weak_interaction/fig1",
    "Group initialisation: two phase transitions",
    "Figure 1, §4.2, Theorem 2",
    scales(
        {"sizes": (1e2, 1e4, 1e8, 1e20, 1e100), "alignment": 1.0, "seed": 0},
        quick={"checked": 12},
        paper={"checked": 60},
    ),
    run_fig1,
    cost={"quick": 1.7, "paper": 4.4},
)
LEMMA5 = Experiment(
    "weak_interaction/lemma5",
    "How many neurons make a good start",
    "Lemma 5, App. A.1",
    scales(
        {"sizes": (10, 100, 1000, 10_000), "epsilon": 0.05, "most": 60, "sampled": 40, "dimension": 5},
        quick={"draws": 1000},
        paper={"draws": 20_000},
    ),
    run_lemma5,
    cost={"quick": 0.7, "paper": 8},
)
