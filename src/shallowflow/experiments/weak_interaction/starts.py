"""What a start promises: Lemma 5 (how many neurons), Lemma 4 (the first rate), Lemma 3 (the dimension)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data import Dataset
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import (
    activation_probability,
    fair_activation_probability,
    gaussian_dimension,
    interaction,
    lemma_5_widths,
    local_pl,
    sampled_probability,
)
from shallowflow.landscape.weak_interaction.interactions import StartCurvature, start_curvature
from shallowflow.models import initialize
from shallowflow.readings.curves import Threshold, exponent, threshold

TONES = ("sky", "blue", "green", "orange", "pink")
SURE = 4.0
"""Standard errors beyond which a difference is none of chance."""


class Rule(NamedTuple):
    """A rule of Lemma 5 over all n, ε and label mixes: cases, how many break it, and the worst of them."""

    cases: int
    broken: int
    worst: str


class Sample(NamedTuple):
    """Probabilities of a good start by width (k,): sampled on correlated inputs, exact on orthogonal ones.

    exact: with as many labels of either sign as the others have.
    """

    widths: Ints
    draws: int
    exact: Floats
    found: Floats

    @property
    def errors(self) -> Floats:
        """By how many standard errors a good start is likelier on the correlated inputs."""
        errors: Floats = (self.found - self.exact) / np.sqrt(self.exact * (1 - self.exact) / self.draws)
        return errors


def run_lemma5(parameters: Values, progress: Progress) -> Findings:
    """Set the exact probability of a good start beside Lemma 5's rules, for all ε and label mixes."""
    levels = np.arange(1, parameters["levels"]) / parameters["levels"]
    rules = [_scanned(rule, parameters["sizes"], levels) for rule in ("enough", "too few")]
    progress(0.5, "Monte Carlo")
    dataset, widths = sphere(parameters["sampled"], parameters["dimension"]), np.arange(6, 41, 4)
    draws, plus = parameters["draws"], int(np.sum(dataset.targets > 0))
    sample = Sample(
        widths,
        draws,
        np.array([activation_probability(int(m), plus, dataset.size - plus) for m in widths]),
        np.array([sampled_probability(dataset, int(m), draws=draws, seed=int(m))[0] for m in widths]),
    )
    figure = _lemma5_figure(sample, parameters)
    return Findings((figure,), (*rule_claims(*rules), correlated_claim(sample, parameters["dimension"])))


def _probabilities(width: int, size: int) -> Mapping[str, float]:
    """Return the exact P(𝓘) of orthogonal inputs for fair labels, and for labels of one sign."""
    return {
        "fair labels": fair_activation_probability(width, size),
        "one sign": activation_probability(width, size, 0),
    }


def _scanned(rule: str, sizes: Sequence[int], levels: Floats) -> Rule:
    """Try a rule at the width nearest to its edge: the least that is enough, the most that is too few."""
    cases, broken, worst, least = 0, 0, "", np.inf
    for size in sizes:
        for epsilon in levels:
            few, many = lemma_5_widths(size, float(epsilon))
            width = int(np.ceil(many)) if rule == "enough" else int(np.floor(few))
            if width < 1:
                continue
            for kind, chance in _probabilities(width, size).items():
                margin = chance - (1 - epsilon) if rule == "enough" else (1 - epsilon) - chance
                cases, broken = cases + 1, broken + (margin < 0)
                if margin < least:
                    least = float(margin)
                    worst = f"n = {size}, ε = {epsilon:g}, {kind}, m = {width}: P(𝓘) = {chance:.3f}"
    return Rule(cases, broken, worst)


def rule_claims(enough: Rule, few: Rule) -> tuple[Claim, ...]:
    """Both rules of Lemma 5, by the exact probability on orthogonal inputs."""
    return (
        Claim.that(
            "4 ln(n/ε) neurons make a good start with probability 1 − ε",
            "P(𝓘) ≥ 1 − ε",
            Interval.exact(enough.broken),
            most=0.0,
            words=f"broken in {{}} of {enough.cases} cases; the closest: {enough.worst}",
        ),
        Claim.that(
            "With at most 3 ln(n/ε) − 2 neurons P(𝓘) is at most 1 − ε",
            "P(𝓘) = 1 − ε implies m ∈ [3 ln(n/ε) − 2, 4 ln(n/ε)]",
            Interval.exact(few.broken),
            most=0.0,
            words=f"broken in {{}} of {few.cases} cases; the worst: {few.worst}",
            reason="(14) takes (ε/n)^(3 ln 2) for at least ε/n, but 3 ln 2 > 1: false for large ε",
        ),
    )


