"""Figures 2 and 3: function and neurons at the stages of training.

Figure 2: three points on which early alignment ends in a spurious stationary point. Figure 3: Stewart's data,
an unbalanced start, and the kinks that are never learnt. Under descent, a fifth of its neurons would chatter
on data points' lines. They slide under its limit for small steps, the gradient flow, which is followed here
to the time step × iterations of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shallowflow.data import STEWART_TEACHER, Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, part, scales
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.experiments.network_panels import (
    NeuronPanels,
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
    extremal_vectors,
    least_squares,
    merged_neurons,
    neuron_alignment,
)
from shallowflow.landscape.early_alignment.aligned_neurons import mean_turn
from shallowflow.models import ReLUNetwork, initialize

MEMORY = 2 * 2**30
"""Bytes that the recorded networks may take."""
DRAWN = 4_000
"""Neurons shown in an animation."""
POINTS = 121
"""Points at which its function is drawn."""
ALIGNED = 0.99
"""Cosine from which on a neuron counts as aligned."""
TEACHER_NEURONS = 8
PUBLISHED_NEURONS = 5
"""The paper's sample of 40 points is not published: the first data seed is one on which five neurons grow."""


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
    networks = (_network_at(trajectory, time) for time in times)
    claims = (*_line_claims(trajectory, dataset), *_neuron_claims(dataset, *networks))
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


def _line_claims(trajectory: Trajectory, dataset: Dataset) -> tuple[Claim, ...]:
    line = least_squares(dataset)
    distance = float(np.max(np.abs(trajectory.final(dataset.inputs) - dataset.inputs @ line.coefficients)))
    loss = float(trajectory.losses[-1])
    return (
        Claim(
            "The network converges to the least-squares line (Theorem 2)",
            "the estimated function is the line β*",
            f"largest distance to the line on the data {distance:.2g}",
            distance < 1e-3,
        ),
        Claim(
            "Training ends at a spurious stationary point: the loss stays positive",
            f"loss > 0 although two neurons fit the data (the line's loss is {line.loss:.7f})",
            f"loss {loss:.7f}",
            abs(loss - line.loss) < 1e-3 * line.loss and loss > 0,
        ),
    )


