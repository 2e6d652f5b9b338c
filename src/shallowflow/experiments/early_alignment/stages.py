"""Figures 2 and 3: function and neurons at the stages of training; limits on many of Stewart's samples.

Figure 2: three points on which early alignment ends in a spurious stationary point. Figure 3: Stewart's data,
an unbalanced start, and the kinks that are never learnt. Under descent, a fifth of its neurons would chatter
on data points' lines. They slide under its limit for small steps, the gradient flow, which is followed here
to the time step × iterations of the paper. What one sample cannot tell many do: §5 conjectures that a small
network ends in the best fit with as many neurons as it has grown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.data import STEWART_TEACHER, Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.estimators import ANLSRegressor
from shallowflow.experiments.early_alignment.examples import MOSTLY, NEARLY_ALL
from shallowflow.experiments.experiment import (
    Claim,
    Experiment,
    Findings,
    Interval,
    Progress,
    Values,
    part,
    scales,
)
from shallowflow.experiments.figure import (
    Animation,
    Figure,
    NeuronPanels,
    Panel,
    Series,
    data_series,
    function_on_line,
    function_panel,
    largest_norm,
    least_squares_line,
    line_grid,
)
from shallowflow.landscape import (
    MergedNeurons,
    activity,
    least_squares,
    merged_neurons,
    neuron_alignment,
)
from shallowflow.landscape.early_alignment.extremal import mean_turn
from shallowflow.models import ReLUNetwork, initialize

MEMORY = 2 * 2**30
"""Bytes that the recorded networks may take."""
DRAWN = 4_000
"""Neurons shown in an animation."""
POINTS = 121
"""Points at which its function is drawn."""
ALIGNED = 0.99
"""Cosine from which on a neuron counts as aligned."""


def _record(until: float, times: Sequence[float], frames: int, step: float = 0.0) -> Record:
    """Keep networks at `times` and at `frames` geometric ones, rounded to whole steps."""
    moments = np.array([0.0, *times, *np.geomspace(0.2, until, frames)])
    return Record.at(np.unique(np.rint(moments / step) * step if step else moments), max_bytes=MEMORY)


def _network_at(trajectory: Trajectory, time: float) -> ReLUNetwork:
    network = trajectory(time)
    assert isinstance(network, ReLUNetwork)
    return network


def _at_stages(
    trajectory: Trajectory, dataset: Dataset, stages: Mapping[str, float], behind: Series
) -> tuple[Panel, ...]:
    """Return two panels per stage (name → time): the function, and the neurons on one radial scale."""
    networks = {stage: _network_at(trajectory, time) for stage, time in stages.items()}
    top = largest_norm(list(networks.values()))
    neurons = NeuronPanels(dataset, top, trajectory.path.template.width)
    panels: list[Panel] = []
    for stage, network in networks.items():
        title = f"{stage}, t = {stages[stage]:g}"
        panels += [function_panel(network, dataset, title=title, behind=(behind,)), neurons(network)]
    return tuple(panels)


def _animation(trajectory: Trajectory, dataset: Dataset, name: str, title: str, behind: Series) -> Animation:
    """Return function and neurons over the recorded times."""
    times = [float(time) for time in trajectory.path.times]
    networks = [_network_at(trajectory, time) for time in times]
    neurons = NeuronPanels(dataset, largest_norm(networks), networks[0].width, most=DRAWN)

    def frame(network: ReLUNetwork, time: float) -> Figure:
        words = f"t = {time:.3g}"
        function = function_panel(network, dataset, points=POINTS, title=words, behind=(behind,))
        return Figure(name, title, (function, neurons(network)))

    frames = tuple(frame(network, time) for network, time in zip(networks, times, strict=True))
    shown = len(neurons.chosen)
    caption = f"{shown:,} of {networks[0].width:,} neurons are shown; time runs faster and faster."
    return Animation(name, title, frames, tuple(f"t = {time:.4g}" for time in times), caption)


def _loss_figure(trajectory: Trajectory, stages: Mapping[str, float], name: str, title: str) -> Figure:
    """Return the training loss over time, with the stages marked."""
    panel = Panel(
        (Series(trajectory.times[1:], trajectory.losses[1:], "loss"),),
        x_label="time",
        y_label="½ mean squared error",
        x_scale="log",
        marks=tuple((time, stage) for stage, time in stages.items() if time > 0),
    )
    return Figure(name, title, (panel,), columns=1)


def run_fig2(parameters: Values, progress: Progress) -> Findings:
    """Train on the three points and show function and neurons at four times."""
    dataset, times = three_points(), parameters["times"]
    scale, seed = parameters["init_scale"], parameters["seed"]
    network = initialize.balanced(parameters["width"], 2, init_scale=scale, seed=seed)
    stages = dict(zip(("start", "end of alignment", "growth", "convergence"), times, strict=True))
    step, steps = parameters["step"], parameters["steps"]
    trajectory = gradient_descent(
        network,
        dataset,
        step=step,
        steps=steps,
        record=_record(step * steps, times, parameters["frames"], step),
        engine=parameters["engine"],
        progress=part(progress, 0, 1, "training"),
    )
    line_values = dataset.inputs @ least_squares(dataset).coefficients
    distance = float(np.max(np.abs(trajectory.final(dataset.inputs) - line_values)))
    seen = neurons_seen(dataset, *(_network_at(trajectory, time) for time in times[1:]))
    claims = (line_claim(distance), *neuron_claims(seen))
    line = least_squares_line(dataset)
    figures = (
        Figure(
            "fig2",
            "Three points: estimated function and neurons at four times",
            _at_stages(trajectory, dataset, stages, line),
            "Left: the estimated function and the data. Right: the neurons w_j in the plane of slope and "
            "bias; norm 0 is the inner circle, one radial scale for all times; blue outer weight > 0, "
            "orange < 0 (drawn a little further in). Crosses: directions of the data; "
            "dashed: borders of the activation cones.",
        ),
        _loss_figure(trajectory, stages, "fig2-loss", "Training loss on the three points"),
    )
    moving = _animation(trajectory, dataset, "fig2", "Three points: function and neurons", line)
    return Findings(figures, claims, (moving,))


def line_claim(distance: float) -> Claim:
    """Return the claim that the network has become the line, from its largest distance on the data."""
    return Claim.that(
        "The network converges to the least-squares line (Theorem 2), though two neurons fit the data",
        "the estimated function is the line β*",
        Interval.exact(distance),
        most=1e-3,
        words="largest distance to the line on the data {}",
    )


@dataclass(frozen=True)
class NeuronsSeen:
    """What the neurons did.

    aligned: share of positive ones aligned or dead after the early phase; output: largest output then, over
    the largest label; negative: share of negative ones in Σ|a_j|‖w_j‖ during growth; mixed: neurons in mixed
    cones at the end; turn: of the positive ones since alignment, in radians.
    """

    aligned: float
    output: float
    negative: float
    mixed: int
    turn: float


def neurons_seen(
    dataset: Dataset, aligned: ReLUNetwork, growth: ReLUNetwork, end: ReLUNetwork
) -> NeuronsSeen:
    """Return what the neurons did up to three times of a run."""
    found = neuron_alignment(aligned, dataset)
    arrived = (found.norms == 0) | (found.of_kind("maximum") & (found.cosines > ALIGNED))
    weights = np.abs(growth.outer) * np.linalg.norm(growth.inner, axis=1)
    on = activity(end, dataset.inputs) > 0
    return NeuronsSeen(
        float(np.mean(arrived[aligned.outer > 0])),
        float(np.max(np.abs(aligned(dataset.inputs))) / np.max(np.abs(dataset.targets))),
        float(np.sum(weights[growth.outer < 0]) / np.sum(weights)),
        int(np.sum(np.any(on, axis=1) & ~np.all(on, axis=1))),
        mean_turn(aligned, end),
    )


def neuron_claims(seen: NeuronsSeen) -> tuple[Claim, ...]:
    """Return the claims about the neurons of Figure 2."""

    def exact(statement: str, published: str, value: float, words: str, **limits: float) -> Claim:
        return Claim.that(statement, published, Interval.exact(value), words=words, **limits)  # type: ignore[arg-type]

    return (
        exact(
            "After the early phase every positive neuron is aligned with the one extremal vector, or dead "
            "(99 %)",
            "all of them; (1/n)Σ y_k x_k",
            seen.aligned,
            f"share {{}} (cosine > {ALIGNED}, or active on no point)",
            least=0.99,
        ),
        exact(
            "Then the estimated function is still nearly zero: a tenth of the labels",
            "norms close to 0",
            seen.output,
            "largest output over the largest label {}",
            most=0.1,
        ),
        exact(
            "During growth the negative neurons stay irrelevant",
            "negative neurons remain small in norm",
            seen.negative,
            "their share of Σ|a_j|‖w_j‖ is {}",
            most=0.01,
        ),
        exact(
            "In the end every neuron is active on all data points or on none",
            "two activation cones",
            seen.mixed,
            "{} neurons lie in other cones",
            most=0,
        ),
        exact(
            "The direction of the positive neurons changes after alignment",
            "Figures 2(d) and 2(h) differ",
            seen.turn,
            "by {} rad, weighted by norm",
            least=0.01,
        ),
    )


def run_fig3(parameters: Values, progress: Progress) -> Findings:
    """Follow the flow on the paper's kind of data and on other samples of it, and count what was learnt."""
    seeds, times = parameters["data_seeds"], parameters["times"]
    names = ("start", "end of alignment", "first growth", "second growth", "convergence")
    stages = dict(zip(names, times, strict=True))
    samples = [stewart(parameters["size"], seed=seed) for seed in seeds]
    scale, until, runs = parameters["init_scale"], parameters["until"], list[Trajectory]()
    for number, (seed, dataset) in enumerate(zip(seeds, samples, strict=True)):
        width = parameters["other_width" if number else "width"]
        network = initialize.gaussian(width, 2, init_scale=scale, seed=parameters["seed"])
        show = part(progress, number, len(seeds), f"training on data seed {seed}")
        kept = ((), 40) if number else (times, parameters["frames"])
        record = _record(until, *kept)
        runs.append(
            gradient_flow(network, dataset, until=until, record=record, engine="cones", progress=show)
        )
    first, dataset = runs[0], samples[0]
    stages["second growth"] = second_growth(first, times[2])
    claims = stage_claims(stages_seen(first, dataset, tuple(stages.values())))
    x = np.linspace(-1.0, 1.0, 401)
    teacher = Series(x, STEWART_TEACHER(x), "teacher", style="dashed", tone="muted")
    limits = tuple(
        _limit_panel(run, data, teacher, f"data seed {seed}, loss {run.losses[-1]:.2g}")
        for run, data, seed in zip(runs, samples, seeds, strict=True)
    )
    figures = (
        Figure(
            "fig3",
            "Stewart's data: estimated function and neurons at five times",
            _at_stages(first, dataset, stages, teacher),
            "As Figure 2, with an unbalanced Gaussian start; cones and data directions are left out.",
        ),
        Figure("fig3-limits", "Where training ends on other samples", limits, columns=3),
        _loss_figure(first, stages, "fig3-loss", "Training loss on Stewart's data"),
    )
    moving = _animation(first, dataset, "fig3", "Stewart's data: function and neurons", teacher)
    return Findings(figures, claims, (moving,))