def correlated_claim(sample: Sample, dimension: int) -> Claim:
    """On correlated inputs a good start is likelier at some width, and at none clearly less likely."""
    errors = sample.errors
    gain = float(np.max(sample.found - sample.exact))
    return Claim.that(
        "Correlated inputs make a good start more likely",
        "Lemma 5 treats all inputs alike",
        Interval.exact(float(errors.max()) if errors.min() > -SURE else -np.inf),
        least=SURE,
        words=f"in dimension {dimension} P(𝓘) is larger by up to {gain:.2f}, {{}} standard errors "
        f"(at the least favourable width {errors.min():+.1f})",
        reason="inputs that point in similar directions share their neurons",
        ours=True,
    )


def _lemma5_figure(sample: Sample, parameters: Values) -> Figure:
    widths, epsilon = np.arange(1, parameters["most"] + 1), 0.05
    curves, marks = list[Series](), list[tuple[float, str]]()
    for n, tone in zip(parameters["sizes"], TONES, strict=False):
        table = [fair_activation_probability(int(m), n) for m in widths]
        curves.append(Series(widths, table, f"n = {n}", tone=tone))
        marks += [(edge, "") for edge in lemma_5_widths(n, epsilon)]
    level = Series([1, widths[-1]], [1 - epsilon] * 2, "1 − ε = 0.95", style="dashed", tone="muted")
    error = np.sqrt(sample.found * (1 - sample.found) / sample.draws)
    band = sample.found - 1.96 * error, sample.found + 1.96 * error
    named = f"sampled, d = {parameters['dimension']}"
    sampled = (
        Series(sample.widths, sample.exact, "exact, orthogonal", tone="blue"),
        Series(sample.widths, sample.found, named, style="points", tone="orange", band=band),
    )
    labels = "neurons m", "probability of a good start"
    edges = "3 ln(n/ε) − 2 and 4 ln(n/ε), for each n"
    return Figure(
        "lemma5",
        "How many neurons make a good start",
        (
            Panel((*curves, level), "exact", *labels, marks=tuple(marks), marks_label=edges),
            Panel(sampled, f"n = {parameters['sampled']}", *labels),
        ),
        "Left: orthogonal inputs, fair labels. Right: the same labels on orthogonal and correlated inputs.",
    )


class FirstRates(NamedTuple):
    """(n/2) μ(0) of many starts, by data set and width: predicted, and drawn (widths, starts)."""

    widths: tuple[int, ...]
    predicted: Mapping[str, StartCurvature]
    drawn: Mapping[str, Floats]


def run_lemma4(parameters: Values, progress: Progress) -> Findings:
    """Draw many starts of several widths; compare mean and spread of μ(0) with Lemma 4, corrected."""
    data: dict[str, Dataset] = {}
    for size in parameters["sizes"]:
        data[f"orthogonal, n = {size}"] = orthogonal(size, size, seed=parameters["seed"])
        data[f"d = 10, n = {size}"] = sphere(size, 10, seed=parameters["seed"])
    predicted, drawn = {}, {}
    for i, (name, dataset) in enumerate(data.items()):
        progress(i / len(data), name)
        wide = initialize.asymmetric(parameters["wide"], dataset.dimension, seed=parameters["seed"])
        predicted[name] = start_curvature(wide, dataset)
        drawn[name] = np.array(
            [
                [
                    0.5
                    * dataset.size
                    * local_pl(initialize.asymmetric(m, dataset.dimension, seed=s), dataset)
                    for s in range(parameters["starts"])
                ]
                for m in parameters["widths"]
            ]
        )
    found = FirstRates(parameters["widths"], predicted, drawn)
    return Findings((_lemma4_figure(found),), lemma4_claims(found))


