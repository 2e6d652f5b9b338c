"""Trainings in iterations and mean squared errors; ANLS beside five other methods (Figures 9 and 10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.baselines import adam, alternating_least_squares, least_squares_outer
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.models import KnotNetwork, SquareLoss, initialize
from shallowflow.readings.curves import plateaus

RATE = 1e-3
STEP = 2 * RATE
"""The step on ½·mean that equals the paper's rate on the mean squared error."""
LOSS = SquareLoss()
SKETCH = {"points": tuple(float(k) for k in range(10)), "knots": (1.5, 3.25, 3.75, 5.5, 8.5)}
"""Five knots among ten points, as in Figures 3 and 6: U_2 is empty and U_5 has one point."""
MOSTLY = 0.5
"""What is published of one start is asked of most: of more than this share."""


@dataclass(frozen=True)
class Training:
    """A training run: its iterations (k,), mean squared errors (k,), and networks on the way."""

    name: str
    iterations: Floats
    errors: Floats
    trajectory: Trajectory

    @property
    def final(self) -> KnotNetwork:
        """The network at the end."""
        return self.network(float(self.iterations[-1]))

    @property
    def plateaus(self) -> list[tuple[float, float]]:
        """The plateaus of the error that it leaves again, in iterations."""
        return plateaus_left(self.iterations[1:], self.errors[1:])

    def network(self, iteration: float) -> KnotNetwork:
        """Return the network at a recorded iteration."""
        times, iterations = self.trajectory.times, self.iterations
        return knots(self.trajectory(float(times[int(np.searchsorted(iterations, iteration))])))

    def series(self, tone: str = "auto") -> Series:
        """Return the error curve, from the first iteration on."""
        return Series(self.iterations[1:], self.errors[1:], self.name, tone=tone)

    def graph(self, name: str, tone: str) -> Series:
        """Return the graph of the network at the end on [−1, 1]."""
        x = np.linspace(-1.0, 1.0, 1001)
        return Series(x, self.final(x), name, tone=tone)


def plateaus_left(times: Floats, losses: Floats) -> list[tuple[float, float]]:
    """Return the plateaus of a curve but for one at its beginning: on a log axis every curve begins flat."""
    return [(first, last) for first, last in plateaus(times, losses) if first > times[0]]


def knots(network: object) -> KnotNetwork:
    """Return the network as what it is."""
    assert isinstance(network, KnotNetwork)
    return network


def start_of(parameters: Values) -> KnotNetwork:
    """Return the initial network: its width and its seed."""
    return initialize.he_knots(parameters["width"], seed=parameters["seed"])


def descend(dataset: Dataset, parameters: Values, progress: Callable[[float], None]) -> Training:
    """Train by gradient descent at the paper's rate."""
    trajectory = gradient_descent(
        start_of(parameters),
        dataset,
        step=STEP,
        steps=parameters["steps"],
        record=Record.geometric(parameters["points"]),
        progress=progress,
    )
    return Training("GD", trajectory.times / STEP, 2 * trajectory.losses, trajectory)


def flow(dataset: Dataset, parameters: Values) -> Training:
    """Follow the flow for as long as descent would take `flow_steps` steps: its limit for small steps."""
    until = STEP * parameters["flow_steps"]
    times = np.geomspace(STEP, until, parameters["points"])
    run = gradient_flow(start_of(parameters), dataset, until=until, record=Record.at(times))
    return Training("gradient flow", run.times / STEP, 2 * run.losses, run)


def anls(dataset: Dataset, parameters: Values, progress: Callable[[float], None] | None = None) -> Training:
    """Train by active neuron least squares."""
    trajectory = active_neuron_least_squares(start_of(parameters), dataset, loss=LOSS, progress=progress)
    return Training("ANLS", trajectory.times, 2 * trajectory.losses, trajectory)


def many_starts(parameters: Values) -> list[dict[str, int]]:
    """Return the parameters for the seeds 0, 1, …, `starts` − 1."""
    return [{**parameters, "seed": seed} for seed in range(parameters["starts"])]