def _limit_panel(run: Trajectory, dataset: Dataset, teacher: Series, title: str) -> Panel:
    x = line_grid(dataset)
    function = Series(x, function_on_line(run.final, x, dataset), "network", tone="blue")
    return Panel((teacher, function, data_series(dataset, 0.7)), title, "x", "h(x)", y_limits=(-0.25, 1.25))


@dataclass(frozen=True)
class StagesSeen:
    """What happened on a sample of Stewart's data.

    early, later: of the cones that have a neuron at the start, the shares that have one after the early phase
    and after the first growth; neurons, variation: of the function after the first growth; weights: of the
    neurons halfway through the second growth.
    """

    early: float
    later: float
    neurons: int
    variation: float
    weights: tuple[float, ...]


def stages_seen(run: Trajectory, dataset: Dataset, times: Sequence[float]) -> StagesSeen:
    """Return what happened at the end of alignment, after the first growth and during the second."""
    start, early, first, second = (_network_at(run, time) for time in times[:4])
    at_start, then, later = (
        {bytes(row) for row in (activity(network, dataset.inputs) > 0)} for network in (start, early, first)
    )
    grown = merged_neurons(second, dataset)
    return StagesSeen(
        len(at_start & then) / len(at_start),
        len(at_start & later) / len(at_start),
        len(merged_neurons(first, dataset)),
        float(np.ptp(function_on_line(first, line_grid(dataset, 41), dataset))),
        tuple(float(weight) for weight in grown.weights),
    )