def lemma4_claims(found: FirstRates) -> tuple[Claim, ...]:
    """Mean, spread and shape of μ(0) at the largest width."""
    root = np.sqrt(found.widths[-1])
    means, spreads, scores = list[Interval](), list[float](), list[Floats]()
    for name, (mean, spread) in found.predicted.items():
        last = found.drawn[name][-1]
        means.append(Interval.of_mean(last / mean))
        spreads.append(float(root * last.std(ddof=1) / spread))
        scores.append(root * (last - mean) / spread)
    worst = max(means, key=lambda one: abs(one.value - 1))
    inside = np.abs(np.concatenate(scores)) < 1.96
    listed = ", ".join(f"{mean:.2f} ({name})" for name, (mean, _) in found.predicted.items())
    return (
        Claim.that(
            "μ(0) tends to 2β₀/n as the width grows: of order 1/n",
            "√m((2/n)μ(0) − β₀) → N(0, γ₀²) (Lemma 4; the print has 2/n for n/2)",
            worst,
            least=0.95,
            most=1.05,
            words=f"(n/2) μ(0) over β₀ {{}}, where it is farthest from 1; β₀ = {listed}",
        ),
        Claim.that(
            "Its spread is γ₀/√m",
            "γ₀ depends on data and distribution only",
            Interval.exact(max(spreads, key=lambda one: abs(one - 1))),
            least=0.8,
            most=1.25,
            words="√m·spread over γ₀ {}, where it is farthest from 1 (γ₀ corrected)",
        ),
        Claim.that(
            "It is asymptotically normal",
            "N(0, γ₀²)",
            Interval.of_share(int(inside.sum()), len(inside)),
            least=0.92,
            most=0.98,
            words="share within 1.96 γ₀/√m {}, 0.95 for a normal law",
        ),
    )


def _lemma4_figure(found: FirstRates) -> Figure:
    widths = np.array(found.widths, dtype=np.float64)
    courses, shapes = list[Series](), list[Series]()
    grid = np.linspace(-3.5, 3.5, 200)
    for (name, (mean, spread)), tone in zip(found.predicted.items(), TONES, strict=False):
        drawn = found.drawn[name]
        band = mean - spread / np.sqrt(widths), mean + spread / np.sqrt(widths)
        courses.append(Series(widths, drawn.mean(axis=1), name, style="points", tone=tone))
        courses.append(Series(widths, np.full(len(widths), mean), style="dashed", tone=tone, band=band))
        scores = np.sort(np.sqrt(widths[-1]) * (drawn[-1] - mean) / spread)
        shapes.append(Series(scores, (np.arange(len(scores)) + 0.5) / len(scores), name, tone=tone))
    from scipy.special import ndtr

    shapes.append(Series(grid, ndtr(grid), "normal", style="dashed", tone="ink"))
    score = "√m ((n/2) μ(0) − β₀) / γ₀"
    return Figure(
        "lemma4",
        "The rate at the start",
        (
            Panel(tuple(courses), "mean over starts", "neurons m", "(n/2) μ(0)", "log"),
            Panel(tuple(shapes), f"m = {found.widths[-1]}", score, "share of starts below"),
        ),
        "Dashed, left: β₀, with a band of γ₀/√m.",
    )


def run_lemma3(parameters: Values, progress: Progress) -> Findings:
    """Draw Gaussian inputs in several dimensions: where does Assumption 2 begin to hold?"""
    found, sizes = dict[int, Threshold | None](), parameters["sizes"]
    low, high = parameters["per_square"]
    for i, size in enumerate(sizes):
        progress(i / len(sizes), f"n = {size}")
        dimensions = np.unique(np.rint(size**2 * np.geomspace(low, high, 9)).astype(int))
        places = np.repeat(np.log(dimensions), parameters["draws"])
        rng = np.random.default_rng(parameters["seed"] + size)
        fails = [_fails(size, int(d), rng) for d in dimensions for _ in range(parameters["draws"])]
        found[size] = _in_dimensions(threshold(places, np.array(fails)))
    kept = {size: one for size, one in found.items() if one is not None}
    known = {size: gaussian_dimension(size, 1.0, 0.5) for size in kept}
    figure = Figure(
        "lemma3",
        "In which dimension Gaussian inputs interact weakly",
        (_lemma3_panel(kept, known),),
        "Labels ±1. Points: where half of the draws meet Assumption 2, with 95 % intervals.",
        columns=1,
    )
    return Findings((figure,), lemma3_claims(kept, known))


