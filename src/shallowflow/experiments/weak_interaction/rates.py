"""Which networks reach zero loss, and how fast.

**Measured**: §3.2, App. B's stopping rule, (6) and (8).

**Groups in closed form**, Figure 1 and §4: two steps of the loss, and the rate between 1/n and 1/√n. Figure 1
has two groups, several n and n = ∞: the loss falls in two steps that sharpen slowly. `rates` has the
curvature μ: of order 1/n at the start, of order n^−α at the end for groups of n^(2(1 − α)) samples, and of
order 1/√n after a transition of relative length 1/ln n if there is one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.certificates.weak_interaction import theorem_1
from shallowflow.certificates.weak_interaction_rates import prop_1
from shallowflow.data.generators import sphere
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import axes, epochs, start
from shallowflow.landscape import correctly_activated, fair_activation_probability
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow
from shallowflow.models import ReLUNetwork
from shallowflow.readings.curves import falls, log_slope

FITTED = 0.01
"""A sample with a residual below this part of its label counts as fitted."""
LONGER = 40
"""Times the epochs of App. B, for what must have come to its end."""
SMALL = 0.1
"""Factor on the inner weights of runs that must pass Lemma 7's extinction before they learn."""


class Samples(NamedTuple):
    """Networks on orthogonal inputs, (networks, n) each: good start for the sample, residual over label."""

    good: Floats
    residuals: Floats

    @property
    def agree(self) -> int:
        """In how many networks exactly the samples with a good neuron are fitted."""
        return int(np.sum(np.all((self.good > 0) == (self.residuals < FITTED), axis=1)))


class Bounds(NamedTuple):
    """μ along runs over the lower bound (6), the smallest quotient of each run, and over (8), the largest.

    undecided: runs in which a hypothesis of Prop. 1 does not hold.
    """

    lower: Floats
    upper: Floats
    undecided: int


def run_converges(parameters: Values, progress: Progress) -> Findings:
    """Train networks on orthogonal inputs to their end; train others on beyond the stopping rule."""
    samples = _samples(parameters)
    progress(0.4, "beyond the stopping rule")
    gone_on = [end for seed in range(parameters["stopped"]) if (end := _beyond(parameters, seed)) is not None]
    progress(0.8, "bounds along runs")
    bounds = _bounds(parameters)
    claims = (
        event_claim(samples, parameters["width"]),
        stopping_claim(np.array(gone_on)),
        *bound_claims(bounds),
    )
    return Findings((_figure(samples, bounds),), claims)


def _samples(parameters: Values) -> Samples:
    size, width = parameters["size"], parameters["width"]
    good, residuals = list[Floats](), list[Floats]()
    for seed in range(parameters["networks"]):
        rng = np.random.default_rng(seed)
        dataset = axes(size, size, rng)
        network = start("printed", width, size, rng)
        run = gradient_descent(
            network,
            dataset,
            step=float(width),
            steps=LONGER * epochs(size, width),
            record=Record.geometric(2, networks=False),
        )
        good.append(correctly_activated(network, dataset).astype(np.float64))
        residuals.append(np.abs(1 - run.final.predict(dataset.inputs) / dataset.targets))
    return Samples(np.array(good), np.array(residuals))


def _beyond(parameters: Values, seed: int) -> float | None:
    """Return Σr² long after it has fallen below (C_y^−)² = 1, for a network for which it does."""
    rng = np.random.default_rng(seed)
    size, width = parameters["points"], parameters["wider"]
    dataset = sphere(size, parameters["dimension"], seed=rng)
    network: ReLUNetwork = start("printed", width, parameters["dimension"], rng)
    for factor, level in ((4, 1.0), (LONGER, parameters["zero"])):
        run = gradient_descent(
            network,
            dataset,
            step=float(width),
            steps=factor * epochs(size, width),
            record=Record.every(100, networks=False),
            stop_below=0.5 * level / size,
        )
        assert isinstance(run.final, ReLUNetwork)
        network = run.final
        if level == 1.0 and run.outcome.status != "converged":
            return None
    return float(2 * size * run.losses[-1])