def second_growth(run: Trajectory, since: float) -> float:
    """Return the recorded time at which the loss has made half of its fall (in logarithm) after `since`."""
    times = run.path.times
    losses = np.interp(times, run.times, run.losses)
    later = times >= since
    middle = np.sqrt(losses[later][0] * losses[-1])
    return float(times[later][np.argmax(losses[later] <= middle)])


def stage_claims(seen: StagesSeen) -> tuple[Claim, ...]:
    """Return the claims about the stages of Figure 3."""
    sizes = np.abs(seen.weights)
    four = len(sizes) == 4 or (len(sizes) == 5 and sizes[4] < 0.25 * sizes[3])
    return (
        Claim.that(
            "After the early phase the neurons still point everywhere: cones that had a neuron have one "
            "(90 %)",
            "omnidirectional",
            Interval.exact(seen.early),
            least=0.9,
            words="share of these cones {}",
        ),
        Claim.that(
            "At the first growth omnidirectionality is lost: fewer cones have a neuron than before",
            "lost",
            Interval.exact(seen.later - seen.early),
            most=-0.01,
            words="change of that share {}",
        ),
        Claim(
            "After the first growth the function is that of one neuron, nearly constant (varies by < 0.3)",
            "1 neuron",
            f"{seen.neurons} neuron(s), the function varies by {seen.variation:.2g}",
            seen.neurons == 1 and seen.variation < 0.3,
            fails_if="if it is more than one neuron, or varies by 0.3",
        ),
        Claim(
            "After the second growth it is nearly equivalent to four neurons (a fifth below a quarter of "
            "them)",
            "4 neurons, a fifth starting to grow",
            f"weights {np.round(seen.weights, 2).tolist()}",
            four,
            "" if four else "depends on the sample; the paper's is not published (limits counts over many)",
            "if it is another number",
        ),
    )