def error_panel(series: tuple[Series, ...], title: str = "loss") -> Panel:
    """Return mean squared errors over iterations."""
    return Panel(series, title, "iterations", "mean squared error", "log", "log")


def share_claim(
    statement: str,
    published: str,
    outcomes: Sequence[bool],
    least: float = MOSTLY,
    *,
    reason: str = "",
    words: str = "",
    ours: bool = False,
) -> Claim:
    """Return the claim that at least so large a share of cases has a property; open without cases.

    reason: said unless it holds; words: what else was measured.
    """
    counted = sum(bool(one) for one in outcomes)
    if not outcomes:
        limit = f"below {least:g}"
        return Claim(statement, published, "no case seen", None, "nothing to judge by", limit, ours)
    text = f"{counted} of {len(outcomes)}, share {{}}{'; ' * bool(words)}{words}"
    found = Interval.of_share(counted, len(outcomes))
    claim = Claim.that(statement, published, found, least=least, words=text, ours=ours)
    return claim if claim.holds else replace(claim, reason=reason)


def undecided(claim: Claim, reason: str) -> Claim:
    """Return the claim as open: what was run is too short to tell."""
    return replace(claim, holds=None, reason=reason)


PUBLISHED = {"GD": 1e8, "Adam": 1e6, "LS/GD": 1e6, "LS/Adam": 1e6}
"""Iterations of Figure 9."""
TONES = {"ANLS": "orange", "GD": "blue", "Adam": "green", "LS/GD": "pink", "LS/Adam": "sky"}


def trained(name: str, dataset: Dataset, parameters: Values, show: Callable[[float], None]) -> Training:
    """Train the initial network by a method of §5.2; `parameters` have its number of steps."""
    if name == "ANLS":
        return anls(dataset, parameters, show)
    if name == "GD":
        return descend(dataset, parameters, show)
    start, steps, record = start_of(parameters), parameters["steps"], Record.geometric(parameters["points"])
    if name == "Adam":
        run = adam(start, dataset, step=RATE, steps=steps, record=record, progress=show)
    else:
        inner, step = ("gd", STEP) if name == "LS/GD" else ("adam", RATE)
        run = alternating_least_squares(
            start, dataset, inner=inner, step=step, steps=steps, record=record, progress=show
        )
    return Training(name, run.times, 2 * run.losses, run)


def train_all(dataset: Dataset, parameters: Values, progress: Progress) -> tuple[dict[str, Training], float]:
    """Train by every method; return also the error of LSQ."""
    runs = dict[str, Training]()
    for number, name in enumerate(TONES):

        def show(done: float, number: int = number, name: str = name) -> None:
            progress(0.19 * (number + done), name)

        show(0.0)
        runs[name] = trained(name, dataset, {**parameters, "steps": parameters["steps"].get(name)}, show)
    return runs, least_squares_error(dataset, parameters)


def least_squares_error(dataset: Dataset, parameters: Values) -> float:
    """Return the mean squared error of LSQ: the initial knots with their best outer weights."""
    best = least_squares_outer(start_of(parameters), dataset)
    return 2 * LOSS.value(best(dataset.inputs), dataset.targets)


@dataclass(frozen=True)
class Moves:
    """ANLS from one start: LSQ, mean squared errors move by move, error on 10,000 points, plateaus."""

    naive: float
    errors: Floats
    prediction: float
    plateaus: int


def anls_from(dataset: Dataset, target: str, parameters: Values) -> Moves:
    """Return how ANLS does from one start."""
    found = anls(dataset, parameters)
    prediction = prediction_error(found.final, target) ** 2
    return Moves(least_squares_error(dataset, parameters), found.errors, prediction, len(found.plateaus))


def prediction_error(network: KnotNetwork, target: str) -> float:
    """Return the root mean squared error on 10,000 equidistant points."""
    x = np.linspace(-1.0, 1.0, 10_000)
    return float(np.sqrt(np.mean((network(x) - CURVES[target](x)) ** 2)))