def _bounds(parameters: Values) -> Bounds:
    lower, upper, undecided = list[float](), list[float](), 0
    for seed in range(parameters["watched"]):
        rng = np.random.default_rng(seed)
        width, size = parameters["width"], parameters["size"]
        dataset = axes(size, 2 * size, rng)
        drawn = start("printed", width, dataset.dimension, rng)
        network = ReLUNetwork(SMALL * drawn.inner, np.sign(drawn.outer), scale=drawn.scale)
        if not correctly_activated(network, dataset).all():
            continue
        run = gradient_descent(
            network, dataset, step=0.05 * width, steps=parameters["steps"], record=Record.every(100)
        )
        first, second = theorem_1(network, dataset, run), prop_1(network, dataset, run)
        found = first.promises[1].observed, second.promises[2].observed
        if not second.holds or None in found:
            undecided += 1
            continue
        lower.append(found[0] or 0.0)
        upper.append(found[1] or 0.0)
    return Bounds(np.array(lower), np.array(upper), undecided)


def event_claim(found: Samples, width: int) -> Claim:
    """§3.2: a residual goes to zero if and only if its sample has a good neuron at the start."""
    networks, size = found.good.shape
    share = np.mean(np.all(found.good > 0, axis=1))
    exact = fair_activation_probability(width, size)
    return Claim.that(
        "On orthogonal inputs r_i goes to zero if and only if a neuron is active on x_i with the sign of y_i",
        "if and only if (§3.2)",
        Interval.of_share(found.agree, networks),
        least=0.95,
        words=f"share of networks in which this is so for every sample {{}}; {share:.3f} of the starts are "
        f"good for all samples, exactly P(𝓘) = {exact:.3f}",
    )


def stopping_claim(ends: Floats) -> Claim:
    """App. B: what falls below the level goes to zero."""
    fitted = int(np.sum(ends < 1e-6))
    return Claim.that(
        "A network whose loss has fallen below (C_y^−)²/2n goes on to zero",
        "guarantees convergence to 0 (App. B; the print has C_y^−)",
        Interval.of_share(fitted, len(ends)) if len(ends) else Interval(0.0, 0.0, 1.0),
        least=0.9,
        words=f"share {{}} of {len(ends)} networks reach Σr² < 1e-6",
    )


def bound_claims(found: Bounds) -> tuple[Claim, ...]:
    """(6) and (8) with their constants, along runs that meet the hypotheses."""
    count = len(found.lower)
    unknown = Interval(np.nan, -np.inf, np.inf)
    undecided = f"; {found.undecided} runs do not meet Prop. 1's hypotheses"
    return (
        Claim.that(
            "(6): μ(t) ≥ ((2 − √2)C/n) min |1 − r_i/y_i| along runs",
            "for any t ≥ 0 (Theorem 1)",
            Interval.exact(found.lower.min()) if count else unknown,
            least=1.0,
            words=f"smallest quotient {{}} over {count} runs",
        ),
        Claim.that(
            "(8): μ(t) ≤ C₁√(m/n) max |1 − r_i/y_i| + C₂/n along runs",
            "for t ≥ Cn (Prop. 1)",
            Interval.exact(found.upper.max()) if count else unknown,
            most=1.0,
            words=f"largest quotient {{}} over {count} runs{undecided}",
        ),
    )


def _figure(found: Samples, bounds: Bounds) -> Figure:
    ordered = np.sort(np.maximum(found.residuals.ravel(), 1e-16))
    good = found.good.ravel()[np.argsort(found.residuals.ravel(), kind="stable")] > 0
    place = np.arange(len(ordered)) / len(ordered)
    residuals = (
        Series(place[good], ordered[good], "with a good neuron", style="points", tone="blue"),
        Series(place[~good], ordered[~good], "without", style="points", tone="orange"),
    )
    numbers = np.arange(len(bounds.lower))
    quotients = (
        Series(numbers, bounds.lower, "smallest μ over (6)", style="points", tone="blue"),
        Series(numbers, bounds.upper, "largest μ over (8)", style="points", tone="orange"),
        Series([0, max(len(numbers) - 1, 1)], [1.0, 1.0], style="dashed", tone="muted"),
    )
    return Figure(
        "converges",
        "A sample is fitted if and only if it has a good neuron; how loose the bounds on the rate are",
        (
            Panel(residuals, "at the end", "samples, by residual", "|r_i / y_i|", y_scale="log"),
            Panel(quotients, "along runs", "run", "quotient", y_scale="log"),
        ),
        "Left: all samples of all networks on orthogonal inputs. Right: blue stays above 1, orange below.",
    )


