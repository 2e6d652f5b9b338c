"""The data of the paper's examples (Figure 1) and assumptions, and where training on them ends (§5).

Theorem 2's λ̃ has no number, and does not depend on the width: the critical scale λ_c is measured over η and
the width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import STEWART_TEACHER, Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.critical_scale import CriticalScale, critical_scale
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.experiment import (
    LEVEL,
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
    Figure,
    Panel,
    Series,
    data_series,
    function_on_line,
    least_squares_line,
    line_grid,
)
from shallowflow.landscape import (
    Nature,
    alignment_threshold,
    extremal_vectors,
    least_squares,
    nature,
    spurious_conditions,
)
from shallowflow.models import ReLUNetwork, initialize
from shallowflow.readings.curves import log_slope

ASSUMED = ((-0.95, 1.0), (0.0, 0.05), (0.95, 1.0))
"""Three points (x, y) of Assumption 3 with η < 1/6, like those that Figure 1 draws without numbers."""


def assumed_points(points: tuple[tuple[float, float], ...] = ASSUMED) -> Dataset:
    """Return data that satisfy Assumption 3, bias coordinate appended."""
    table = np.array(points)
    return Dataset(table[:, :1], table[:, 1], name="Assumption 3").with_bias()


def assumption_boxes(eta: float) -> tuple[Floats, Floats]:
    """Return the boxes in which Assumption 3 has its points, as one line with gaps."""
    corners = ((-1.0, -1.0 + eta, 1.0, 1.0 + eta), (-eta, eta, 0.0, eta), (1.0 - eta, 1.0, 1.0, 1.0 + eta))
    x = [side for left, right, _, _ in corners for side in (left, right, right, left, left, np.nan)]
    y = [side for _, _, low, high in corners for side in (low, low, high, high, low, np.nan)]
    return np.array(x), np.array(y)


def random_assumed(seed: int, eta: float = 0.05) -> Dataset:
    """Return random data of Assumption 3: three points whose η is at most the one given."""
    u = np.random.default_rng(seed).uniform(0.0, 1.0, 9) * eta
    inputs = [[u[0] - 1, 1 + u[1]], [2 * u[2] - eta, 1 + 2 * u[3] - eta], [1 - u[4], 1 + u[5]]]
    return Dataset(inputs, [1 + u[6], max(u[7], 1e-6), 1 + u[8]], name="Assumption 3")


def random_corners(dimension: int, inside: int, seed: int) -> Dataset:
    """Return data for Theorem 4 in any dimension: d nearly orthogonal points, and some between them.

    The corners have labels about 1, the points between them small ones (Assumptions 4 to 6 are checked, not
    promised).
    """
    rng = np.random.default_rng(seed)
    corners = np.eye(dimension) + 0.002 * (1 + rng.uniform(size=(dimension, dimension)))
    between = 0.5 * np.sqrt(dimension) * rng.dirichlet(np.full(dimension, 20.0), inside)
    labels = [*(1 + 0.05 * rng.uniform(size=dimension)), *(0.02 * rng.uniform(0.5, 1.0, inside))]
    return Dataset(np.vstack([corners, between]), labels, name=f"corners in dimension {dimension}")


INITIALISATIONS = ("balanced", "dominated", "gaussian")
MOSTLY, NEARLY_ALL = 0.5, 0.9
"""What is published of one start is asked of most."""
FITTED = 1e-3
"""Share of the line's loss below which a network fits the data."""


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Show the three data sets and check what the paper says of them, and of random ones."""
    assumed, used = assumed_points(parameters["assumed"]), three_points()
    sampled = stewart(parameters["size"], seed=parameters["seed"])
    x = np.linspace(-1.0, 1.0, 401)
    teacher = Series(x, STEWART_TEACHER(x), "teacher", tone="muted")
    boxes = Series(*assumption_boxes(1 / 6), "Assumption 3, η = 1/6", tone="orange", size=0.6)
    panels = tuple(
        Panel((*behind, data_series(dataset)), title, "x", "y", y_limits=(-0.1, 1.3))
        for dataset, title, behind in (
            (assumed, "Assumption 3", (boxes, least_squares_line(assumed, 2))),
            (used, "the three points of §6", (least_squares_line(used, 2),)),
            (sampled, f"Stewart's teacher, {sampled.size} points", (teacher,)),
        )
    )
    caption = "Left and middle: small networks end in the dashed least-squares line. Right: App. B.2."
    figure = Figure("fig1", "The data of the examples", panels, caption, columns=3)
    kept = list[bool]()
    for number in range(parameters["random"]):
        progress(number / parameters["random"], "random data of Assumption 3")
        found = spurious_conditions(random_assumed(number, 0.999 / 6))
        kept.append(found.assumption_4 and found.assumption_5 and found.assumption_6)
    return Findings((figure,), fig1_claims(assumed, used, kept))


def fig1_claims(
    assumed: Dataset, used: Dataset, kept: Sequence[bool], slopes: Floats = STEWART_TEACHER.slopes
) -> tuple[Claim, ...]:
    """Return the claims about the data, whether random ones satisfy Assumptions 4 to 6, and the teacher."""
    first, second = spurious_conditions(assumed), spurious_conditions(used)
    middle = float(used.targets[1] - used.inputs[1] @ least_squares(used).coefficients)
    kinks = 1 + int(np.sum(np.abs(np.diff(slopes)) > 0))
    broken = sum(not one for one in kept)
    return (
        Claim(
            "Data of Assumption 3 with η < 1/6 satisfy Assumptions 4, 5 and 6 (Lemma 8)",
            "all do",
            f"{len(kept) - broken} of {len(kept)} random data sets do",
            False if broken else None,
            "Lemma 8's proof of Assumption 5 has a slip" if broken else "no counterexample among these",
            "if one data set does not",
        ),
        Claim(
            "The points of Figure 1 satisfy Assumption 3, and with it Assumptions 4, 5 and 6",
            "Theorem 2 applies",
            f"smallest η {first.eta:.3g}; Assumptions 4, 5, 6: "
            + ", ".join(_yes(k) for k in (first.assumption_4, first.assumption_5, first.assumption_6)),
            first.assumption_3 and first.assumption_4 and first.assumption_5 and first.assumption_6,
            fails_if="if η ≥ 1/6, or one of the assumptions fails",
        ),
        Claim(
            "The three points of §6 do not satisfy Assumption 3, yet resemble it",
            "all positively correlated, positive labels, middle point below the line",
            f"Assumption 3: {_yes(second.assumption_3)}; Assumption 4: {_yes(second.assumption_4)}; "
            f"middle point {middle:.3g} from the line; Assumption 5: {_yes(second.assumption_5)}, "
            f"Assumption 6: {_yes(second.assumption_6)}",
            not second.assumption_3 and second.assumption_4 and middle < 0,
            fails_if="if Assumption 3 holds, Assumption 4 fails, or the middle point lies above the line",
        ),
        Claim(
            "There is one extremal vector, (1/n)Σ y_k x_k, a maximum of G",
            "the single extremal vector",
            "; ".join(
                ", ".join(f"{v.kind} {np.round(v.vector, 4).tolist()}" for v in extremal_vectors(data))
                for data in (assumed, used)
            ),
            all(_is_single(data) for data in (assumed, used)),
            fails_if="if there are several, or another one",
        ),
        Claim(
            "The teacher is a network of eight neurons",
            "8 neurons",
            f"{kinks} kinks in [−1, 1), the first at −1",
            kinks == 8,
            fails_if="if it has more or fewer kinks",
        ),
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _is_single(dataset: Dataset) -> bool:
    found = extremal_vectors(dataset)
    expected = dataset.targets @ dataset.inputs / dataset.size
    return len(found) == 1 and found[0].kind == "maximum" and np.allclose(found[0].vector, expected)


@dataclass(frozen=True)
class Ending:
    """How one descent ended: its loss over the line's, what the limit is, and how far a neuron has shrunk."""

    loss: float
    nature: Nature
    shrinkage: float

    @property
    def fits(self) -> bool:
        """Whether the data are fitted."""
        return self.loss < FITTED

    @property
    def at_line(self) -> bool:
        """Whether the loss is that of the least-squares line."""
        return abs(self.loss - 1) < FITTED

    def __str__(self) -> str:
        place = "at the line" if self.at_line else "elsewhere"
        return "global minimum" if self.fits else f"{self.nature.kind}, {place}"


