"""The limit of training on three points: a saddle or a local minimum, and the same for every width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.early_alignment.training import assumed_points
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.network_panels import function_on_line, line_grid
from shallowflow.landscape import Nature, least_squares, nature
from shallowflow.models import ReLUNetwork, initialize

INITIALISATIONS = ("balanced", "dominated", "gaussian")
FITTED = 1e-3
"""Share of the line's loss below which a network fits the data."""


@dataclass(frozen=True)
class Ending:
    """How one descent ended: its loss, what the limit is, and the smallest neuron beside its start."""

    loss: float
    nature: Nature
    shrinkage: float


def ending(dataset: Dataset, network: ReLUNetwork, step: float, parameters: Mapping[str, Any]) -> Ending:
    """Return how the descent from a network ends."""
    steps, engine = round(parameters["until"] / step), parameters["engine"]
    run = gradient_descent(
        network, dataset, step=step, steps=steps, engine=engine, record=Record.geometric(2)
    )
    final = run.final
    assert isinstance(final, ReLUNetwork)
    sizes = [np.hypot(np.linalg.norm(n.inner, axis=1), np.abs(n.outer)) for n in (network, final)]
    return Ending(float(run.losses[-1]), nature(final, dataset), float(np.min(sizes[1] / sizes[0])))