CONVERGES = Experiment(
    "weak_interaction/converges",
    "Which networks reach zero loss, and how fast",
    "§3.2, (6), (8), App. B",
    scales(
        {"size": 20, "width": 14, "points": 100, "dimension": 20, "wider": 35, "zero": 1e-12, "steps": 6000},
        quick={"networks": 150, "stopped": 40, "watched": 20},
        paper={"networks": 1000, "stopped": 200, "watched": 100},
    ),
    run_converges,
    cost={"quick": 3.8, "paper": 28},
)


LABELS = (1.0, 2.0)
PART = 0.25
"""ε of Theorem 2: a transition lasts from this part to 1 − this part, of the loss as of the rate."""
HALF_ORDER = 0.25
"""1/n and 1/√n differ by an order of ½: so far from one, the other is as near. Orders are those between the
two largest n: they are statements about n → ∞, and the closed form has no noise."""
TONES = ("sky", "blue", "green", "orange", "pink", "red")


def _power(size: float) -> str:
    """Return n as a power of ten."""
    return f"n = 10^{np.log10(size):.0f}"


def _flow(size: float, alignment: float) -> GroupFlow:
    return GroupFlow(size, LABELS, [alignment] * 2, [1.0, 1.0])


class Steps(NamedTuple):
    """Of Figure 1's loss at the smallest and the largest n.

    errors: of the transition times, relative; numbers: of steps; window: its length times ln(nm) at the
    largest n, for ε = ¼ and D = 1; corrected: the leading term of ours.
    """

    sizes: tuple[float, float]
    errors: tuple[float, float]
    numbers: tuple[int, int]
    window: float
    corrected: float


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Evaluate the closed form for every n, beside its limit."""
    sizes, alignment = parameters["sizes"], parameters["alignment"]
    flows = [_flow(size, alignment) for size in sizes]
    ends = flows[0], flows[-1]
    limits = flows[-1].limit_transitions
    errors = [
        float(np.max(np.abs(flow.transition_times(0.5) / flow.unit - limits) / limits)) for flow in ends
    ]
    times = np.linspace(0.0, 1.5, 3000)
    numbers = [falls(times, flow.loss(times * flow.unit)) for flow in ends]
    logarithm = np.log(2 * sizes[-1])
    window, corrected = (
        float(found[0] * logarithm) for found in (flows[-1].windows(PART), flows[-1].limit_windows(PART))
    )
    found = Steps((sizes[0], sizes[-1]), (errors[0], errors[1]), (numbers[0], numbers[1]), window, corrected)
    return Findings(_fig1_figures(sizes, flows, parameters["turned"]), step_claims(found))


def step_claims(found: Steps) -> tuple[Claim, ...]:
    """Theorem 2: where the transitions lie, how many there are, and how long one takes."""
    small, large = (_power(size) for size in found.sizes)
    printed = float(np.log((1 - 0.5) / (2 - 0.5) * (2 - 0.75**0.5) / (1 - 0.75**0.5)) / 2)
    first, last = found.numbers
    return (
        Claim.that(
            "L_∞ is constant by parts, with one transition per group at 1/‖D_j‖ (Theorem 2)",
            "transitions at 1 and ½ in units of t_n",
            Interval.exact(found.errors[1] if found.errors[1] < found.errors[0] else np.inf),
            most=0.05,
            words=f"largest relative error {{}} at {large}, {found.errors[0]:.2f} at {small}",
            reason="the convergence is logarithmic in n",
        ),
        Claim(
            "Two phase transitions are visible only in very high dimension",
            "two steps of the loss curve",
            f"{last} steps at {large}, {first} at {small}",
            last == 2 and first == 1,
            "the window of a transition shrinks like 1/ln n only",
            fails_if=f"unless there are two steps at {large} and one at {small}",
        ),
        Claim.that(
            "The window of a transition is ln C(ε)/(2‖D‖ ln n) (12)",
            f"{printed:.3f} for ε = ¼, D = 1, times 1/ln n",
            Interval.exact(found.window),
            least=0.95 * printed,
            most=1.05 * printed,
            words=f"{{}} at {large}; the corrected (2/D) ln C(ε) is {found.corrected:.3f}",
            reason="slips in (71), where ψ lost a factor ‖D‖, and in (73), where 1/(c t_n) is 2/(‖D‖ ln n)",
        ),
    )


def _fig1_figures(sizes: tuple[float, ...], flows: list[GroupFlow], turned: float) -> tuple[Figure, ...]:
    """Return the paper's panel, and ours: a start that is not aligned, and where the transitions lie."""
    times = np.linspace(0.0, 1.75, 1200)

    def losses(alignment: float) -> tuple[Series, ...]:
        curves = [
            Series(times, flow.loss(times * flow.unit), _power(size), tone=tone)
            for size, flow, tone in zip(sizes, (_flow(n, alignment) for n in sizes), TONES, strict=False)
        ]
        limit = Series(times, flows[-1].limit_loss(times), "n = ∞", style="steps", tone="ink")
        return (*curves, limit)

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
    aligned = float(flows[0].alignments[0])
    title = "transition times, from ¾ to ¼ of D²/2"
    return (
        Figure(
            "fig1",
            "Two groups: the loss in units of t_n",
            (Panel(losses(aligned), "", "t / t_n", "L_n(t)"),),
            f"The closed form for several n, and its limit; g(0) = {aligned:g}.",
            columns=1,
        ),
        Figure(
            "fig1-more",
            "Two groups that are not aligned at the start, and where the transitions lie",
            (
                Panel(losses(turned), f"g(0) = {turned:g}", "t / t_n", "L_n(t)"),
                Panel((*bands, *targets), title, "log₁₀ n", "t / t_n"),
            ),
            "Left: by the corrected (53) to (55), which differ from the print unless g(0) = 1. Right: "
            "transitions approach 1/D like 1/ln n.",
        ),
    )