Endings = Mapping[tuple[str, str, str], list[Ending]]
"""By the name of the data, the initialisation and the name of the step."""


def _ending(dataset: Dataset, init: str, seed: int, step: float, parameters: Values) -> Ending:
    """Return how the descent from a start ends."""
    make, scale = getattr(initialize, init), parameters["init_scale"]
    network: ReLUNetwork = make(parameters["width"], 2, init_scale=scale, seed=seed)
    steps, engine = round(parameters["until"] / step), parameters["engine"]
    run = gradient_descent(
        network, dataset, step=step, steps=steps, engine=engine, record=Record.geometric(2)
    )
    final = run.final
    assert isinstance(final, ReLUNetwork)
    sizes = [np.hypot(np.linalg.norm(n.inner, axis=1), np.abs(n.outer)) for n in (network, final)]
    loss = float(run.losses[-1]) / least_squares(dataset).loss
    return Ending(loss, nature(final, dataset), float(np.min(sizes[1] / sizes[0])))


def run_nature(parameters: Values, progress: Progress) -> Findings:
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
        found[name, init, speed] = [
            _ending(datasets[name], init, seed, parameters[speed], parameters) for seed in parameters["seeds"]
        ]
    panels = tuple(_ending_panel(name, found) for name in datasets)
    figure = Figure("nature", "Where training ends", panels, "One point per run.")
    return Findings((figure,), nature_claims(found, tuple(datasets)))


