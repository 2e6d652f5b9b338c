"""Figure 1: the data of the paper's examples, and which of its assumptions they satisfy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.data import STEWART_TEACHER, Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.network_panels import as_inputs, line_grid
from shallowflow.landscape import extremal_vectors, least_squares, spurious_conditions

ASSUMED = ((-0.95, 1.0), (0.0, 0.05), (0.95, 1.0))
"""Three points (x, y) of Assumption 3 with η < 1/6, like those that Figure 1 draws without numbers."""


def assumed_points(points: tuple[tuple[float, float], ...] = ASSUMED) -> Dataset:
    """Return data that satisfy Assumption 3, bias coordinate appended."""
    table = np.array(points)
    return Dataset(table[:, :1], table[:, 1], name="Assumption 3").with_bias()


def run_fig1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show the three data sets and check what the paper says of them."""
    assumed, used = assumed_points(parameters["assumed"]), three_points()
    sampled = stewart(parameters["size"], seed=parameters["seed"])
    x = np.linspace(-1.0, 1.0, 401)
    teacher = Series(x, STEWART_TEACHER(x), "teacher", tone="muted")
    panels = (
        _panel(assumed, "Assumption 3, η < 1/6", _line(assumed)),
        _panel(used, "the three points of §6", _line(used)),
        _panel(sampled, f"Stewart's teacher, {sampled.size} points", (teacher,)),
    )
    caption = "Left and middle: small networks end in the dashed least-squares line. Right: App. B.2."
    figure = Figure("fig1", "The data of the examples", panels, caption, columns=3)
    return Findings((figure,), (*_claims(assumed, used), _teacher_claim()))


def _line(dataset: Dataset) -> tuple[Series, ...]:
    x = line_grid(dataset, 2)
    values = as_inputs(x, dataset) @ least_squares(dataset).coefficients
    return (Series(x, values, "least squares", style="dashed", tone="muted"),)


def _panel(dataset: Dataset, title: str, behind: tuple[Series, ...]) -> Panel:
    data = Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink")
    return Panel((*behind, data), title=title, x_label="x", y_label="y", y_limits=(-0.1, 1.3))


def _claims(assumed: Dataset, used: Dataset) -> tuple[Claim, ...]:
    first, second = spurious_conditions(assumed), spurious_conditions(used)
    kept = (first.assumption_4, first.assumption_5, first.assumption_6)
    middle = float(used.targets[1] - used.inputs[1] @ least_squares(used).coefficients)
    return (
        Claim(
            "Data of Assumption 3 with η < 1/6 satisfy Assumptions 4, 5 and 6 (Lemma 8)",
            "they do",
            f"smallest η {first.eta:.3g}; Assumptions 4, 5, 6: {', '.join(_yes(k) for k in kept)}",
            first.assumption_3 and all(kept),
            "true of these points; Lemma 8's proof has a slip, and Assumption 5 can fail for others",
        ),
        Claim(
            "The three points of §6 do not satisfy Assumption 3, yet resemble it",
            "all positively correlated, positive labels, middle point below the line",
            f"Assumption 3: {_yes(second.assumption_3)}; Assumption 4: {_yes(second.assumption_4)}; "
            f"middle point {middle:.3g} from the line; Assumption 5: {_yes(second.assumption_5)}, "
            f"Assumption 6: {_yes(second.assumption_6)}",
            not second.assumption_3 and second.assumption_4 and middle < 0,
        ),
        Claim(
            "There is one extremal vector, (1/n)Σ y_k x_k, a maximum of G",
            "the single extremal vector",
            "; ".join(_vectors(data) for data in (assumed, used)),
            all(_is_single(data) for data in (assumed, used)),
        ),
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _vectors(dataset: Dataset) -> str:
    return ", ".join(f"{v.kind} {np.round(v.vector, 4).tolist()}" for v in extremal_vectors(dataset))


def _is_single(dataset: Dataset) -> bool:
    found = extremal_vectors(dataset)
    expected = dataset.targets @ dataset.inputs / dataset.size
    return len(found) == 1 and found[0].kind == "maximum" and np.allclose(found[0].vector, expected)


def _teacher_claim() -> Claim:
    kinks = 1 + int(np.sum(np.abs(np.diff(STEWART_TEACHER.slopes)) > 0))
    return Claim(
        "The teacher is a network of eight neurons",
        "8 neurons",
        f"{kinks} kinks in [−1, 1), the first at −1",
        kinks == 8,
    )


FIG1 = Experiment(
    name="early_alignment/fig1",
    title="The data: Assumption 3, the three points, Stewart's teacher",
    source="Figure 1, §4, §6, App. B",
    parameters={scale: {"assumed": ASSUMED, "size": 40, "seed": 0} for scale in ("quick", "paper")},
    run=run_fig1,
    cost={"quick": 0.2},
)
