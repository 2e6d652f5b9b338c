"""What one sample or one scale cannot tell: limits on many of Stewart's samples, and the critical scale λ_c.

§5 conjectures that a small network ends in the best fit with as many neurons as it has grown. Theorem 2's λ̃
has no number, and does not depend on the width: it is measured here over η and the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import stewart
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.critical_scale import CriticalScale, critical_scale
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.estimators import ANLSRegressor
from shallowflow.experiments.early_alignment.examples import random_assumed
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import MergedNeurons, alignment_threshold, merged_neurons
from shallowflow.models import ReLUNetwork, initialize
from shallowflow.readings.curves import log_slope

TEACHER = 8
PUBLISHED = 5
NEAR = 1.1
"""A limit is the best fit if its loss is at most this many times as large."""
MOSTLY, NEARLY_ALL = 0.5, 0.9


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


@dataclass(frozen=True)
class Scale:
    """λ_c of one start: η of the data, the width, the scale, and λ* of Theorem 1 on the same data."""

    eta: float
    width: int
    sample: int
    found: CriticalScale
    star: float


def run_critical_scale(parameters: Values, progress: Progress) -> Findings:
    """Measure λ_c for several η and widths, from balanced starts on random data of Assumption 3."""
    rows = list[Scale]()
    cases = [(eta, sample) for eta in parameters["etas"] for sample in range(parameters["samples"])]
    for done, (eta, sample) in enumerate(cases):
        dataset = random_assumed(sample, eta)
        star = alignment_threshold(dataset).scale
        for width in parameters["widths"]:
            progress(done / len(cases), f"η ≤ {eta:g}, {width} neurons")
            options = {"width": width, "seed": sample, "halvings": parameters["halvings"]}
            rows.append(
                Scale(eta, width, sample, critical_scale(dataset, until=parameters["until"], **options), star)
            )
    panels = (
        _scale_panel(
            rows, "width", [(eta, [row for row in rows if row.eta == eta]) for eta in parameters["etas"]]
        ),
        _scale_panel(
            rows, "eta", [(m, [row for row in rows if row.width == m]) for m in parameters["widths"]]
        ),
    )
    figure = Figure("critical_scale", "The scale below which training ends in the line", panels)
    return Findings((figure,), scale_claims(rows))


def _scale_panel(rows: Sequence[Scale], against: str, lines: Sequence[tuple[float, list[Scale]]]) -> Panel:
    series = []
    for label, chosen in lines:
        places = sorted({float(getattr(row, against)) for row in chosen})
        groups = [[row.found.value for row in chosen if getattr(row, against) == place] for place in places]
        spread = [min(group) for group in groups], [max(group) for group in groups]
        name = f"η ≤ {label:g}" if against == "width" else f"{label:g} neurons"
        series.append(Series(places, [float(np.median(group)) for group in groups], name, band=spread))
    axis = "width" if against == "width" else "η"
    return Panel(tuple(series), f"λ_c over {axis}: median and range", axis, "λ_c", "log", "log")


def scale_claims(rows: Sequence[Scale]) -> tuple[Claim, ...]:
    """Return the claims about λ_c over widths and η."""
    keys = sorted({(row.eta, row.sample) for row in rows})
    slopes = []
    for key in keys:
        chosen = [row for row in rows if (row.eta, row.sample) == key and row.found.found]
        if len({row.width for row in chosen}) > 1:
            slopes.append(log_slope(_column(chosen, "width"), np.array([row.found.value for row in chosen])))
    below = [row.star <= row.found.high for row in rows]
    width = Interval.of_mean(slopes) if slopes else Interval(float("nan"), -np.inf, np.inf)
    star = Interval.of_share(sum(below), len(below))
    smallest = [row.found.low > 0 for row in rows]
    exists = Interval.of_share(sum(smallest), len(smallest))
    return (
        Claim.that(
            "Below some scale the flow ends in the least-squares line (Theorem 2)",
            "λ̃ > 0",
            exists,
            least=NEARLY_ALL,
            words=f"{sum(smallest)} of {len(smallest)} starts, share {{}}",
        ),
        Claim.that(
            "The critical scale does not depend on the width (Theorem 2): λ_c ~ m^p, |p| ≤ 0.1",
            "λ̃ does not depend on m",
            width,
            least=-0.1,
            most=0.1,
            words=f"p = {{}} over {len(slopes)} data sets",
            reason="Theorem 2 needs a positive bound for all widths, not this: λ_c may level off beyond "
            "these widths",
        ),
        Claim.that(
            "Theorem 1's λ* lies below λ_c",
            "–",
            star,
            least=NEARLY_ALL,
            words=f"{sum(below)} of {len(below)}, share {{}}",
            ours=True,
        ),
    )


def _column(rows: Sequence[Scale], name: str) -> Floats:
    return np.array([float(getattr(row, name)) for row in rows])


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
CRITICAL_SCALE = Experiment(
    "early_alignment/critical_scale",
    "The scale of initialisation below which training ends in the line",
    "Theorem 2, §5",
    scales(
        {"until": 400.0, "halvings": 6},
        quick={"etas": (0.02, 0.05, 0.1), "widths": (20, 60, 200), "samples": 4},
        paper={"etas": (0.01, 0.02, 0.05, 0.1, 0.15), "widths": (20, 100, 500, 2_000), "samples": 12},
    ),
    run_critical_scale,
    cost={"quick": 39, "paper": 730},
)
