"""Theorems 1 and 2 on simulations.

**Theorem 1**: how far the neurons are from extremal vectors at τ, against the scale λ.

**The phases of Theorem 2's proof**, measured: Lemmas 4 to 7, and the exponential rate of the last phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.certificates import Certificate, certify
from shallowflow.data import Dataset
from shallowflow.data.generators import sphere, three_points
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.early_alignment.examples import random_assumed, random_corners
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
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import (
    AlignmentThreshold,
    ExtremalVector,
    alignment_threshold,
    extremal_vectors,
    neuron_alignment,
)
from shallowflow.landscape.early_alignment.ends import (
    PhaseState,
    init_scale,
    least_squares,
    local_rate,
    phase_state,
    pl_constant,
    spurious_conditions,
)
from shallowflow.landscape.early_alignment.extremal import largest_misalignments
from shallowflow.models import ReLUNetwork, initialize
from shallowflow.readings.curves import log_slope
from shallowflow.readings.phases import phases

ON_HYPERPLANE = 1e-6
"""A neuron of a flow this close to a data hyperplane (in angle) lies on it."""
SLACK = 0.02
"""A measured exponent may fall short of the predicted one by this share: it is a fit."""


@dataclass(frozen=True)
class Sweep:
    """Flows until τ on one data set for several scales λ: (k,) each; errors (k, v) by extremal vector."""

    dataset: Dataset
    threshold: AlignmentThreshold
    vectors: tuple[ExtremalVector, ...]
    scales: Floats
    errors: Floats
    elsewhere: Floats
    certificates: tuple[Certificate, ...]

    @property
    def predicted(self) -> Floats:
        """The predicted power of λ for every extremal vector, (v,)."""
        return np.array([self.threshold.exponent(vector.norm) for vector in self.vectors])

    @property
    def measured(self) -> Floats:
        """The power of λ on the smaller half of the scales, (v,); NaN: no neuron at the vector."""
        half = len(self.scales) // 2
        late = self.errors[half:].T
        return np.array(
            [log_slope(self.scales[half:], row) if np.isfinite(row).all() else np.nan for row in late]
        )


def run_theorem1(parameters: Values, progress: Progress) -> Findings:
    """Sweep λ on the three points and on data with several extremal vectors."""
    data = three_points(), sphere(parameters["size"], 2, seed=parameters["data_seed"])
    sweeps = [
        sweep(dataset, parameters, part(progress, number, 2, f"aligning on {dataset.name}"))
        for number, dataset in enumerate(data)
    ]
    claims = tuple(claim for one in sweeps for claim in sweep_claims(one))
    panels = tuple(_panel(one) for one in sweeps)
    caption = (
        "Solid: the largest ‖D‖ − ⟨D, w/a⟩ at τ over the neurons of Condition 1 at each extremal vector. "
        "Dashed: the predicted order λ^(ε‖D‖/D_max), drawn through the last point."
    )
    return Findings((Figure("theorem1", "Alignment error at τ against the scale", panels, caption),), claims)


def sweep(dataset: Dataset, parameters: Values, progress: Callable[[float], None]) -> Sweep:
    """Return what flows until τ show, for scales from just below λ* down."""
    options = {name: parameters[name] for name in ("epsilon", "alpha_0")}
    threshold = alignment_threshold(dataset, **options)
    vectors = tuple(extremal_vectors(dataset))
    norms = np.array([vector.norm for vector in vectors])
    asked = threshold.scale * np.geomspace(0.9, parameters["smallest"], parameters["scales"])
    scales, errors, elsewhere, certificates = [], [], [], []
    for number, scale in enumerate(asked.tolist()):
        network = initialize.dominated(parameters["width"], 2, init_scale=scale, seed=parameters["seed"])
        scales.append(init_scale(network))
        trajectory = gradient_flow(network, dataset, until=threshold.time(scales[-1]))
        certificates.append(certify("early_alignment/theorem-1", network, dataset, trajectory, **options))
        final = trajectory.final
        assert isinstance(final, ReLUNetwork)
        first, last = (
            neuron_alignment(network, dataset),
            neuron_alignment(final, dataset, tolerance=ON_HYPERPLANE),
        )
        found = largest_misalignments(first, last, norms, parameters["alpha_0"], ON_HYPERPLANE)
        errors.append(found[0])
        elsewhere.append(float(found[1]))
        progress((number + 1) / len(asked))
    arrays = np.array(scales), np.array(errors), np.array(elsewhere)
    return Sweep(dataset, threshold, vectors, *arrays, tuple(certificates))


def sweep_claims(found: Sweep) -> tuple[Claim, ...]:
    """Return the claims about one data set."""
    name, star = found.dataset.name, found.threshold.scale
    factor, bound = found.certificates[-1].promises[0].observed, found.certificates[-1].promises[0].bound
    kept = [all(p.kept for p in one.promises[:2]) and one.holds for one in found.certificates]
    usable = np.isfinite(found.measured)
    measured, predicted = found.measured[usable], found.predicted[usable]
    pairs = [f"{m:.3f} ≥ {p:.3f}" for m, p in zip(measured, predicted, strict=True)]
    return (
        Claim(
            f"{name}: (i) until τ outer weights change by less than λ^(∓2ε), and ‖w_j‖ ≤ |a_j|",
            f"for every λ < λ* = {star:.2g}",
            f"holds for {sum(kept)} of {len(kept)} scales; at the smallest the factor is {factor:.3g}, "
            f"allowed {bound:.3g}",
            all(kept),
            fails_if="if it fails at one scale below λ*",
        ),
        *_alignment_claims(found),
        Claim(
            f"{name}: the error decays with the predicted exponent, or faster",
            "exponent ε‖D‖/D_max for each extremal vector",
            f"measured ≥ predicted: {'; '.join(pairs)}",
            bool(usable.any()) and bool(np.all(measured >= (1 - SLACK) * predicted)),
            "twice the predicted: f' = ‖D‖² − f² closes in on ‖D‖ at the rate 2‖D‖; the proof uses ‖D‖",
            f"if a measured exponent is below {1 - SLACK:g} times the predicted one",
        ),
    )


def _alignment_claims(found: Sweep) -> tuple[Claim, Claim]:
    """Return (ii) in two parts: where the neurons are, where that is proven; and the bound (37)."""
    name, threshold = found.dataset.name, found.threshold
    times = np.array([threshold.time(float(scale)) for scale in found.scales])
    late = times >= threshold.arrival()
    elsewhere = ", ".join(f"{n:.0f}" for n in found.elsewhere)
    norms = [vector.norm for vector in found.vectors]
    bounds = np.array(
        [[threshold.misalignment(float(scale), norm) for norm in norms] for scale in found.scales]
    )
    content = (bounds < 2 * np.array(norms) * (1 - 1e-12)) & np.isfinite(found.errors)
    held = bool(np.all(found.errors[content] <= bounds[content])) if content.any() else None
    proven = f"{int(late.sum())} of {len(late)} scales have τ ≥ t₂ = {threshold.arrival():.3g}"
    return (
        Claim(
            f"{name}: (ii) at τ every neuron of Condition 1 is at an extremal vector, or dead",
            "wherever τ ≥ t₂",
            f"{proven}; neurons elsewhere, from the largest λ to the smallest: {elsewhere}",
            bool(np.all(found.elsewhere[late] == 0)) if late.any() else None,
            "" if late.any() else "the proof speaks of none of these scales: t₂ is too late",
            "if a neuron is elsewhere at a scale with τ ≥ t₂",
        ),
        Claim(
            f"{name}: (ii) its misalignment is at most c·λ^(ε‖D‖/D_max) (37)",
            "‖D‖ − ⟨D, w/a⟩ within the bound",
            f"the bound is below its trivial value 2‖D‖ in {int(content.sum())} of {content.size} cases",
            held,
            "" if content.any() else "the constant c is so large that the bound says nothing at these scales",
            "if a misalignment exceeds a bound below 2‖D‖",
        ),
    )


def _panel(found: Sweep) -> Panel:
    series: list[Series] = []
    tones = ("blue", "red", "green", "pink", "orange", "sky")
    for tone, v in zip(tones, np.flatnonzero(np.isfinite(found.measured)), strict=False):
        label = f"{found.vectors[v].kind}, ‖D‖ = {found.vectors[v].norm / found.threshold.d_max:.2f} D_max"
        order = found.errors[-1, v] * (found.scales / found.scales[-1]) ** found.predicted[v]
        series += [
            Series(found.scales, found.errors[:, v], label, tone=tone),
            Series(
                found.scales,
                order,
                "" if series else "order λ^(ε‖D‖/D_max), not a bound",
                style="dashed",
                tone=tone,
                size=0.6,
            ),
        ]
    title = f"{found.dataset.name}, λ* = {found.threshold.scale:.2g}"
    labels = "initialisation scale λ", "largest misalignment at τ", "log", "log"
    return Panel(tuple(series), title, *labels, y_limits=(0.3 * float(np.nanmin(found.errors)), 1e3))


THEOREM1 = Experiment(
    "early_alignment/theorem1",
    "Theorem 1 on simulations: alignment error against the scale of initialisation",
    "Theorem 1, §3",
    scales(
        {"epsilon": 0.25, "alpha_0": 0.5, "size": 3, "data_seed": 5, "seed": 0},
        quick={"width": 40, "smallest": 1e-14, "scales": 8},
        paper={"width": 200, "smallest": 1e-30, "scales": 16},
    ),
    run_theorem1,
    cost={"quick": 1.4, "paper": 1.2},
)


MOST = 0.9
"""What a lemma says of every small start is asked of this share of the runs; 36 runs can show it."""
POWERS = 2, 3
"""An order in λ is read off between these powers of the experiment's own λ = 10⁻⁶: not at λ itself, for an
order is about λ → 0, and not at λ⁴, where the misalignment λ^(2ε) of (8), 10⁻¹², has few digits left."""
LN10 = float(np.log(10.0))
DEEP = float(np.sqrt(np.finfo(float).eps))
"""The excess over the line's loss is followed down to this share of it: rounding is then as small a share."""