def nature_claims(found: Endings, names: tuple[str, ...]) -> tuple[Claim, ...]:
    """Return the claims about the limits of the three kinds of starts, for two step sizes."""

    def kinds(name: str, init: str) -> str:
        """Return how many runs end at which kind of point."""
        words = [str(one) for one in found[name, init, "step"]]
        counts = ", ".join(f"{words.count(word)} × {word}" for word in dict.fromkeys(words))
        return f"{name}: {counts}"

    def every(init: str) -> str:
        return "; ".join(kinds(name, init) for name in names)

    fine = {init: [e for name in names for e in found[name, init, "step"]] for init in INITIALISATIONS}
    zeros = [e.nature.zero_neurons > 0 and e.nature.kind == "saddle" for e in fine["balanced"]]
    shrunk = min(e.shrinkage for e in fine["balanced"])
    last = found["Assumption 3", "gaussian", "step"]
    return (
        _share(
            "A dominated start ends in the line, a spurious local minimum",
            "local minimum",
            [e.at_line and e.nature.kind == "local minimum" for e in fine["dominated"]],
            every("dominated"),
        ),
        _share(
            "A balanced start ends in the least-squares line",
            "spurious stationary point",
            [e.at_line for e in fine["balanced"]],
            every("balanced"),
        ),
        _can_claim(
            zeros, f"the smallest neuron has shrunk to {shrunk:.1g} of its start; {every('balanced')}"
        ),
        _coarse_claim(
            {init: found["Assumption 3", init, "coarse_step"] for init in ("balanced", "dominated")}
        ),
        _share(
            "Unbalanced starts converge to a global minimum on the data of Assumption 3",
            "global minimum",
            [e.fits for e in last],
            kinds("Assumption 3", "gaussian"),
        ),
    )


def _share(statement: str, published: str, outcomes: list[bool], words: str) -> Claim:
    found = Interval.of_share(sum(outcomes), len(outcomes))
    text = f"{sum(outcomes)} of {len(outcomes)} runs, share {{}}; {words}"
    return Claim.that(statement, published, found, least=MOSTLY, words=text)


def _can_claim(zeros: list[bool], words: str) -> Claim:
    """Return the claim that saddles with zero neurons can occur: one is enough, none in 72 runs too few."""
    found = Interval.of_share(sum(zeros), len(zeros))
    seen = True if any(zeros) else False if found.high < 1 - LEVEL else None
    return Claim(
        "The limit of a balanced start can include zero neurons, which makes it a saddle",
        "saddle",
        f"{sum(zeros)} of {len(zeros)} runs, share {found}; {words}",
        seen,
        "" if seen else "shrinking neurons come to rest where they are active on all points or on none",
        f"if none does, and more than a share of {1 - LEVEL:.2g} can be excluded",
    )


def _coarse_claim(runs: Mapping[str, list[Ending]]) -> Claim:
    """Return the claim that coarse steps lead balanced starts away more often than dominated ones."""
    shares = {init: Interval.of_share(sum(e.fits for e in one), len(one)) for init, one in runs.items()}
    balanced, dominated = shares["balanced"], shares["dominated"]
    apart = balanced.low > dominated.high
    back = balanced.high < dominated.low or (balanced.value <= dominated.value and len(runs["balanced"]) >= 5)
    return Claim(
        "A balanced start is the one that finite steps can challenge (App. B.1): more of them leave the line",
        "convergence to the line is less obvious there",
        f"with the coarse step these shares fit Assumption 3's data: balanced {balanced}, dominated "
        f"{dominated}",
        True if apart else (False if back else None),
        "" if apart else "the intervals overlap" if not back else "dominated starts leave it as often",
        "if as many dominated starts leave the line (of 5 or more)",
    )


