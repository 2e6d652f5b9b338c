"""Which networks reach zero loss, and how fast: §3.2, App. B's stopping rule, (6) and (8)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.certificates.weak_interaction import theorem_1
from shallowflow.certificates.weak_interaction_rates import prop_1
from shallowflow.data.generators import sphere
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import axes, epochs, start
from shallowflow.landscape import correctly_activated, fair_activation_probability
from shallowflow.models import ReLUNetwork

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