_QUICK = {"width": 2_000, "frames": 40}
_PAPER = {"width": 200_000, "frames": 80}

FIG2 = Experiment(
    "early_alignment/fig2",
    "Three points: early alignment ends in a spurious stationary point",
    "Figure 2, §6, App. B.1",
    scales(
        {"init_scale": 1e-3, "engine": "cones", "seed": 0},
        quick={**_QUICK, "step": 1e-2, "steps": 20_000, "times": (0.0, 7.5, 12.0, 200.0)},
        paper={**_PAPER, "step": 2e-3, "steps": 2_000_000, "times": (0.0, 7.5, 12.0, 4_000.0)},
    ),
    run_fig2,
    cost={"quick": 1, "paper": 23},
)
FIG3 = Experiment(
    "early_alignment/fig3",
    "Stewart's data: an unbalanced start, and kinks that are never learnt",
    "Figure 3, App. B.2",
    scales(
        {"init_scale": 1e-3, "seed": 0, "size": 40},
        quick={
            **_QUICK,
            "other_width": 2_000,
            "until": 2_000.0,
            "times": (0.0, 8.0, 30.0, 1_050.0, 2_000.0),
            "data_seeds": (0, 1, 2),
        },
        paper={
            **_PAPER,
            "other_width": 20_000,
            "until": 4_000.0,
            "times": (0.0, 8.0, 30.0, 1_400.0, 4_000.0),
            "data_seeds": (0, 1, 2, 3, 4),
        },
    ),
    run_fig3,
    cost={"quick": 7.1, "paper": 60},
)


TEACHER = 8
PUBLISHED = 5
NEAR = 1.1
"""A limit is the best fit if its loss is at most this many times as large."""


@dataclass(frozen=True)
class Limit:
    """Where training on a sample ends: neurons, kinks, loss; the loss of the best fit of so many kinks."""

    neurons: int
    kinks: int
    loss: float
    best: float


def kinks(found: MergedNeurons, dataset: Dataset) -> int:
    """Return how many neurons have their kink among the data, not held at the first or last point."""
    with np.errstate(divide="ignore"):
        at = -found.directions[:, 1] / found.directions[:, 0]
    x = dataset.inputs[:, 0]
    rounding = 1e-9 * (x.max() - x.min())
    return int(np.sum((at > x.min() + rounding) & (at < x.max() - rounding)))


def best_with(count: int, dataset: Dataset) -> float:
    """Return the loss (½·mean) of the best fit known with so many kinks, and any line on the left."""
    x, y = dataset.inputs[:, :1], dataset.targets
    if count == 0:
        line = np.polynomial.Polynomial.fit(x[:, 0], y, 1)
        return 0.5 * float(np.mean((line(x[:, 0]) - y) ** 2))
    model = ANLSRegressor(count, n_starts=3, random_state=0).fit(x, y)
    return 0.5 * float(np.mean((model.predict(x) - y) ** 2))