def loss_panel(runs: Mapping[str, Training], naive: float) -> Panel:
    """Return the errors of all methods over iterations, and that of LSQ."""
    ends = [1.0, max(run.iterations[-1] for run in runs.values())]
    curves = (run.series(TONES[name]) for name, run in runs.items())
    return error_panel((*curves, Series(ends, [naive, naive], "LSQ", style="dashed", tone="ink")))


def function_panel(
    name: str, runs: Mapping[str, Training], limits: tuple[float, float], near: float = 1.0
) -> Panel:
    """Return the trained networks beside the target on [−near, near]."""
    x = np.linspace(-near, near, 1001)
    target = Series(x, CURVES[name](x), "target", style="dashed", tone="muted")
    graphs = (Series(x, run.final(x), run.name, tone=TONES[run.name]) for run in runs.values())
    title = "trained networks" if near == 1 else "at the jump"
    return Panel((target, *graphs), title, "x", "f(x)", y_limits=limits)


def _error_panel(name: str, runs: Mapping[str, Training]) -> Panel:
    x = np.linspace(-1.0, 1.0, 1001)
    curves = (
        Series(x, np.abs(run.final(x) - CURVES[name](x)), run.name, tone=TONES[run.name])
        for run in runs.values()
    )
    return Panel(tuple(curves), "distance to the target", "x", "|f(x) − target|", y_scale="log")


def run_fig9(parameters: Values, progress: Progress) -> Findings:
    """Compare all methods on sin πx from several starts; ANLS also from many other initial networks."""
    dataset = curve("sin_pi", parameters["size"])
    races, cost = list[dict[str, Training]](), dict[str, float]()
    for seed in range(parameters["races"]):

        def show(done: float, doing: str, seed: int = seed) -> None:
            progress((seed + done) / (parameters["races"] + 1), doing)

        before = time.process_time()
        found, naive = train_all(dataset, {**parameters, "seed": seed}, show)
        races.append(found)
        cost["all"] = time.process_time() - before
        if seed == 0:
            runs, shown_naive = found, naive
    before = time.process_time()
    moves = [anls_from(dataset, "sin_pi", one) for one in many_starts(parameters)]
    cost["ANLS"] = (time.process_time() - before) / max(len(moves), 1)
    figures = (
        Figure(
            "fig9",
            "All methods on sin πx, ten neurons",
            (loss_panel(runs, shown_naive), function_panel("sin_pi", runs, (-1.3, 1.3))),
        ),
        Figure(
            "fig9_errors", "The trained networks beside sin πx", (_error_panel("sin_pi", runs),), columns=1
        ),
    )
    return Findings(figures, fig9_claims(moves, [Arrivals.of(race) for race in races], cost))


@dataclass(frozen=True)
class Arrivals:
    """For each other method the iteration at which it has ANLS's error (∞: not), and its plateaus."""

    reached: Mapping[str, float]
    within: Mapping[str, float]
    plateaus: Mapping[str, int]

    @classmethod
    def of(cls, race: Mapping[str, Training]) -> Arrivals:
        """Return them of runs from one start."""
        goal, reached = race["ANLS"].errors[-1], dict[str, float]()
        others = {name: run for name, run in race.items() if name != "ANLS"}
        for name, run in others.items():
            hits = np.flatnonzero(run.errors <= goal)
            reached[name] = float(run.iterations[hits[0]]) if hits.size else np.inf
        within = {name: float(run.iterations[-1]) for name, run in others.items()}
        return cls(reached, within, {name: len(run.plateaus) for name, run in others.items()})