class Rates(NamedTuple):
    """The curvature μ of one group by n (k,): at the start, at the end, and the transition between.

    last: the largest μ, which ends the transition; window: from `PART` to 1 − `PART` of it, in units of t_n;
    slopes: of ln μ at the end over ln n, by α.
    """

    sizes: Floats
    first: Floats
    last: Floats
    window: Floats
    slopes: Mapping[float, float]


def run_rates(parameters: Values, progress: Progress) -> Findings:
    """Evaluate the curvature of groups: over time for one of them, at the end for several sizes."""
    sizes, times = np.array(parameters["sizes"]), np.linspace(0.0, 3.0, 6001)
    flows = [GroupFlow(size, [1.0], [parameters["alignment"]], [1.0]) for size in sizes]
    curves = np.array([flow.curvature(flow.unit * times) for flow in flows])
    tops = curves.max(axis=1)
    rises = [curve[: 1 + int(curve.argmax())] / curve.max() for curve in curves]
    window = np.array(
        [float(np.diff(np.interp((PART, 1 - PART), rise, times[: len(rise)]))[0]) for rise in rises]
    )
    progress(0.5, "exponents")
    by_alpha = {alpha: _ends(alpha, parameters) for alpha in parameters["exponents"]}
    grouped = np.array(parameters["grouped"])
    slopes = {alpha: log_slope(grouped[-2:], found[-2:]) for alpha, found in by_alpha.items()}
    found = Rates(sizes, curves[:, 0], tops, window, slopes)
    return Findings((_rates_figure(found, times, curves, by_alpha, parameters),), rate_claims(found))


def _ends(alpha: float, parameters: Values) -> Floats:
    """Return μ at the end, for groups of n^(2(1 − α)) samples with random labels, by n."""
    found = []
    for size in parameters["grouped"]:
        groups = max(round(size ** (2 * alpha - 1)), 1)
        rng = np.random.default_rng(parameters["seed"])
        labels, norms = rng.uniform(1.0, 2.0, groups), rng.uniform(0.5, 2.0, groups)
        flow = GroupFlow(float(size), labels, np.full(groups, parameters["alignment"]), norms)
        found.append(float(flow.curvature(parameters["late"] * flow.unit)))
    return np.array(found)