@dataclass(frozen=True)
class Course:
    """A flow through the phases: the states at τ, τ₂ and τ₃ and at the end, λ, and its last decay.

    reached: how many phases it saw end (3: all but the last); exponent: by which power of λ the misalignment
    at τ falls, between the `POWERS`; slowest: the least rate at which L − L_β* falls in phase 3, over the
    constant of Lemma 21; rate: that of its last decade, over 2ρ, the local rate.
    """

    scale: float
    reached: int
    states: tuple[PhaseState, ...]
    exponent: float
    slowest: float
    rate: float


def follow(dataset: Dataset, init: str, parameters: Values, seed: int) -> tuple[Course, Trajectory]:
    """Return the course of one small start."""
    make = getattr(initialize, init)
    start: ReLUNetwork = make(parameters["width"], 2, init_scale=parameters["init_scale"], seed=seed)
    run = gradient_flow(start, dataset, until=parameters["until"])
    found = phases(run, dataset, epsilon=parameters["epsilon"])
    ends = [phase.end for phase in found if phase.complete]
    states = tuple(phase_state(_relu(run(time)), start, dataset) for time in (*ends, run.times[-1]))
    decay = _decay(run, dataset, ends[2]) if len(ends) == 3 else (0.0, 0.0)
    threshold = alignment_threshold(dataset, epsilon=parameters["epsilon"])
    sizes = [parameters["init_scale"] ** power for power in POWERS]
    tiny = [scaled(start, scale) for scale in sizes]
    misaligned = [_misaligned(one, dataset, threshold.time(init_scale(one))) for one in tiny]
    exponent = float(np.log(misaligned[0] / misaligned[1]) / np.log(sizes[0] / sizes[1]))
    return Course(init_scale(start), len(ends), states, exponent, *decay), run