def limit_on(seed: int, parameters: Values) -> Limit:
    """Return where the flow from an unbalanced small start ends on a sample."""
    dataset = stewart(parameters["size"], seed=seed)
    start = initialize.gaussian(parameters["width"], 2, init_scale=parameters["init_scale"], seed=seed)
    run = gradient_flow(start, dataset, until=parameters["until"], record=Record.geometric(2), engine="cones")
    final = run.final
    assert isinstance(final, ReLUNetwork)
    found = merged_neurons(final, dataset)
    turns = kinks(found, dataset)
    return Limit(len(found), turns, float(run.losses[-1]), best_with(turns, dataset))


def run_limits(parameters: Values, progress: Progress) -> Findings:
    """Follow the flow on many of Stewart's samples; set its end beside the best fit with as many kinks."""
    found = list[Limit]()
    for seed in range(parameters["samples"]):
        progress(seed / parameters["samples"], f"sample {seed}")
        found.append(limit_on(seed, parameters))
    counts = np.bincount([one.neurons for one in found], minlength=TEACHER + 1)
    places = np.arange(len(counts))
    low, high = np.array([_interval(int(n), len(found)) for n in counts]).T
    ends = [min(one.best for one in found), max(one.loss for one in found)]
    panels = (
        Panel(
            (Series(places, counts / len(found), "share of samples", style="points", band=(low, high)),),
            "neurons that the network amounts to",
            "neurons",
            "share of samples",
            marks=((float(PUBLISHED), "published"), (float(TEACHER), "teacher")),
        ),
        Panel(
            (
                Series(ends, ends, "equal", style="dashed", tone="muted"),
                Series([one.best for one in found], [one.loss for one in found], "a sample", style="points"),
            ),
            "the limit beside the best fit with as many kinks",
            "loss of the best fit",
            "loss of the limit",
            "log",
            "log",
        ),
    )
    return Findings((Figure("limits", "Limits on many of Stewart's samples", panels),), limit_claims(found))


def _interval(count: int, total: int) -> tuple[float, float]:
    found = Interval.of_share(count, total)
    return found.low, found.high


def limit_claims(found: Sequence[Limit]) -> tuple[Claim, ...]:
    """Return the claims about limits on many samples."""
    neurons = [one.neurons for one in found]

    def share(
        statement: str, published: str, outcomes: list[bool], least: float, words: str, reason: str = ""
    ) -> Claim:
        held = Interval.of_share(sum(outcomes), len(outcomes))
        text = f"{sum(outcomes)} of {len(outcomes)} samples, share {{}}; {words}"
        return Claim.that(statement, published, held, least=least, words=text, reason=reason)

    return (
        share(
            "The loss stays positive (above 10⁻⁴): a spurious stationary point, despite the unbalanced start",
            "the network does not fit the data in the end",
            [one.loss > 1e-4 for one in found],
            NEARLY_ALL,
            f"median loss {np.median([one.loss for one in found]):.2g}",
        ),
        share(
            "The network amounts to fewer neurons than the teacher's eight",
            f"{PUBLISHED} of {TEACHER}",
            [n < TEACHER for n in neurons],
            NEARLY_ALL,
            f"median {np.median(neurons):g}",
        ),
        share(
            "The network amounts to five neurons",
            f"{PUBLISHED}",
            [n == PUBLISHED for n in neurons],
            MOSTLY,
            f"from {min(neurons)} to {max(neurons)}",
            "the number depends on the sample; the paper's is not published",
        ),
        share(
            f"The limit is the best fit with as many kinks (§5): loss at most {NEAR:g} times its",
            "conjectured for one and five neurons",
            [one.loss <= NEAR * one.best for one in found],
            MOSTLY,
            f"median ratio {np.median([one.loss / one.best for one in found]):.3g}",
            "kinks stop where they first grow, not where they would fit best",
        ),
    )


LIMITS = Experiment(
    "early_alignment/limits",
    "Stewart's data: the limit on many samples, beside the best fit with as many kinks",
    "§5, App. B.2",
    scales(
        {"size": 40, "init_scale": 1e-3, "until": 2_000.0},
        quick={"samples": 30, "width": 300},
        paper={"samples": 100, "width": 2_000, "until": 4_000.0},
    ),
    run_limits,
    cost={"quick": 45, "paper": 300},
)