def rate_claims(found: Rates) -> tuple[Claim, ...]:
    """Orders of μ at the start, at the end, for several groups, and of the transition's length."""
    off = max(abs(slope + alpha) for alpha, slope in found.slopes.items())
    listed = ", ".join(f"{slope:.3f} (α = {alpha:g})" for alpha, slope in found.slopes.items())
    nearest = 0.5 * float(np.min(np.diff(sorted(found.slopes))))
    largest = found.sizes[-2:]
    return (
        Claim.that(
            "At the start the rate is of order 1/n",
            "of the order 1/n (Lemma 4, abstract)",
            Interval.exact(log_slope(largest, found.first[-2:])),
            least=-1 - HALF_ORDER,
            most=-1 + HALF_ORDER,
            words="power of n {}",
        ),
        Claim.that(
            "With a single group it rises to the order 1/√n",
            "asymptotic speed of order 1/√n (Prop. 2)",
            Interval.exact(log_slope(largest, found.last[-2:])),
            least=-0.5 - HALF_ORDER,
            most=-0.5 + HALF_ORDER,
            words="power of n {}",
        ),
        Claim.that(
            "It evolves from the one to the other in a relative time of order 1/ln n",
            "of order 1/log(n) (abstract)",
            Interval.exact(log_slope(np.log(largest), found.window[-2:])),
            least=-1 - HALF_ORDER,
            most=-1 + HALF_ORDER,
            words=f"length ∝ (ln n)^{{}}; {found.window[0]:.2f} t_n at "
            f"{_power(found.sizes[0])}, {found.window[-1]:.3f} at {_power(found.sizes[-1])}",
        ),
        Claim.that(
            "With groups of n^(2(1 − α)) samples it ends at the order n^−α, for any α from ½ to 1",
            "K₁/n^α ≤ μ ≤ K₂/n^α (Prop. 2)",
            Interval.exact(off),
            most=nearest,
            words=f"powers {listed}; the largest is off by {{}} (half the distance of two α: {nearest:.2g})",
        ),
    )


def _rates_figure(
    found: Rates, times: Floats, curves: Floats, by_alpha: Mapping[float, Floats], parameters: Values
) -> Figure:
    course = tuple(
        Series(times, np.sqrt(size) * curve, _power(size), tone=tone)
        for size, curve, tone in zip(found.sizes, curves, TONES, strict=False)
    )
    sizes = np.array(parameters["grouped"], dtype=np.float64)
    ends = []
    for (alpha, values), tone in zip(by_alpha.items(), TONES, strict=False):
        label = f"α = {alpha:g}: power {found.slopes[alpha]:.2f}".replace("-", "−")
        ends.append(Series(sizes, values, label, style="points", tone=tone))
        ends.append(Series(sizes, values[0] * (sizes / sizes[0]) ** -alpha, style="dashed", tone=tone))
    return Figure(
        "rates",
        "The rate of convergence: from 1/n to 1/√n",
        (
            Panel(course, "one group", "t / t_n", "√n μ(t)", marks=((1.0, "1/D"),)),
            Panel(tuple(ends), "groups of n^(2(1 − α)) samples", "n", "μ at the end", "log", "log"),
        ),
        f"Closed form, g(0) = {parameters['alignment']:g}. Left: √n μ tends to a step, n μ(0) is the same "
        "for all n (from about 2 t_n on, what is not aligned yet rules the loss; √n μ falls to 2). Right: "
        f"at {parameters['late']:g} t_n; dashed: n^−α.",
    )


FIG1 = Experiment(
    "weak_interaction/fig1",
    "Group initialisation: two phase transitions",
    "Figure 1, §4.2, Theorem 2",
    scales({"sizes": (1e2, 1e4, 1e8, 1e20, 1e100), "alignment": 1.0, "turned": 0.5}),
    run_fig1,
    cost={"quick": 1.2, "paper": 1.2},
)
RATES = Experiment(
    "weak_interaction/rates",
    "The rate of convergence goes from 1/n to 1/√n",
    "§4, Lemma 4, Proposition 2, abstract",
    scales(
        {
            "sizes": (1e2, 1e4, 1e8, 1e16, 1e30, 1e60),
            "alignment": 0.8,
            "exponents": (0.5, 0.6, 0.75, 0.9, 1.0),
            "late": 8.0,
            "seed": 0,
        },
        quick={"grouped": (256, 1024, 4096, 16384)},
        paper={"grouped": (256, 1024, 4096, 16384, 65536, 262144)},
    ),
    run_rates,
    cost={"quick": 0.12, "paper": 0.16},
)