def _neuron_claims(
    dataset: Dataset, start: ReLUNetwork, aligned: ReLUNetwork, growth: ReLUNetwork, end: ReLUNetwork
) -> tuple[Claim, ...]:
    found = neuron_alignment(aligned, dataset)
    arrived = (found.norms == 0) | (found.of_kind("maximum") & (found.cosines > ALIGNED))
    share = float(np.mean(arrived[aligned.outer > 0]))
    first, output = (float(np.max(np.abs(network(dataset.inputs)))) for network in (start, aligned))
    weights = np.abs(growth.outer) * np.linalg.norm(growth.inner, axis=1)
    small = float(np.sum(weights[growth.outer < 0]) / np.sum(weights))
    on = activity(end, dataset.inputs) > 0
    mixed = int(np.sum(np.any(on, axis=1) & ~np.all(on, axis=1)))
    turn = mean_turn(aligned, end)
    return (
        Claim(
            "After the early phase every positive neuron is aligned with the one extremal vector, or dead",
            f"all of them; {len(extremal_vectors(dataset))} extremal vector, (1/n)Σ y_k x_k",
            f"{100 * share:.2f} % (cosine > {ALIGNED}, or active on no point)",
            share > 0.99,
            "a few neurons start almost opposed to it (Condition 1 excludes them) and take longer",
        ),
        Claim(
            "Then the estimated function is still nearly zero",
            "norms close to 0",
            f"largest output on the data {output:.2g}, at the start {first:.1g}",
            output < 0.1 * float(np.max(np.abs(dataset.targets))),
        ),
        Claim(
            "During growth the negative neurons stay irrelevant",
            "negative neurons remain small in norm",
            f"their share of Σ|a_j|‖w_j‖ is {small:.1g}",
            small < 0.01,
        ),
        Claim(
            "In the end every neuron is active on all data points or on none",
            "two activation cones",
            f"{mixed} of {end.width:,} neurons lie in other cones",
            mixed == 0,
        ),
        Claim(
            "The direction of the positive neurons changes after alignment",
            "Figures 2(d) and 2(h) differ",
            f"by {turn:.3g} rad, weighted by norm",
            turn > 0.01,
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
    claims = (*_stage_claims(first, dataset, times), *_limit_claims(runs, samples))
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


def _stage_claims(run: Trajectory, dataset: Dataset, times: tuple[float, ...]) -> tuple[Claim, ...]:
    early, first, second = (_network_at(run, time) for time in times[1:4])
    spread, later = (
        len(np.unique(activity(network, dataset.inputs) > 0, axis=0)) for network in (early, first)
    )
    flat = float(np.ptp(function_on_line(first, line_grid(dataset, 41), dataset)))
    single, grown = len(merged_neurons(first, dataset)), merged_neurons(second, dataset)
    return (
        Claim(
            "After the early phase the neurons still point everywhere; after the first growth some cones "
            "are empty",
            "omnidirectionality is lost at the first growth",
            f"cones with a neuron: {spread} of {2 * dataset.size} at t = {times[1]:g}, "
            f"{later} at t = {times[2]:g}",
            later < spread,
        ),
        Claim(
            "After the first growth the function is that of one neuron, nearly constant",
            "1 neuron",
            f"{single} neuron(s), the function varies by {flat:.2g}",
            single == 1 and flat < 0.3,
        ),
        Claim(
            "After the second growth it is nearly equivalent to four neurons",
            "4 neurons, a fifth starting to grow",
            f"{len(grown)} neurons with weights {np.round(grown.weights, 2).tolist()}",
            len(grown) in (4, 5),
            "the time of this panel was chosen for each scale after looking at a run; at paper scale and t = "
            "1,050, the time of the quick scale, it is 3 neurons: the second growth has hardly begun",
        ),
    )


def _kinks(found: MergedNeurons, dataset: Dataset) -> int:
    """Return how many neurons have their kink among the data."""
    at = -found.directions[:, 1] / found.directions[:, 0]
    x = dataset.inputs[:, 0]
    return int(np.sum((at > x.min()) & (at < x.max())))


def _limit_claims(runs: list[Trajectory], samples: list[Dataset]) -> tuple[Claim, ...]:
    finals = (_network_at(run, float(run.path.times[-1])) for run in runs)
    learnt = [merged_neurons(final, data) for final, data in zip(finals, samples, strict=True)]
    losses, neurons = [float(run.losses[-1]) for run in runs], [len(found) for found in learnt]
    kinks = [_kinks(found, data) for found, data in zip(learnt, samples, strict=True)]
    return (
        Claim(
            "The loss stays positive: a spurious stationary point, despite the unbalanced start",
            "the network does not fit the data in the end",
            f"losses over the data seeds {', '.join(f'{loss:.2g}' for loss in losses)}",
            min(losses) > 1e-4,
        ),
        Claim(
            "In the end the network amounts to fewer neurons than the teacher's eight",
            f"{PUBLISHED_NEURONS} of {TEACHER_NEURONS}",
            f"{', '.join(map(str, neurons))} neurons over the data seeds, {', '.join(map(str, kinks))} kinks",
            max(neurons) < TEACHER_NEURONS,
        ),
        Claim(
            "It amounts to five neurons on the sample shown",
            f"{PUBLISHED_NEURONS}",
            f"{neurons[0]}; on {sum(n == PUBLISHED_NEURONS for n in neurons)} of {len(neurons)} samples",
            neurons[0] == PUBLISHED_NEURONS,
            "the number depends on the sample of 40 points; the paper's own is not published",
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
    cost={"quick": 3.4, "paper": 17.9},
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
            "data_seeds": (1, 0, 3),
        },
        paper={
            **_PAPER,
            "other_width": 20_000,
            "until": 4_000.0,
            "times": (0.0, 8.0, 30.0, 1_400.0, 4_000.0),
            "data_seeds": (1, 0, 2, 3, 4),
        },
    ),
    run_fig3,
    cost={"quick": 3.3, "paper": 45},
)