def fig9_claims(
    moves: Sequence[Moves], races: Sequence[Arrivals], cost: Mapping[str, float]
) -> tuple[Claim, ...]:
    """Return the claims about ANLS from many starts, and about the other methods from some of them.

    cost: CPU seconds of all methods and of ANLS from one start.
    """
    ends = np.array([one.errors[-1] for one in moves])
    late = [(race.reached[name], race.within[name]) for race in races for name in race.reached]
    missing = sum(not np.isfinite(when) for when, _ in late)
    seconds = f"CPU per start: ANLS {cost['ANLS']:.2g} s, all methods {cost['all']:.2g} s"
    return (
        share_claim(
            "ANLS ends far below LSQ: less than a fifth of its error",
            "much smaller",
            [one.errors[-1] < 0.2 * one.naive for one in moves],
        ),
        share_claim(
            "ANLS reaches a loss of 10⁻⁴ within 100 iterations (2·10⁻⁴ counts)",
            "10⁻⁴",
            [one.errors[min(100, len(one.errors) - 1)] <= 2e-4 for one in moves],
            words=f"median at the end {np.median(ends):.1g}, best tenth {np.quantile(ends, 0.1):.1g}",
            reason="the published value is that of a lucky initial network",
        ),
        share_claim(
            "Every other method needs at least 10,000 iterations for ANLS's loss (method × start)",
            "≥ 10,000",
            [when >= 10_000 for when, _ in late],
            words=f"{missing} of {len(late)} never had it; {seconds}",
        ),
        share_claim(
            "ANLS does not stagnate: no plateau that it leaves again",
            "no stagnated stages",
            [one.plateaus == 0 for one in moves],
        ),
        _several(races),
        share_claim(
            "ANLS generalises: its error on 10,000 points is at most twice that on the data",
            "approximates the target very well",
            [one.prediction <= 2 * one.errors[-1] for one in moves],
        ),
    )


def _several(races: Sequence[Arrivals]) -> Claim:
    claim = share_claim(
        "The gradient-based methods have several plateaus each (method × start)",
        "multiple ones",
        [count >= 2 for race in races for count in race.plateaus.values()],
        reason="of the plateaus that are left again there is mostly one, or none",
    )
    short = any(race.within[name] < PUBLISHED[name] for race in races for name in race.within)
    if short and claim.holds is False:
        return undecided(claim, "runs shorter than the published ones may leave plateaus later (paper scale)")
    return claim


_SINE = {"width": 10, "size": 100, "points": 300, "seed": 0}


def steps_of(*steps: int) -> dict[str, int]:
    """Return numbers of steps by method."""
    return dict(zip(("GD", "Adam", "LS/GD", "LS/Adam"), steps, strict=True))


FIG9 = Experiment(
    "plateau/fig9",
    "Six ways to train ten neurons on sin πx",
    "Figure 9, §5.2",
    scales(
        _SINE,
        quick={"starts": 50, "races": 3, "steps": steps_of(1_000_000, 100_000, 20_000, 20_000)},
        paper={"starts": 300, "races": 3, "steps": steps_of(100_000_000, 1_000_000, 1_000_000, 1_000_000)},
    ),
    run_fig9,
    cost={"quick": 8.8, "paper": 350},
)


@dataclass(frozen=True)
class Hybrid:
    """LS/GD or LS/Adam on f₂ from one start.

    error: mean squared, after 10,000 iterations; predictions (k,): errors on 10,000 points at iterations
    (k,); spike: how far f leaves the target's range within 0.02 of the jump; plateaus: that are left again.
    """

    error: float
    iterations: Floats
    predictions: Floats
    spike: float
    plateaus: int

    @property
    def rise(self) -> float:
        """The largest factor by which the prediction error rises between iterations 50 and 1,000."""
        inside = self.predictions[(self.iterations >= 50) & (self.iterations <= 1000)]
        lowest = np.minimum.accumulate(inside) if inside.size else np.ones(1)
        return float(np.max(inside / lowest)) if inside.size else 1.0

    @property
    def jump(self) -> float:
        """The largest factor between the prediction errors of two records."""
        return float(np.exp(np.max(np.abs(np.diff(np.log(self.predictions[1:]))), initial=0.0)))


def hybrid(run: Training) -> Hybrid:
    """Return how a run of LS/GD or LS/Adam on f₂ does."""
    until = run.iterations <= 1e4
    predictions = [prediction_error(run.network(k), "jump") for k in run.iterations]
    near = np.linspace(-0.02, 0.02, 2001)
    values, target = run.final(near), CURVES["jump"](near)
    spike = float(max(values.max() - target.max(), target.min() - values.min()))
    error = float(run.errors[until][-1])
    return Hybrid(error, run.iterations, np.array(predictions), spike, len(run.plateaus))