def scaled(start: ReLUNetwork, scale: float) -> ReLUNetwork:
    """Return the same start at another scale λ."""
    factor = scale / init_scale(start)
    return ReLUNetwork(factor * start.inner, factor * start.outer)


def _misaligned(start: ReLUNetwork, dataset: Dataset, end: float) -> float:
    """Return the largest 1 − ⟨D*, w_i/a_i⟩/‖D*‖ over 𝓘 at time `end`."""
    return 1 - phase_state(_relu(gradient_flow(start, dataset, until=end).final), start, dataset).aligned


def _relu(network: object) -> ReLUNetwork:
    assert isinstance(network, ReLUNetwork)
    return network


def _decay(run: Trajectory, dataset: Dataset, start: float) -> tuple[float, float]:
    """Return the least rate of ln(L − L_β*) from `start` on over Lemma 21's, and its last over the local."""
    line = least_squares(dataset).loss
    times = np.linspace(start, float(run.times[-1]), 400)
    outputs = [_relu(run(float(time)))(dataset.inputs) - dataset.targets for time in times]
    excess = np.array([0.5 * float(np.mean(one**2)) for one in outputs]) - line
    deep = np.flatnonzero(excess < DEEP * line)
    until = int(deep[0]) if deep.size else len(times)
    if until < 2:
        return 0.0, 0.0
    logs, spacing = np.log(excess[:until]), float(times[1] - times[0])
    slowest = float(np.min(-np.diff(logs))) / spacing / pl_constant(dataset)
    last = int(np.flatnonzero(logs >= min(logs[-1] + LN10, logs[0]))[-1])
    rate = float(logs[last] - logs[-1]) / (spacing * max(until - 1 - last, 1))
    return slowest, rate / local_rate(_relu(run.final), dataset)


