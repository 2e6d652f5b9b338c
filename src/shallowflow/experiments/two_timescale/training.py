"""The two readings of the experiments of [two_timescale], as printed and as run; and drawings of its example.

**Readings.** One training in one dimension, by SGD or by the exact flow, and the numbers that its end is
judged by.

**Figures 1, 2 and 7**, drawn from data: the notation, the limit on its way, two phases at a jump.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.data import PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import stochastic_descent
from shallowflow.dynamics.flow import population_flow, two_timescale_limit
from shallowflow.dynamics.heaviside import hitting_times
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import best_outer, jump_distances, population_loss
from shallowflow.landscape.two_timescale.step_classes import beside_jumps, fewest_per_piece
from shallowflow.models import Network, StepNetwork, initialize
from shallowflow.readings.phases import Arrival, arrivals

SHARES = np.unique(np.concatenate([np.geomspace(1e-4, 1.0, 60), np.linspace(0.0, 1.0, 101)]))
"""When curves are recorded, as shares of the run."""
COMMON = {"width": 20, "sharpness": 4e-3, "noise": 1.0}
_SLOW = {**COMMON, "epsilon": 2e-5}
TWO_TIMESCALE = {
    "quick": {**_SLOW, "step": 1e-4, "steps": {"printed": 18_000_000, "authors": 17_500_000}},
    "paper": {**_SLOW, "step": 1e-5, "steps": {"printed": 180_000_000, "authors": 175_000_000}},
}
"""Table 1, for figures 3 and 4."""
MOST_LINES = 50
"""More neurons are shown by short lines: they would hide the functions."""
JUMPS = (0.2, 0.35, 0.5, 0.65, 0.8)
SGD, FLOW = "SGD", "exact flow"
LAST = Record.geometric(2, networks=False)
NEEDED = ("width", "sharpness", "noise", "epsilon", "step")
PUBLISHED = "published"
"""The start of the published figures 3 to 5: NumPy's RandomState(42) draws the positions."""
PUBLISHED_SEED = 42


@dataclass(frozen=True)
class Setting:
    """A reading: its target, the factor of the loss r²/2, and whether positions move by the box slope.

    loss_factor: 2 where the loss of a sample is r² instead of ½r²; all steps and times double.
    """

    name: str
    values: tuple[float, ...]
    loss_factor: float
    box_slope: bool

    @property
    def target(self) -> PiecewiseConstant:
        """The piecewise constant target in one dimension."""
        return PiecewiseConstant(JUMPS, self.values)


PRINTED = Setting("printed", (1.0, 4.0, 1.0, 2.0, 1.0, 4.0), 1.0, False)
AUTHORS = Setting("authors", (1.0, 5.0, 1.0, 3.0, 1.0, 5.0), 2.0, True)
SETTINGS = (PRINTED, AUTHORS)
NAMED = {setting.name: setting for setting in SETTINGS}


def covered(network: Network, setting: Setting) -> Bools:
    """Return for every jump whether a neuron is closer than the sharpness η."""
    assert isinstance(network, StepNetwork)
    return np.asarray(jump_distances(network, setting.target) < network.sharpness)


def squared_distance(network: Network, setting: Setting) -> float:
    """Return ∫(f − f*)², what the paper calls the L2 distance in one dimension."""
    return 2.0 * population_loss(network, setting.target)


def function_panel(network: Network, target: PiecewiseConstant, title: str, label: str = "SGD") -> Panel:
    """Show a network over its target, with a dashed line (a short one if many) at every neuron."""
    assert isinstance(network, StepNetwork)
    x = np.linspace(0.0, 1.0, 2001)
    bottom, top = min(float(target.values.min()), 0.0) - 0.4, float(target.values.max()) + 0.6
    lines = np.repeat(network.positions, 3)
    height = top if network.width <= MOST_LINES else bottom + 0.08 * (top - bottom)
    heights = np.tile([bottom, height, np.nan], network.width)
    series = (
        Series(lines, heights, "neuron positions", style="dashed", tone="muted", size=0.5),
        Series(x, target(x), "target", tone="sky", size=2.6),
        Series(x, network(x), label, tone="orange"),
    )
    return Panel(series, title, "x", "f(x)", x_limits=(0.0, 1.0), y_limits=(bottom, top))