@dataclass(frozen=True)
class Finish:
    """How descent or Adam ends: mean squared error, after how many iterations, prediction error, plateaus."""

    error: float
    iterations: float
    prediction: float
    plateaus: int


def run_fig10(parameters: Values, progress: Progress) -> Findings:
    """Compare all methods on the discontinuous target f₂."""
    dataset = curve("jump", parameters["size"], sampling="random", seed=parameters["seed"])
    runs, naive = train_all(dataset, parameters, lambda done, doing: progress(0.5 * done, doing))
    progress(0.5, "prediction errors")
    curves = tuple(
        Series(
            run.iterations[1:],
            [prediction_error(run.network(k), "jump") for k in run.iterations[1:]],
            name,
            tone=TONES[name],
        )
        for name, run in runs.items()
    )
    title, label = "prediction error on 10,000 points", "root mean squared error"
    panels = (
        loss_panel(runs, naive),
        Panel(curves, title, "iterations", label, "log", "log"),
        function_panel("jump", runs, (-0.8, 1.8)),
        function_panel("jump", runs, (-1.5, 3.0), near=0.03),
    )
    hybrids: dict[str, list[Hybrid]] = {"LS/GD": [], "LS/Adam": []}
    starts = {**parameters, "starts": parameters["races"]}
    for number, one in enumerate(many_starts(starts)):
        for name, found in hybrids.items():
            progress(0.5 + 0.4 * number / parameters["races"], f"{name}, start {number}")
            chosen = {**one, "steps": parameters["steps"][name]}
            found.append(hybrid(trained(name, dataset, chosen, lambda done: None)))
    moves = [anls_from(dataset, "jump", one) for one in many_starts(parameters)]
    finishes = {
        name: Finish(
            float(runs[name].errors[-1]),
            float(runs[name].iterations[-1]),
            prediction_error(runs[name].final, "jump"),
            len(runs[name].plateaus),
        )
        for name in ("GD", "Adam")
    }
    figure = Figure("fig10", "All methods on the discontinuous f₂, 300 neurons", panels)
    return Findings((figure,), fig10_claims(moves, hybrids, finishes))


def fig10_claims(
    moves: Sequence[Moves], hybrids: Mapping[str, Sequence[Hybrid]], finishes: Mapping[str, Finish]
) -> tuple[Claim, ...]:
    """Return the claims about ANLS, the hybrid methods from several starts, descent and Adam from one."""
    early = np.array([one.errors[min(100, len(one.errors) - 1)] for one in moves])
    low, middle, high = np.quantile(early, [0.25, 0.5, 0.75])
    least_squares = [one.naive for one in moves]
    first, second = hybrids["LS/GD"], hybrids["LS/Adam"]
    return (
        share_claim(
            "ANLS reaches about 3·10⁻⁵ after about 100 iterations (10⁻⁵ to 10⁻⁴)",
            "3·10⁻⁵",
            [1e-5 <= error <= 1e-4 for error in early],
            words=f"median {middle:.1e}, quartiles {low:.1e} to {high:.1e}",
        ),
        share_claim(
            "LSQ has about 10⁻³ (3·10⁻⁴ to 3·10⁻³)",
            "10⁻³",
            [3e-4 <= error <= 3e-3 for error in least_squares],
            words=f"median {np.median(least_squares):.1e}",
            reason="depends on the start",
        ),
        _late(
            "GD is merely above 10⁻² after 5 million iterations (to 3·10⁻²)",
            "> 10⁻² after 5·10⁶",
            finishes["GD"],
            5e6,
            (1e-2, 3e-2),
        ),
        _late(
            "Adam has about 2·10⁻³ after a million iterations (10⁻³ to 4·10⁻³)",
            "2·10⁻³ after 10⁶",
            finishes["Adam"],
            1e6,
            (1e-3, 4e-3),
        ),
        share_claim(
            "LS/GD comes to the level of ANLS at around 10,000 iterations (10⁻⁵ to 10⁻⁴)",
            "about 3·10⁻⁵ at 10⁴",
            [1e-5 <= one.error <= 1e-4 for one in first],
            words=f"median {np.median([one.error for one in first]):.1e}",
        ),
        share_claim(
            "ANLS predicts better than LS/GD from the same start, at a similar training loss",
            "smaller prediction error",
            [np.sqrt(move.prediction) < one.predictions[-1] for move, one in zip(moves, first, strict=False)],
        ),
        _best(moves, finishes),
        *_trouble(first, second),
        _multiple(first),
        share_claim(
            "ANLS has no plateau that it leaves again",
            "no long plateaus",
            [one.plateaus == 0 for one in moves],
        ),
    )