def run_phases(parameters: Values, progress: Progress) -> Findings:
    """Follow small balanced and dominated starts on random data of Assumption 3."""
    courses, shown = list[Course](), None
    cases = [(number, init) for number in range(parameters["datasets"]) for init in ("balanced", "dominated")]
    for done, (number, init) in enumerate(cases):
        progress(done / len(cases), f"{init} start on data {number}")
        dataset = random_assumed(number, parameters["eta"])
        course, run = follow(dataset, init, parameters, seed=number)
        courses.append(course)
        if shown is None:
            shown = dataset, run
    assert shown is not None
    figure = Figure("phases", "Four phases on data of Assumption 3", _panels(*shown, parameters), columns=2)
    claims = (
        *phase_claims(courses, parameters["epsilon"]),
        *theorem_4_claims(_corners(parameters, progress)),
    )
    return Findings((figure,), claims)


def _corners(parameters: Values, progress: Progress) -> list[tuple[bool, float]]:
    """Return for data of corners whether they satisfy Assumptions 4 to 6, and the loss over the line's."""
    cases = [(2, inside, seed) for inside in (2, 3) for seed in range(parameters["corners"])]
    cases += [(dimension, 2, seed) for dimension in (3, 4) for seed in range(parameters["corners"])]
    found = []
    for dimension, inside, seed in cases:
        progress(0.99, f"Theorem 4 in dimension {dimension}")
        dataset = random_corners(dimension, inside, seed)
        conditions = spurious_conditions(dataset)
        kept = conditions.assumption_4 and conditions.assumption_5 and conditions.assumption_6
        start = initialize.dominated(20, dimension, init_scale=parameters["init_scale"], seed=seed)
        run = gradient_flow(start, dataset, until=parameters["until"], record=Record.geometric(2))
        found.append((kept, float(run.losses[-1]) / least_squares(dataset).loss))
    return found