def start_of(parameters: Values, start: int | str) -> StepNetwork:
    """Return the network of a start, `PUBLISHED` or a number: uniform positions, weights zero."""
    if start == PUBLISHED:
        drawn = np.sort(np.random.RandomState(PUBLISHED_SEED).rand(parameters["width"]))
        return StepNetwork(drawn, np.zeros(len(drawn)), 0.0, parameters["sharpness"])
    assert isinstance(start, int)
    return initialize.uniform_positions(parameters["width"], sharpness=parameters["sharpness"], seed=start)


def train(
    parameters: Values,
    seed: int | np.random.SeedSequence,
    record: Record = LAST,
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Train one network; time is that of the loss ½r².

    parameters: setting, method (SGD or FLOW), start, width, sharpness, epsilon, noise, and step, steps of
    the setting's own loss, which is the time for the flow, too.
    """
    setting, epsilon = NAMED[parameters["setting"]], parameters["epsilon"]
    network, step = start_of(parameters, parameters["start"]), parameters["step"] * setting.loss_factor
    if parameters["method"] == FLOW:
        return population_flow(
            network,
            setting.target,
            until=step * parameters["steps"],
            epsilon=epsilon,
            tolerance=1e-6,
            stiff=True,
            record=record,
            progress=progress,
        )
    return stochastic_descent(
        network,
        setting.target,
        step=step,
        steps=parameters["steps"],
        epsilon=epsilon,
        noise=parameters["noise"],
        seed=seed,
        box_slope=setting.box_slope,
        record=record,
        progress=progress,
    )


def slow_time(parameters: Values) -> float:
    """Return the slow time τ = εt at the end of a training, in the clock of the loss ½r²."""
    setting = NAMED[parameters["setting"]]
    return float(setting.loss_factor * parameters["step"] * parameters["steps"] * parameters["epsilon"])


def foreseen(parameters: Values) -> Bools:
    """Return for every jump whether the limit with η = 0 reaches it in time, by its hitting time alone."""
    network = start_of(parameters, parameters["start"])
    times = hitting_times(network, NAMED[parameters["setting"]].target)
    return np.asarray(times <= slow_time(parameters))


def task(parameters: Values, seed: np.random.SeedSequence) -> dict[str, float]:
    """Train; return ∫(f − f*)² at the end, the jumps without a neuron, and how many were foreseen rightly."""
    run = train(parameters, seed)
    setting = NAMED[parameters["setting"]]
    reached = covered(run.final, setting)
    return {
        "distance": squared_distance(run.final, setting),
        "missed": float((~reached).sum()),
        "as_foreseen": float((reached == foreseen(parameters)).sum()),
    }


def case(parameters: Values, setting: Setting, start: int | str, **changes: Any) -> dict[str, Any]:
    """Return the parameters of one training by SGD in a setting, with changes."""
    fixed = {name: parameters[name] for name in NEEDED}
    steps = parameters["steps"][setting.name]
    return {**fixed, "setting": setting.name, "method": SGD, "start": start, "steps": steps, **changes}


def two_per_piece(parameters: Values, start: int) -> bool:
    """Return whether §4.2's assumption holds for a start."""
    return fewest_per_piece(start_of(parameters, start).positions, PRINTED.target) >= 2


TARGET = PiecewiseConstant((0.3, 0.65), (1.0, 3.0, 2.0))
PLACES = (0.08, 0.2, 0.42, 0.55, 0.72, 0.9)
ROUNDING = 1e-12


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Draw a target with its pieces, and a network with its best weights."""
    network = best_outer(_network(parameters["sharpness"]), TARGET)
    shown = function_panel(network, TARGET, "", "network, best weights a*(u)")
    marks = tuple((float(v), f"v_{i}") for i, v in enumerate(TARGET.breakpoints, start=1))
    places = tuple((float(u), f"u_{j}") for j, u in enumerate(PLACES, start=1))
    panel = replace(shown, title="", marks=marks, x_ticks=places)
    step = np.linspace(-1.0, 1.0, 401)
    z = StepNetwork([0.0], [1.0], 0.0, 1.0)
    activation = Panel((Series(step, z(step), "σ(z)"),), "the step", "z = (x − u)/η", "σ")
    caption = (
        "Left: the target f* (blue) jumps at v_i; the network (orange) is a_0 + Σ a_j σ((x − u_j)/η), with "
        "neurons at u_j. Right: the cubic step of App. C; its second derivative jumps at 0, so that it is C¹ "
        "where the theorems ask for C²."
    )
    figure = Figure("fig1", "Notation", (panel, activation), caption)
    return Findings((figure,), (minimiser_claim(_advantage(network, parameters)),))


def _network(sharpness: float) -> StepNetwork:
    return StepNetwork(PLACES, np.zeros(len(PLACES)), 0.0, sharpness)


def _advantage(network: StepNetwork, parameters: Values) -> float:
    """Return the least of L(a) − L(a*) over random weights a near the best ones, in units of L(a*)."""
    rng, best = np.random.default_rng(parameters["seed"]), population_loss(network, TARGET)
    losses = [
        population_loss(
            network.moved(
                {
                    "outer": network.outer + 1e-3 * rng.normal(size=network.width),
                    "offset": network.offset + 1e-3 * rng.normal(),
                }
            ),
            TARGET,
        )
        for _ in range(parameters["draws"])
    ]
    return float(min(losses) / best - 1)


def minimiser_claim(advantage: float) -> Claim:
    """Judge that a*(u) minimises the loss for given positions."""
    return Claim.that(
        "a*(u) is the minimiser of the loss in the weights (§4.1)",
        "the unique global minimiser",
        Interval.exact(advantage),
        least=0,
        words="the best of the weights drawn around it has a loss {} above its own, relatively",
    )


def run_fig2(parameters: Values, progress: Progress) -> Findings:
    """Draw the limit with η = 0 before, on the way to, and at the first jump that is reached."""
    network = _network(0.0)
    times = hitting_times(network, TARGET)
    run = two_timescale_limit(network, TARGET, until=float(times.max()))
    first = float(times.min())
    panels = tuple(
        function_panel(run(share * first), TARGET, f"τ = {share * first:.3g}{words}", "limit, η = 0")
        for share, words in ((0.0, ""), (0.7, ""), (1.0, ": a jump is reached"))
    )
    caption = (
        "Only the two neurons beside a jump move, each at a speed set by both distances, (7). On a stretch "
        "with a jump the network is the mean of the target."
    )
    figure = Figure("fig2", "The two-timescale limit on its way", panels, caption, columns=3)
    return Findings((figure,), _fig2_claims(run, times))


def _fig2_claims(run: Trajectory, times: Floats) -> tuple[Claim, ...]:
    first, last = run.initial, run.final
    assert isinstance(first, StepNetwork)
    assert isinstance(last, StepNetwork)
    moved = np.abs(last.positions - first.positions)
    near = beside_jumps(first.positions, TARGET)
    met = np.array([min(e.time for e in run.events if e.point == i) for i in range(len(times))])
    return still_claim(float(moved[~near].max(initial=0.0))), event_claim(
        float(np.abs(met / times - 1).max())
    )


def still_claim(moved: float) -> Claim:
    """Judge the caption of figure 2."""
    return Claim.that(
        "Only the neurons next to a discontinuity move",
        "so it is with η = 0",
        Interval.exact(moved),
        most=ROUNDING,
        words="the others move by {}",
    )


def event_claim(off: float) -> Claim:
    """Judge the integrated solution of (7) against the event-driven limit."""
    return Claim.that(
        "Jumps are reached at the times that (7) gives in closed form",
        "(7); its solution is not in the paper",
        Interval.exact(off),
        most=1e-9,
        words="the event-driven limit differs by {}, relatively",
        ours=True,
    )


def run_fig7(parameters: Values, progress: Progress) -> Findings:
    """Draw the neurons beside a jump over time, with η > 0: arrival, and what follows."""
    until = parameters["until"]
    record = Record.at(np.linspace(0.0, until, parameters["records"]))
    run = two_timescale_limit(_network(parameters["sharpness"]), TARGET, until=until, record=record)
    found = arrivals(run, TARGET)
    panels = tuple(_phases(run, one) for one in found)
    caption = (
        "The neurons around a jump over slow time. First phase: both neighbours move to it, until the nearer "
        "one is within η/2 (dotted: T_i). Second phase: it stays within η of the jump (band); others rest."
    )
    figure = Figure("fig7", "Two phases at a jump", panels, caption)
    claims = [claim for one in found for claim in phase_claims(one)]
    return Findings((figure,), (*claims, rest_claim(*_rest(run, found))))


def _phases(run: Trajectory, one: Arrival) -> Panel:
    times = run.path.times
    places = np.array([run(float(t)).parameters["positions"] for t in times])
    eta = getattr(run.initial, "sharpness", 0.0)
    near = np.argsort(np.abs(places[0] - one.jump))[:4]
    ends = times[[0, -1]]
    band = (np.full(2, one.jump - eta), np.full(2, one.jump + eta))
    series = [Series(ends, np.full(2, one.jump), "jump, within η", tone="sky", band=band)]
    series += [Series(times, places[:, j], "neurons" if j == near[0] else "", tone="orange") for j in near]
    marks = ((one.time, "T_i"),) if np.isfinite(one.time) else ()
    return Panel(tuple(series), f"jump at {one.jump:g}", "τ", "positions", marks=marks)


def _rest(run: Trajectory, found: list[Arrival]) -> tuple[float, float]:
    """Return how far the neurons beside jumps move in the first phase, and afterwards, at most."""
    after = max(one.time for one in found)
    first, then, last = (run(t).parameters["positions"] for t in (0.0, after, float(run.path.times[-1])))
    arrived = [one.neuron for one in found]
    others = np.delete(np.arange(len(first)), arrived)
    return float(np.abs(then - first).max()), float(np.abs(last - then)[others].max())


def phase_claims(one: Arrival) -> list[Claim]:
    """Judge B.3 at one jump: a neuron arrives, and stays within η."""
    return [
        Claim(
            f"A neuron reaches the jump at {one.jump:g} (first phase, B.3)",
            "T_i exists",
            f"T_i = {one.time:.3g}",
            bool(np.isfinite(one.time)),
            fails_if="if none comes within η/2 by the end",
        ),
        Claim.that(
            f"Then it stays within η of the jump at {one.jump:g} (second phase, B.3)",
            "u ∈ [v − η, v + η]",
            Interval.exact(one.wandering),
            most=1,
            words="it is at most {} η away",
        ),
    ]


def rest_claim(before: float, after: float) -> Claim:
    """Judge the caption of figure 7: in the second phase none of the neurons move significantly."""
    return Claim.that(
        "In the second phase no neuron moves significantly (fig. 7)",
        "none of the neurons move significantly",
        Interval.exact(after / before),
        most=0.1,
        words="the largest move after the last arrival is {} of the largest before",
    )


FIG1 = Experiment(
    "two_timescale/fig1",
    "The notation: target, network, smooth step",
    "Figure 1, §2, App. C",
    scales({"sharpness": 0.02, "seed": 1}, quick={"draws": 100}, paper={"draws": 1000}),
    run_fig1,
    cost={"quick": 1.9, "paper": 0.8},
)
FIG2 = Experiment(
    "two_timescale/fig2",
    "Only the neurons beside a jump move",
    "Figure 2, §4.2, (7)",
    scales({}),
    run_fig2,
    cost={"quick": 2.2, "paper": 1.2},
)
FIG7 = Experiment(
    "two_timescale/fig7",
    "Two phases at a jump: approach, and rest",
    "Figure 7, App. B.3",
    scales({"sharpness": 4e-3, "until": 2.0}, quick={"records": 400}, paper={"records": 2000}),
    run_fig7,
    cost={"quick": 0.56, "paper": 1.5},
)