def _fails(size: int, dimension: int, rng: np.random.Generator) -> float:
    """Return 1 where Assumption 2 fails, for successes must become rarer."""
    inputs = rng.standard_normal((size, dimension)) / np.sqrt(dimension)
    return float(not interaction(Dataset(inputs, rng.choice([-1.0, 1.0], size))).holds)


def _in_dimensions(fit: Threshold | None) -> Threshold | None:
    """Return a threshold of ln d as one of d."""
    if fit is None:
        return None
    middle, low, high = np.exp([fit.middle, fit.low, fit.high]).tolist()
    return Threshold(middle, low, high, fit.width)


def _lemma3_panel(found: Mapping[int, Threshold], known: Mapping[int, int]) -> Panel:
    x = np.array(list(found), dtype=np.float64)
    middles = np.array([one.middle for one in found.values()])
    band = [one.low for one in found.values()], [one.high for one in found.values()]
    series = (
        Series(x, middles, "half of the draws", style="points", tone="blue", band=band),
        Series(x, middles[-1] * (x / x[-1]) ** 2, "∝ n²", style="dashed", tone="muted"),
        Series(x, list(known.values()), "known to do for half of them", style="dashed", tone="orange"),
    )
    return Panel(series, "", "n", "dimension d", "log", "log")


def lemma3_claims(found: Mapping[int, Threshold], known: Mapping[int, int]) -> tuple[Claim, ...]:
    """The dimension needed grows like n², and stays below what is proved to do."""
    power = Interval(np.nan, -np.inf, np.inf)
    if len(found) > 1:
        fit = exponent(np.array(list(found), dtype=float), list(found.values()))
        power = Interval(fit.value, fit.low, fit.high)
    spare = [known[size] / one.high for size, one in found.items()]
    listed = ", ".join(f"{one} (n = {size})" for size, one in found.items())
    return (
        Claim.that(
            "The dimension from which Assumption 2 holds grows like n²",
            "d ≥ C(n² + n ln(1/ε)) suffices (Lemma 3)",
            power,
            least=1.75,
            most=2.25,
            words=f"power of n {{}}; half of the draws at d = {listed}",
        ),
        Claim.that(
            "`gaussian_dimension` is enough",
            "Lemma 3, C ours",
            Interval.exact(min(spare, default=np.nan)),
            least=1.0,
            words="at least {} times the dimension that half of the draws need",
            ours=True,
        ),
    )


LEMMA5 = Experiment(
    "weak_interaction/lemma5",
    "How many neurons make a good start",
    "Lemma 5, App. A.1",
    scales(
        {"sizes": (10, 100, 1000, 10_000), "levels": 40, "most": 60, "sampled": 40, "dimension": 5},
        quick={"draws": 1000},
        paper={"draws": 20_000},
    ),
    run_lemma5,
    cost={"quick": 0.1, "paper": 1.8},
)
LEMMA4 = Experiment(
    "weak_interaction/lemma4",
    "The rate at the start is of order 1/n",
    "Lemma 4, App. A.5",
    scales(
        {"seed": 0},
        quick={"sizes": (10, 40), "widths": (25, 100, 400), "starts": 200, "wide": 20_000},
        paper={"sizes": (10, 100), "widths": (25, 100, 400, 1600, 6400), "starts": 1000, "wide": 40_000},
    ),
    run_lemma4,
    cost={"quick": 1.4, "paper": 85},
)
LEMMA3 = Experiment(
    "weak_interaction/lemma3",
    "In which dimension Gaussian inputs interact weakly",
    "Lemma 3, Corollary 1",
    scales(
        {"per_square": (1.0, 16.0), "seed": 0},
        quick={"sizes": (5, 8, 12, 18), "draws": 25},
        paper={"sizes": (5, 8, 12, 18, 27, 40), "draws": 100},
    ),
    run_lemma3,
    cost={"quick": 1.1, "paper": 15},
)