def _ending_panel(name: str, found: Endings) -> Panel:
    series = []
    for speed, label, tone, aside in (
        ("step", "fine step", "blue", -0.12),
        ("coarse_step", "coarse step", "orange", 0.12),
    ):
        places, losses = list[float](), list[float]()
        for place, init in enumerate(INITIALISATIONS):
            endings = found[name, init, speed]
            places += (place + (aside + np.linspace(-0.06, 0.06, len(endings)))).tolist()
            losses += [one.loss for one in endings]
        series.append(Series(places, losses, label, style="points", tone=tone))
    names = tuple((float(i), init) for i, init in enumerate(INITIALISATIONS))
    return Panel(
        tuple(series),
        name,
        "initialisation",
        "final loss / loss of the line",
        x_limits=(-0.5, len(names) - 0.5),
        y_limits=(-0.08, 1.15),
        x_ticks=names,
    )


def run_width(parameters: Values, progress: Progress) -> Findings:
    """Train networks of growing width on the three points and compare their limits."""
    dataset, widths = three_points(), parameters["widths"]
    line = least_squares(dataset)
    runs = [
        gradient_descent(
            initialize.balanced(width, 2, init_scale=parameters["init_scale"], seed=parameters["seed"]),
            dataset,
            step=parameters["step"],
            steps=parameters["steps"],
            engine=parameters["engine"],
            record=Record.geometric(parameters["points"], networks=False),
            progress=part(progress, number, len(widths), f"{width:,} neurons"),
        )
        for number, width in enumerate(widths)
    ]
    inside = dataset.inputs @ line.coefficients
    distances = {
        m: float(np.max(np.abs(run.final(dataset.inputs) - inside)))
        for m, run in zip(widths, runs, strict=True)
    }
    return Findings((_width_figure(runs, dataset, widths),), width_claims(distances, parameters["distance"]))


def width_claims(distances: Mapping[int, float], tolerance: float) -> tuple[Claim, ...]:
    """Return the claim about the distance to the line by width."""
    found = Interval.exact(max(distances.values()))
    words = "largest distance {}; " + "; ".join(f"m = {m:,}: {d:.1g}" for m, d in distances.items())
    statement = "Networks of every width end in the least-squares line (Theorem 2 holds for any m)"
    return (Claim.that(statement, "the same limit", found, most=tolerance, words=words),)


def _width_figure(runs: list[Trajectory], dataset: Dataset, widths: tuple[int, ...]) -> Figure:
    x, line = line_grid(dataset, 41), least_squares(dataset)
    functions, losses = list[Series](), list[Series]()
    for run, width, size in zip(runs, widths, np.linspace(2.2, 0.6, len(widths)).tolist(), strict=True):
        label = f"m = {width:,}"
        functions.append(Series(x, function_on_line(run.final, x, dataset), label, size=size))
        excess = np.abs(run.losses[1:] - line.loss)
        losses.append(Series(run.times[1:], np.where(excess > 1e-15, excess, np.nan), label, size=size))
    functions.append(data_series(dataset))
    panels = (
        Panel(tuple(functions), "functions at the end", "x", "h(x)", y_limits=(-0.1, 1.3)),
        Panel(
            tuple(losses),
            "distance to the line's loss",
            "time (step × iterations)",
            "|L − L_β*|",
            "log",
            "log",
        ),
    )
    return Figure("width", "Three points: the same limit at every width", panels)


_SMALL = {"init_scale": 1e-3, "engine": "cones"}

FIG1 = Experiment(
    "early_alignment/fig1",
    "The data: Assumption 3, the three points, Stewart's teacher",
    "Figure 1, §4, §6, App. B",
    scales({"assumed": ASSUMED, "size": 40, "seed": 0, "random": 300}, paper={"random": 3000}),
    run_fig1,
    cost={"quick": 1.1, "paper": 3.4},
)
NATURE = Experiment(
    "early_alignment/nature",
    "Saddle or local minimum: the limits of balanced, dominated and unbalanced starts",
    "§5, App. B.1",
    scales(
        {**_SMALL, "step": 2e-3, "coarse_step": 2e-2},
        quick={"width": 2_000, "until": 400.0, "seeds": (0, 1, 2)},
        paper={"width": 200_000, "until": 4_000.0, "seeds": (0, 1, 2, 3, 4)},
    ),
    run_nature,
    cost={"quick": 3.9, "paper": 2100},
)
WIDTH = Experiment(
    "early_alignment/width",
    "Three points: the same limit for every width",
    "Theorem 2, §6",
    scales(
        {**_SMALL, "seed": 0},
        quick={
            "widths": (100, 1_000, 10_000),
            "step": 1e-2,
            "steps": 40_000,
            "points": 100,
            "distance": 1e-6,
        },
        paper={
            "widths": (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
            "step": 2e-3,
            "steps": 2_000_000,
            "points": 40,
            "distance": 1e-9,
        },
    ),
    run_width,
    cost={"quick": 0.1, "paper": 74},
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