def theorem_4_claims(found: Sequence[tuple[bool, float]]) -> tuple[Claim, Claim]:
    """Return the claims about (Assumptions 4 to 6 hold, loss over the line's) of several flows."""

    def share(statement: str, published: str, kept: bool, ours: bool) -> Claim:
        ends = [abs(ratio - 1) < 1e-3 for covered, ratio in found if covered == kept]
        among = Interval.of_share(sum(ends), len(ends)) if ends else Interval(np.nan, 0.0, 1.0)
        words = f"{sum(ends)} of {len(ends)} runs, share {{}}"
        return Claim.that(statement, published, among, least=MOST, words=words, ours=ours)

    return (
        share(
            "Theorem 4 with four and five points: small starts end in the least-squares line",
            "β*",
            True,
            False,
        ),
        share(
            "So they do in three and four dimensions, on such data that fail Assumption 6", "–", False, True
        ),
    )


def _panels(dataset: Dataset, run: Trajectory, parameters: Values) -> tuple[Panel, ...]:
    times = np.geomspace(0.1, parameters["until"], 200)
    start = _relu(run.initial)
    states = [phase_state(_relu(run(float(time))), start, dataset) for time in times]
    marks = tuple(
        (phase.end, name)
        for phase, name in zip(
            phases(run, dataset, epsilon=parameters["epsilon"]), ("τ", "τ₂", "τ₃"), strict=False
        )
        if phase.complete
    )
    line = least_squares(dataset).loss
    losses = [
        0.5 * float(np.mean((_relu(run(float(time)))(dataset.inputs) - dataset.targets) ** 2))
        for time in times
    ]
    excess = np.maximum(np.array(losses) - line, np.nan)
    curves = (
        Series(times, [1 - state.aligned for state in states], "1 − ⟨D*, w/a⟩/‖D*‖"),
        Series(times, [state.size for state in states], "Σ a_i² of positive neurons"),
        Series(times, [state.distance for state in states], "‖β* − Σ a_i w_i‖/‖β*‖"),
        Series(times, [state.shrinkage for state in states], "a_i/a_i⁰ of negative neurons"),
    )
    return (
        Panel(curves, "the quantities of Lemmas 4 to 7", "time", "", "log", "log", marks=marks),
        Panel(
            (Series(times, excess, "L − L_β*"),),
            "the last phase",
            "time",
            "excess loss",
            y_scale="log",
            marks=marks,
        ),
    )


def phase_claims(courses: Sequence[Course], epsilon: float) -> tuple[Claim, ...]:
    """Return the claims: one for each point of Lemmas 4 to 7 that says something of a run."""
    whole = [one for one in courses if one.reached == 3]
    first = share(
        "Small starts go through all phases: alignment, growth, fit, convergence (§4.1)",
        "τ < τ₂ < τ₃ < ∞",
        [one.reached == 3 for one in courses],
    )
    return (first, *_early_claims(whole, epsilon), *_late_claims(whole, epsilon), *_rate_claim(whole))


def share(statement: str, published: str, outcomes: list[bool], words: str = "") -> Claim:
    """Return the claim that nearly all runs have a property; open without runs."""
    if not outcomes:
        return Claim(
            statement,
            published,
            "no run went through all phases",
            None,
            "nothing to judge by",
            f"below {MOST:g}",
        )
    found = Interval.of_share(sum(outcomes), len(outcomes))
    text = f"{sum(outcomes)} of {len(outcomes)} runs, share {{}}{'; ' * bool(words)}{words}"
    return Claim.that(statement, published, found, least=MOST, words=text)


def _largest(values: list[float]) -> str:
    return f"{max(values, default=0.0):.2g}"