def _trouble(first: Sequence[Hybrid], second: Sequence[Hybrid]) -> tuple[Claim, ...]:
    """Return what is said against LS/GD and LS/Adam: spikes, rises, jumps."""
    return (
        share_claim(
            "LS/GD and LS/Adam have a spike at 0: f leaves the target's range by a quarter within 0.02",
            "an artificial spike around x = 0",
            [one.spike > 0.25 for one in (*first, *second)],
            words=f"medians {np.median([one.spike for one in first]):.2g}, "
            f"{np.median([one.spike for one in second]):.2g}",
            reason="depends on the data next to the jump and on the start; the paper's are unknown",
        ),
        share_claim(
            "The prediction error of LS/GD rises at around 200 iterations: by half, between 50 and 1,000",
            "increases rapidly at around 200 iterations",
            [one.rise > 1.5 for one in first],
            words=f"median factor {np.median([one.rise for one in first]):.2g}",
            reason="not on this sample, from none of these starts; the paper's sample is unknown",
        ),
        share_claim(
            "LS/Adam is unstable: its prediction error jumps by more than a factor 2 between records",
            "huge jumps",
            [one.jump > 2 for one in second],
            words=f"median factor {np.median([one.jump for one in second]):.2g}",
        ),
    )


def _multiple(found: Sequence[Hybrid]) -> Claim:
    claim = share_claim(
        "LS/GD has multiple plateaus: two or more that are left again",
        "multiple plateaus",
        [one.plateaus >= 2 for one in found],
        reason="most starts have one or none that is left again in so many iterations",
    )
    short = any(one.iterations[-1] < 1e5 for one in found)
    return undecided(claim, "100,000 iterations decide (paper scale)") if short and not claim.holds else claim


def _late(statement: str, published: str, found: Finish, needed: float, limits: tuple[float, float]) -> Claim:
    """Return a claim about an error after many iterations; open if fewer were made."""
    least, most = limits
    words = f"{{}} after {found.iterations:,.0f} iterations"
    claim = Claim.that(statement, published, Interval.exact(found.error), least=least, most=most, words=words)
    early = found.iterations < needed
    return undecided(claim, f"{needed:,.0f} iterations decide (paper scale)") if early else claim


def _best(moves: Sequence[Moves], finishes: Mapping[str, Finish]) -> Claim:
    """Return the claim that ANLS predicts better than descent and Adam did in the end."""
    best = min(one.prediction for one in finishes.values())
    claim = share_claim(
        "ANLS predicts better than GD and Adam",
        "smallest error by ANLS",
        [np.sqrt(move.prediction) < best for move in moves],
        words=", ".join(f"{name} {one.prediction:.2g}" for name, one in finishes.items()),
    )
    early = finishes["GD"].iterations < 5e6 or finishes["Adam"].iterations < 1e6
    if early and claim.holds:
        return undecided(claim, "GD and Adam go on to 5·10⁶ and 10⁶ iterations (paper scale)")
    return claim


_JUMP = {"width": 300, "size": 1000, "points": 200, "starts": 30, "races": 8, "seed": 0}

FIG10 = Experiment(
    "plateau/fig10",
    "Six ways to train 300 neurons on a discontinuous target",
    "Figure 10, §5.2",
    scales(
        _JUMP,
        quick={"steps": steps_of(200_000, 20_000, 10_000, 10_000)},
        paper={"steps": steps_of(5_000_000, 1_000_000, 100_000, 100_000)},
    ),
    run_fig10,
    cost={"quick": 29, "paper": 240},
)