def run_nature(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Classify the limits of balanced, dominated and unbalanced starts, for two step sizes."""
    datasets = {"three points": three_points(), "Assumption 3": assumed_points()}
    cases = [
        (name, init, speed)
        for name in datasets
        for init in INITIALISATIONS
        for speed in ("step", "coarse_step")
    ]
    found: dict[tuple[str, str, str], list[Ending]] = {}
    for number, (name, init, speed) in enumerate(cases):
        progress(number / len(cases), f"{init} start on {name}")
        starts = (_start(init, parameters, seed) for seed in parameters["seeds"])
        found[name, init, speed] = [
            ending(datasets[name], start, parameters[speed], parameters) for start in starts
        ]
    lines = {name: least_squares(dataset).loss for name, dataset in datasets.items()}
    return Findings((_nature_figure(found, lines),), _nature_claims(found, lines))


def _start(init: str, parameters: Mapping[str, Any], seed: int) -> ReLUNetwork:
    make = getattr(initialize, init)
    network: ReLUNetwork = make(parameters["width"], 2, init_scale=parameters["init_scale"], seed=seed)
    return network


def _kinds(endings: list[Ending], line: float) -> str:
    """Return the endings in words: how many of which kind, at which loss."""
    words = [
        "global minimum"
        if one.loss < FITTED * line
        else f"{one.nature.kind}, {'at the line' if abs(one.loss - line) < FITTED * line else 'elsewhere'}"
        for one in endings
    ]
    return ", ".join(f"{words.count(word)} × {word}" for word in dict.fromkeys(words))


def _nature_claims(
    found: Mapping[tuple[str, str, str], list[Ending]], lines: Mapping[str, float]
) -> tuple[Claim, ...]:
    def told(init: str, speed: str) -> str:
        return "; ".join(f"{name}: {_kinds(found[name, init, speed], lines[name])}" for name in lines)

    fine = {init: [e for name in lines for e in found[name, init, "step"]] for init in INITIALISATIONS}
    stuck = {
        init: all(
            abs(e.loss - lines[name]) < FITTED * lines[name]
            for name in lines
            for e in found[name, init, "step"]
        )
        for init in INITIALISATIONS
    }
    zeros = sum(e.nature.zero_neurons for e in fine["balanced"])
    coarse = {init: found["Assumption 3", init, "coarse_step"] for init in ("balanced", "dominated")}
    escaped = {
        init: sum(e.loss < FITTED * lines["Assumption 3"] for e in runs) for init, runs in coarse.items()
    }
    return (
        Claim(
            "A dominated start ends in a spurious local minimum",
            "local minimum",
            told("dominated", "step"),
            stuck["dominated"] and all(e.nature.kind == "local minimum" for e in fine["dominated"]),
        ),
        Claim(
            "A balanced start ends in the least-squares line",
            "spurious stationary point",
            told("balanced", "step"),
            stuck["balanced"],
        ),
        Claim(
            "The limit of a balanced start can include zero neurons, which makes it a saddle",
            "saddle",
            f"{zeros} zero neurons; the smallest neuron has shrunk to "
            f"{min(e.shrinkage for e in fine['balanced']):.1g} of its start; {told('balanced', 'step')}",
            zeros > 0 and any(e.nature.kind == "saddle" for e in fine["balanced"]),
            "before it vanishes, every shrinking neuron comes to rest where it is active on all points or on "
            "none: such limits are local minima",
        ),
        Claim(
            "A balanced start is the one that finite steps can challenge (App. B.1)",
            "convergence to the line is less obvious there",
            "with the coarse step these runs on Assumption 3's data leave the line and fit them: "
            + ", ".join(f"{init} {escaped[init]} of {len(coarse[init])}" for init in coarse),
            escaped["balanced"] > 0 == escaped["dominated"],
            "at 2,000 neurons; at 200,000 a coarse step carries dominated starts away from the line, too",
        ),
        Claim(
            "Unbalanced starts converge to a global minimum on the data of Assumption 3",
            "global minimum",
            f"Assumption 3: {_kinds(found['Assumption 3', 'gaussian', 'step'], lines['Assumption 3'])}",
            all(e.loss < FITTED * lines["Assumption 3"] for e in found["Assumption 3", "gaussian", "step"]),
        ),
    )


def _nature_figure(found: Mapping[tuple[str, str, str], list[Ending]], lines: Mapping[str, float]) -> Figure:
    panels = []
    for name, line in lines.items():
        series = []
        for speed, label, tone in (("step", "fine step", "blue"), ("coarse_step", "coarse step", "orange")):
            places, losses = [], []
            for place, init in enumerate(INITIALISATIONS):
                endings = found[name, init, speed]
                shift = (-0.12 if speed == "step" else 0.12) + np.linspace(-0.06, 0.06, len(endings))
                places += (place + shift).tolist()
                losses += [one.loss / line for one in endings]
            series.append(Series(places, losses, label, style="points", tone=tone))
        names = tuple((float(i), init) for i, init in enumerate(INITIALISATIONS))
        panels.append(
            Panel(
                tuple(series),
                title=name,
                x_label="initialisation",
                y_label="final loss / loss of the line",
                x_limits=(-0.5, len(names) - 0.5),
                y_limits=(-0.08, 1.15),
                x_ticks=names,
            )
        )
    return Figure("nature", "Where training ends", tuple(panels), "One point per run.")


def run_width(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Train networks of growing width on the three points and compare their limits."""
    dataset, widths = three_points(), parameters["widths"]
    line = least_squares(dataset)
    runs: list[Trajectory] = []
    for number, width in enumerate(widths):

        def show(fraction: float, number: int = number, width: int = width) -> None:
            progress((number + fraction) / len(widths), f"{width:,} neurons")

        start = initialize.balanced(width, 2, init_scale=parameters["init_scale"], seed=parameters["seed"])
        run = gradient_descent(
            start,
            dataset,
            step=parameters["step"],
            steps=parameters["steps"],
            engine=parameters["engine"],
            record=Record.geometric(parameters["points"], networks=False),
            progress=show,
        )
        runs.append(run)
    inside = dataset.inputs @ line.coefficients
    distances = [float(np.max(np.abs(run.final(dataset.inputs) - inside))) for run in runs]
    losses = [float(run.losses[-1]) for run in runs]
    claims = (
        Claim(
            "Networks of every width end in the least-squares line (Theorem 2 holds for any m)",
            f"the same limit, loss {line.loss:.10f}",
            "; ".join(f"m = {m:,}: distance {d:.1g}" for m, d in zip(widths, distances, strict=True)),
            max(distances) < parameters["distance"],
        ),
        Claim(
            "The loss does not vanish as the width grows",
            "lim L > 0, even for m → ∞",
            f"losses from {min(losses):.10f} to {max(losses):.10f}",
            min(losses) > 0.99 * line.loss,
        ),
    )
    return Findings((_width_figure(runs, dataset, widths),), claims)


def _width_figure(runs: list[Trajectory], dataset: Dataset, widths: tuple[int, ...]) -> Figure:
    x = line_grid(dataset, 41)
    labels = [f"m = {m:,}" for m in widths]
    thickness = np.linspace(2.2, 0.6, len(widths)).tolist()
    functions = tuple(
        Series(x, function_on_line(run.final, x, dataset), label, size=size)
        for run, label, size in zip(runs, labels, thickness, strict=True)
    )
    losses = tuple(
        Series(run.times[1:], run.losses[1:], label, size=size)
        for run, label, size in zip(runs, labels, thickness, strict=True)
    )
    data = Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink")
    panels = (
        Panel(
            (*functions, data),
            title="functions at the end",
            x_label="x",
            y_label="h(x)",
            y_limits=(-0.1, 1.3),
        ),
        Panel(
            losses,
            title="training loss",
            x_label="time (step × iterations)",
            y_label="½ mean squared error",
            x_scale="log",
        ),
    )
    return Figure("width", "Three points: the same story at every width", panels)


NATURE = Experiment(
    name="early_alignment/nature",
    title="Saddle or local minimum: the limits of balanced, dominated and unbalanced starts",
    source="§5, App. B.1",
    parameters={
        "quick": {
            "width": 2_000,
            "init_scale": 1e-3,
            "engine": "cones",
            "step": 2e-3,
            "coarse_step": 2e-2,
            "until": 400.0,
            "seeds": (0, 1, 2),
        },
        "paper": {
            "width": 200_000,
            "init_scale": 1e-3,
            "engine": "cones",
            "step": 2e-3,
            "coarse_step": 2e-2,
            "until": 4_000.0,
            "seeds": (0, 1, 2, 3, 4),
        },
    },
    run=run_nature,
    cost={"quick": 6.4, "paper": 2008},
)

WIDTH = Experiment(
    name="early_alignment/width",
    title="Three points: the same limit for every width",
    source="Theorem 2, §6",
    parameters={
        "quick": {
            "widths": (100, 1_000, 10_000),
            "init_scale": 1e-3,
            "engine": "cones",
            "step": 1e-2,
            "steps": 40_000,
            "points": 100,
            "distance": 1e-6,
            "seed": 0,
        },
        "paper": {
            "widths": (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
            "init_scale": 1e-3,
            "engine": "cones",
            "step": 2e-3,
            "steps": 2_000_000,
            "points": 40,
            "distance": 1e-9,
            "seed": 0,
        },
    },
    run=run_width,
    cost={"quick": 1.7, "paper": 171},
)