def _early_claims(whole: Sequence[Course], epsilon: float) -> tuple[Claim, ...]:
    """Return the claims of Lemma 4 and of its later counterparts about other neurons."""
    return (
        share(
            "Lemma 4.1: at τ positive neurons are aligned with D* up to order λ^ε: the power is at least ε",
            "‖D*‖ − O(λ^ε)",
            [one.exponent >= epsilon for one in whole],
            f"least power {min((one.exponent for one in whole), default=0.0):.3g}, ε = {epsilon:g}",
        ),
        share(
            "Lemma 4.1: until τ they grow by no more than λ^(−2ε), and do not shrink",
            "a⁰ ≤ a ≤ a⁰ λ^(−2ε)",
            [1 <= one.states[0].growth * (1 + 1e-9) <= 1.01 * one.scale ** (-2 * epsilon) for one in whole],
        ),
        share(
            "Lemmas 4.2, 5.4: up to τ₂ the negative neurons have not grown",
            "a⁰ ≤ a ≤ 0",
            [max(state.shrinkage for state in one.states[:2]) <= 1 + 1e-9 for one in whole],
            f"largest ratio {_largest([state.shrinkage for one in whole for state in one.states[:2]])}",
        ),
        share(
            "Lemma 4.3: all other neurons never move",
            "w = w⁰, a = a⁰",
            [one.states[-1].moved <= 1e-9 * one.scale for one in whole],
        ),
    )


def _late_claims(whole: Sequence[Course], epsilon: float) -> tuple[Claim, ...]:
    """Return the claims of Lemmas 5 to 7."""
    return (
        share(
            "Lemma 5.3: at τ₂ positive neurons point the same way, up to order λ^(1−ε) (10 λ^(1−ε))",
            "1 − O(λ^(1−ε))",
            [one.states[1].spread <= 10 * one.scale ** (1 - epsilon) for one in whole],
            f"largest 1 − cos {_largest([one.states[1].spread for one in whole])}",
        ),
        share(
            "Lemmas 5.2, 6: at τ₂ and τ₃ they are positively correlated with all points (above 0.01)",
            "⟨w, x_k⟩ = Ω(1)",
            [min(state.correlation for state in one.states[1:3]) > 0.01 for one in whole],
            f"least "
            f"{min((state.correlation for one in whole for state in one.states[1:3]), default=0.0):.2g}",
        ),
        share(
            "Lemma 7: in the end Σ a_i w_i is β* (to 10⁻³)",
            "→ β*",
            [one.states[-1].distance < 1e-3 for one in whole],
            f"largest distance {_largest([one.states[-1].distance for one in whole])}",
        ),
        share(
            "Phase 3 is exponential (Lemma 21): L − L_β* falls at least at the rate σ_min(H)‖β*‖ all along",
            "‖∇L‖² ≥ σ_min(H)‖β*‖ (L − L_β*), H = XᵀX/n",
            [one.slowest >= 1 for one in whole],
            f"least ratio {min((one.slowest for one in whole), default=0.0):.3g}",
        ),
    )


def _rate_claim(whole: Sequence[Course]) -> tuple[Claim, ...]:
    if not whole:
        return ()
    found = Interval.of_mean([one.rate for one in whole])
    statement = "In the end its rate is 2ρ, ρ the least eigenvalue of M XᵀX/n: their ratio is 1 to 5 %"
    return (Claim.that(statement, "–", found, least=0.95, most=1.05, words="mean ratio {}", ours=True),)


PHASES = Experiment(
    "early_alignment/phases",
    "The phases of Theorem 2's proof, measured",
    "Lemmas 4 to 7, §4.1",
    scales(
        {"eta": 0.05, "epsilon": 0.25, "init_scale": 1e-6, "until": 200.0, "corners": 18},
        quick={"datasets": 24, "width": 40},
        paper={"datasets": 60, "width": 1_000},
    ),
    run_phases,
    cost={"quick": 20, "paper": 94},
)
