"""What the theorems ask of the paper's example, what of their promises runs show, and the counter-example.

Their constants are far from any experiment: a note under the figure says by how much. What can be judged is
judged: propositions on random positions and along runs, the lemmas of App. A along a run, recovery by the
time T for as many neurons as Theorem 1 asks for.

`orders` measures how fast the errors vanish (App. D.2): SGD and the flow in h, the flow and the limit in ε,
the limits in η. No range is chosen by what comes out. The start is the published one, positions u; the time
is half of the earliest at which the limit brings a neuron to a jump. h goes from Table 1's 10⁻⁵ to App. C's
10⁻³, with the η of Table 1 (and an ε that makes the runs short: the comparison is at equal ε). ε goes down
from Table 1's by two decades, η by halves, both from within 𝒰 (Δ(u) > 2η), where the limit (5) is defined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.arrays import Floats
from shallowflow.certificates import Certificate, Hypothesis, Promise, certify
from shallowflow.data import PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import stochastic_descent
from shallowflow.dynamics.flow import population_flow, two_timescale_limit
from shallowflow.dynamics.heaviside import hitting_times
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import PRINTED, PUBLISHED, function_panel
from shallowflow.landscape import fate_of_last_piece, feature_gram, separation, step_class, well_separated
from shallowflow.landscape.two_timescale.step_classes import RECOVERS, SECOND_ONLY, STUCK, fast_time
from shallowflow.models import StepNetwork, initialize


def run_theorems(parameters: Values, progress: Progress) -> Findings:
    """State what the theorems ask of the printed example, and judge what they promise."""
    known = step_class(PRINTED.target)
    width = int(np.ceil(known.neurons(parameters["delta"])))
    progress(0.1, "Lemma 10")
    claims = [lemma_10_claim(*_good(parameters, width), parameters["delta"], width)]
    progress(0.3, "Proposition 1")
    claims.append(prop_1_claim(_curvatures(parameters)))
    progress(0.4, "Proposition 4")
    claims += tracking_claims(_tracking(parameters), parameters["tiny_epsilon"])
    progress(0.6, "lemmas")
    claims.append(lemmas_claim(_lemmas(parameters)))
    progress(0.8, "recovery")
    wide = initialize.uniform_positions(width, sharpness=parameters["sharpness"], seed=parameters["seed"])
    limit = two_timescale_limit(
        StepNetwork(wide.positions, wide.outer), PRINTED.target, until=known.slow_time
    )
    claims.append(recovery_claim(_last_times(parameters, width), parameters["error"], width))
    return Findings((_recovery_figure(limit, width, _asked(parameters, wide)),), tuple(claims))


def _asked(parameters: Values, wide: StepNetwork) -> tuple[str, ...]:
    """Return what Theorems 1 and 2 ask of the paper's example, and by what factors it misses them."""
    width, chosen = wide.width, {"delta": parameters["delta"], "error": parameters["error"]}
    epsilon = parameters["epsilon"]
    asked = certify("two_timescale/theorem-1", wide, PRINTED.target, epsilon=epsilon, **chosen)
    second = certify("two_timescale/theorem-2", wide, PRINTED.target, **chosen)
    phase = fast_time(width, step_class(PRINTED.target), parameters["delta"])
    return (
        f"Theorem 1 asks for m ≥ {width} (the example has 20), then η ≤ {_miss(asked, 'η')} and "
        f"ε ≤ {_miss(asked, 'ε')}; Theorem 2 for η ≤ {_miss(second, 'η')}. The fast phase of B.6 lasts until "
        f"T_0 = {phase:.2g}. The proofs do not aim at good constants (2⁻²¹, 2⁻³⁶) nor at small powers of m.",
    )


def _miss(certificate: Certificate, symbol: str) -> str:
    """Return a bound and by what factor the example misses it."""
    found = _small_enough(certificate, symbol)
    assert found.value is not None
    assert found.bound is not None
    return f"{found.bound:.1e} (missed by {found.value / found.bound:.1e})"


def _small_enough(certificate: Certificate, symbol: str) -> Hypothesis:
    """Return the hypothesis that a symbol is small enough."""
    (found,) = (one for one in certificate.hypotheses if one.name.startswith(f"{symbol} is small enough"))
    return found


def _good(parameters: Values, width: int) -> tuple[int, int]:
    """Return how many of some draws are D-good."""
    network = initialize.uniform_positions(width, sharpness=parameters["sharpness"], seed=0)
    chosen = {name: parameters[name] for name in ("delta", "samples", "seed")}
    share = certify("two_timescale/lemma-10", network, PRINTED.target, **chosen).promises[0].observed
    assert share is not None
    return round(share * parameters["samples"]), parameters["samples"]


def lemma_10_claim(good: int, draws: int, delta: float, width: int) -> Claim:
    """Judge Lemma 10 by draws."""
    return Claim.that(
        f"Lemma 10: uniform positions are D-good with probability 1 − δ, δ = {delta:g}",
        f"≥ {1 - delta:g}",
        Interval.of_share(good, draws),
        least=1 - delta,
        words=f"share {{}} of {draws} draws, m = {width}",
    )


def _curvatures(parameters: Values) -> list[float]:
    """Return λ_min(H)/(Δ/8) for random positions in 𝒰, of random number and smoothness."""
    rng, found = np.random.default_rng(parameters["seed"]), list[float]()
    while len(found) < parameters["draws"]:
        width, sharpness = int(rng.integers(1, 30)), 10 ** rng.uniform(-6, -2)
        network = StepNetwork(rng.random(width), np.zeros(width), 0.0, sharpness)
        if well_separated(network):
            least = float(np.linalg.eigvalsh(feature_gram(network))[0])
            found.append(8 * least / separation(network))
    return found


def prop_1_claim(ratios: Sequence[float]) -> Claim:
    """Judge Proposition 1: the ratio of the least eigenvalue to its bound is at least 1, always."""
    return Claim.that(
        "Proposition 1: the least eigenvalue of H(u) is at least Δ(u)/8 on 𝒰",
        "≥ 1 times Δ(u)/8",
        Interval.exact(min(ratios)),
        least=1,
        words=f"at least {{}} times it over {len(ratios)} random positions",
    )


def _even(parameters: Values, sharpness: float) -> StepNetwork:
    width = parameters["width"]
    return StepNetwork((np.arange(width) + 0.3) / width, np.zeros(width), 0.0, sharpness)


def _tracking(parameters: Values) -> Certificate:
    """Return Proposition 4 on a run so slow that its hypotheses hold."""
    even, epsilon = _even(parameters, parameters["even_sharpness"]), parameters["tiny_epsilon"]
    flow = population_flow(even, PRINTED.target, until=parameters["until"], epsilon=epsilon)
    return certify("two_timescale/prop-4", even, PRINTED.target, flow, epsilon=epsilon)


def tracking_claims(found: Certificate, epsilon: float) -> list[Claim]:
    """Judge Proposition 4 where its bound is tightest, and after the fast phase."""
    why = "" if found.holds else "a hypothesis of the proposition fails"
    return [_bound_claim(one, epsilon, why) for one in found.promises]


def _bound_claim(promise: Promise, epsilon: float, why: str) -> Claim:
    late = promise.statement.startswith("after")
    share = None if promise.observed is None or not promise.bound else promise.observed / promise.bound
    claim = Claim.that(
        f"Proposition 4: the weights follow a*(u) within its bound{', after the fast phase' if late else ''}",
        f"{promise.statement} {promise.bound:.3g}",
        Interval.exact(np.nan if share is None else share),
        most=1,
        words=f"{promise.observed or 0:.2g}: {{}} of the bound, at ε = {epsilon:g}",
    )
    undecided = why or ("the run ends before" if share is None else "")
    return Claim(**{**vars(claim), "holds": None, "reason": undecided}) if undecided else claim


def _lemmas(parameters: Values) -> dict[str, float]:
    """Return how much of each bound of App. A is used along a run of the limit, at most."""
    start = _even(parameters, parameters["sharpness"])
    run = two_timescale_limit(start, PRINTED.target, until=parameters["slow_until"])
    found = certify("two_timescale/appendix-a", start, PRINTED.target, run)
    return {
        one.statement: one.observed / one.bound
        for one in found.promises
        if one.bound is not None and one.observed is not None
    }


def lemmas_claim(shares: Mapping[str, float]) -> Claim:
    """Judge the lemmas of App. A along a run: none uses more than its bound."""
    words = "; ".join(f"{name}: {100 * share:.2g} %" for name, share in sorted(shares.items()))
    return Claim.that(
        "Lemmas 1 to 9 hold along a run of the limit",
        "each is a bound",
        Interval.exact(max(shares.values())),
        most=1 + 1e-12,
        words=f"the largest share of a bound is {{}} ({words})",
    )


def _last_times(parameters: Values, width: int) -> list[float]:
    """Return the last hitting time over T for uniform starts of as many neurons as Theorem 1 asks for."""
    until = step_class(PRINTED.target).slow_time
    starts = (
        initialize.uniform_positions(width, sharpness=0.0, seed=seed) for seed in range(parameters["starts"])
    )
    return [float(hitting_times(start, PRINTED.target).max()) / until for start in starts]


def recovery_claim(shares: Sequence[float], error: float, width: int) -> Claim:
    """Judge what Theorem 2 promises, in the limit η → 0, for the starts that (2) asks for."""
    kept = sum(share <= 1 for share in shares)
    return Claim.that(
        "What Theorem 2 promises comes true, in the limit η → 0",
        f"∫(f − f*)² ≤ ξ = {error:g} at τ = T = 6/(Δf)² with probability 1 − δ",
        Interval.of_share(kept, len(shares)),
        least=0.9,
        words=f"the error is 0 by then from a share {{}} of {len(shares)} starts with m = {width}; the last "
        f"jump is reached by {max(shares):.2g} T",
    )


def _recovery_figure(limit: Trajectory, width: int, notes: tuple[str, ...]) -> Figure:
    end = function_panel(limit.final, PRINTED.target, "at τ = 6/(Δf)²", "limit, η = 0")
    curve = Series(limit.times[1:], 2 * limit.losses[1:], tone="green")
    error = Panel((curve,), f"two-timescale limit, m = {width}", "τ", "∫(f − f*)²", "log", "log")
    return Figure(
        "theorems", "Recovery with as many neurons as Theorem 1 asks for", (error, end), notes=notes
    )


THEOREMS = Experiment(
    "two_timescale/theorems",
    "What the theorems ask, and what comes true",
    "Theorems 1 and 2, Lemmas 1 to 10, Propositions 1 to 4",
    scales(
        {
            "delta": 0.1,
            "error": 0.01,
            "sharpness": 1e-3,
            "epsilon": 2e-5,
            "seed": 0,
            "width": 18,
            "even_sharpness": 1e-4,
            "tiny_epsilon": 1e-13,
            "until": 10_000.0,
            "slow_until": 0.02,
        },
        quick={"samples": 300, "draws": 200, "starts": 50},
        paper={"samples": 5000, "draws": 2000, "starts": 500},
    ),
    run_theorems,
    cost={"quick": 2.3, "paper": 3.9},
)


NAMES = {
    "h": ("SGD and the flow with the same ε", "h", 0.5),
    "epsilon": ("the flow and the limit with the same η", "ε", 1.0),
    "sharpness": ("the limits with η and with 0", "η", 1.0),
}
"""What is compared, the letter, and the order that the proofs let one expect."""
SLACK = 0.25
"""Orders are multiples of ½: so far from one, another one is as near."""
DOMAIN = 0.25
"""η over Δ(u): half of the largest η in 𝒰, §5.1."""


def run_orders(parameters: Values, progress: Progress) -> Findings:
    """Measure how far the positions are apart, at a time before the first jump is reached."""
    sharp = training.start_of({**parameters, "sharpness": 0.0}, PUBLISHED)
    until = 0.5 * float(hitting_times(sharp, PRINTED.target).min())
    inside = DOMAIN * separation(sharp)
    parameters = {
        **parameters,
        "until": until,
        "inside": inside,
        "sharpness": tuple(inside * 0.5**k for k in range(parameters["halvings"])),
    }
    found: dict[str, tuple[Floats, Floats]] = {}
    for done, (name, measure) in enumerate(
        (("h", _over_step), ("epsilon", _over_epsilon), ("sharpness", _over_sharpness))
    ):
        progress(done / 3, NAMES[name][0])
        values = np.array(parameters[name])
        found[name] = values, np.array([measure(sharp, value, parameters) for value in values.tolist()])
    panels = tuple(_order_panel(name, *found[name]) for name in found)
    caption = (
        "The largest distance of the positions of two systems at a time before any jump is reached, over "
        "what separates them; dashed: the order expected."
    )
    figure = Figure("orders", "How fast the errors vanish", panels, caption, columns=3)
    return Findings((figure,), tuple(order_claim(name, slope(*found[name])) for name in found))


def _far(first: object, second: object) -> float:
    assert isinstance(first, StepNetwork)
    assert isinstance(second, StepNetwork)
    return float(np.abs(first.positions - second.positions).max())


def _smooth(sharp: StepNetwork, sharpness: float) -> StepNetwork:
    return StepNetwork(sharp.positions, sharp.outer, 0.0, sharpness)


def _over_step(sharp: StepNetwork, step: float, parameters: Values) -> float:
    """Return the root mean square over seeds of the distance of SGD to the flow."""
    network = _smooth(sharp, parameters["printed_sharpness"])
    epsilon, until = parameters["ratio"], parameters["until"]
    flow = population_flow(network, PRINTED.target, until=until / epsilon, epsilon=epsilon, tolerance=1e-9)
    ends = [
        stochastic_descent(
            network,
            PRINTED.target,
            step=step,
            steps=round(until / (epsilon * step)),
            epsilon=epsilon,
            noise=1.0,
            seed=seed,
            record=Record.geometric(2),
        ).final
        for seed in range(parameters["seeds"])
    ]
    return float(np.sqrt(np.mean([_far(end, flow.final) ** 2 for end in ends])))


def _over_epsilon(sharp: StepNetwork, epsilon: float, parameters: Values) -> float:
    network, until = _smooth(sharp, parameters["inside"]), parameters["until"]
    flow = population_flow(network, PRINTED.target, until=until / epsilon, epsilon=epsilon, tolerance=1e-9)
    limit = two_timescale_limit(network, PRINTED.target, until=until, tolerance=1e-9)
    return _far(flow.final, limit.final)


def _over_sharpness(sharp: StepNetwork, sharpness: float, parameters: Values) -> float:
    until = parameters["until"]
    return _far(
        two_timescale_limit(_smooth(sharp, sharpness), PRINTED.target, until=until, tolerance=1e-10).final,
        two_timescale_limit(sharp, PRINTED.target, until=until).final,
    )


def slope(values: Sequence[float] | Floats, errors: Sequence[float] | Floats) -> Interval:
    """Return the slope of log error over log value, with the interval of a regression line."""
    from scipy.stats import linregress, t

    found = linregress(np.log(values), np.log(errors))
    reach = float(found.stderr) * float(t.ppf(0.975, len(values) - 2)) if len(values) > 2 else np.inf
    return Interval(float(found.slope), float(found.slope) - reach, float(found.slope) + reach)


def order_claim(name: str, found: Interval) -> Claim:
    """Judge an order: what the perturbation argument of App. D.2 lets one expect."""
    words, letter, order = NAMES[name]
    return Claim.that(
        f"The distance of {words} is of order {letter}^{order:g}".removesuffix("^1"),
        "the errors are small with the parameter (Props 3, 4, App. D.2); no order is named",
        found,
        least=order - SLACK,
        most=order + SLACK,
        words=f"slope {{}} over {letter}",
        ours=True,
    )


def _order_panel(name: str, values: Floats, errors: Floats) -> Panel:
    words, letter, order = NAMES[name]
    middle = len(values) // 2
    guide = errors[middle] * (values / values[middle]) ** order
    series = (
        Series(values, errors, "measured", style="points", tone="blue"),
        Series(values, guide, f"order {order:g}", style="dashed", tone="muted"),
    )
    return Panel(series, words, letter, "max |u − u'|", "log", "log")


ORDERS = Experiment(
    "two_timescale/orders",
    "How fast SGD, the flow and the limits approach each other",
    "App. D.2, Propositions 3 and 4",
    scales(
        {
            "width": 20,
            "printed_sharpness": training.COMMON["sharpness"],
            "halvings": 5,
            "epsilon": tuple(2e-5 * 10 ** (-0.5 * k) for k in range(5)),
            "ratio": 1e-3,
        },
        quick={"h": (1e-3, 3e-4, 1e-4, 3e-5, 1e-5), "seeds": 10},
        paper={"h": (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6), "seeds": 50},
    ),
    run_orders,
    cost={"quick": 3, "paper": 5.8},
)


LEVELS = (1.0, -1.0, 0.0)
CASES = (("equal lengths", 0.3), ("first piece longer", 0.35), ("second piece longer", 0.25))
STILL = 1e-9
"""A move below this is rounding."""
OFTEN = 0.5
"""Share that "often" asks for."""
WHY = {
    STUCK: "",
    RECOVERS: "the bias is the mean M > 0 of the first two pieces, not 0: it pulls the leftmost neuron to "
    "the second jump and, as |−1 − M| > 1, past it to the first; the next neuron follows to the second",
    SECOND_ONLY: "the bias is the mean M ∈ (−1, 0) of the first two "
    "pieces and pulls the leftmost neuron to the second jump; left of that u' = ½[1 − (1 + M)²] > 0, so it "
    "stays",
}


def _outcome(run: Trajectory) -> str:
    """Return what became of the neurons in a run with η = 0."""
    reached = {event.point for event in run.events if event.kind == "hit"}
    return RECOVERS if reached == {0, 1} else SECOND_ONLY if reached == {1} else STUCK


def run_counterexample(parameters: Values, progress: Progress) -> Findings:
    """Follow the limit from neurons on the third piece: three pairs of lengths, then random targets."""
    panels, claims = list[Panel](), list[Claim]()
    (low, high), until = parameters["between"], parameters["until"]
    positions = np.linspace(low, high, parameters["width"])
    still = StepNetwork(positions, np.zeros(len(positions)))
    smooth = StepNetwork(positions, np.zeros(len(positions)), 0.0, parameters["sharpness"])
    for words, first in CASES:
        progress(0.0, words)
        target = PiecewiseConstant([first, parameters["second"]], LEVELS)
        sharp_run = two_timescale_limit(still, target, until=until)
        smooth_run = two_timescale_limit(smooth, target, until=until, stiff=True, tolerance=1e-6)
        panels.append(function_panel(sharp_run.final, target, f"{words}: at the end", "limit, η = 0"))
        claims += _lengths_claims(words, sharp_run, smooth_run)
    targets = _random_targets(parameters)
    outcomes = []
    for done, target in enumerate(targets):
        progress(done / len(targets), "random targets")
        outcomes.append(_outcome(two_timescale_limit(still, target, until=parameters["long"])))
    claims += random_claims([fate_of_last_piece(target) for target in targets], outcomes)
    claims.append(middle_claim(_middle(parameters, progress), parameters["targets"]))
    caption = "Values 1, −1, 0; all neurons start on the last piece."
    lengths = Figure("counterexample", "Neurons on one piece only", tuple(panels), caption, columns=3)
    fates = Figure(
        "counterexample-levels",
        "Neurons on the last piece only, random levels and lengths",
        (_fates_panel(targets, outcomes),),
        "Above the line the target is recovered, below it the first neuron stops at the second jump.",
        columns=1,
    )
    return Findings((lengths, fates), tuple(claims))


def _lengths_claims(words: str, sharp: Trajectory, smooth: Trajectory) -> list[Claim]:
    """Judge both halves of App. D.1 apart: that nothing moves, and that recovery fails."""
    outcome, moved = _outcome(sharp), np.abs(_positions(sharp.final) - _positions(sharp.initial)).max()
    hits = len({event.point for event in sharp.events if event.kind == "hit"})
    eta = getattr(smooth.final, "sharpness", 0.0)
    still = outcome == STUCK and moved < STILL
    return [
        Claim(
            "Neurons on the third piece do not move (App. D.1)",
            "weights and bias are zero at once, positions do not move (lengths are not named)",
            f"positions move by {moved:.3f} at most",
            still,
            "" if still else WHY[outcome],
            f"if one moves by more than {STILL:g}",
            setting=words,
        ),
        Claim(
            "The target is not recovered (App. D.1)",
            "a local minimum",
            f"∫(f − f*)²: {2 * float(sharp.losses[0]):.3f} → {2 * float(sharp.losses[-1]):.3f}, {hits} of 2 "
            f"jumps covered at η = 0; {2 * float(smooth.losses[-1]):.3f} with η = {eta:g}",
            outcome != RECOVERS,
            WHY[outcome],
            "if both jumps are reached",
            setting=words,
        ),
    ]


def _positions(network: object) -> Floats:
    assert isinstance(network, StepNetwork)
    return network.positions


def _random_targets(parameters: Values) -> list[PiecewiseConstant]:
    """Return targets of three pieces with normal levels and uniform jumps left of the neurons."""
    rng = np.random.default_rng(parameters["seed"])
    return [
        PiecewiseConstant(np.sort(rng.uniform(0.0, parameters["second"], 2)), rng.normal(size=3))
        for _ in range(parameters["targets"])
    ]


def random_claims(foretold: list[str], outcomes: list[str]) -> list[Claim]:
    """Judge random targets: how many are not recovered, and whether that is foretold."""
    total, kept = len(outcomes), sum(outcome != RECOVERS for outcome in outcomes)
    right = sum(first == second for first, second in zip(foretold, outcomes, strict=True))
    return [
        Claim.that(
            "Two consecutive pieces without a neuron often mean a local minimum: the first two (App. D.1)",
            "often",
            Interval.of_share(kept, total),
            least=OFTEN,
            words=f"share {{}} of {total} random targets is not recovered: {outcomes.count(STUCK)} because "
            f"nothing moves, {outcomes.count(SECOND_ONLY)} because the first neuron stops at the second jump",
        ),
        Claim.that(
            "It is recovered if and only if |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|",
            "the paper gives one example; s₁, s₂: the jumps, ℓ₁, ℓ₂: the lengths of the empty pieces",
            Interval.exact(right),
            least=total,
            words=f"right for {{}} of {total} random targets",
            ours=True,
        ),
    ]


def _middle(parameters: Values, progress: Progress) -> int:
    """Return how many of some random targets of four pieces are not recovered if the middle two are empty."""
    rng, kept = np.random.default_rng(parameters["seed"] + 1), 0
    for done in range(parameters["targets"]):
        progress(done / parameters["targets"], "two empty pieces in the middle")
        jumps = np.sort(rng.uniform(0.1, 0.9, 3))
        target = PiecewiseConstant(jumps, rng.normal(size=4))
        places = np.concatenate(
            [jumps[0] * np.array([0.2, 0.5, 0.8]), jumps[2] + (1 - jumps[2]) * np.array([0.2, 0.5, 0.8])]
        )
        run = two_timescale_limit(StepNetwork(places, np.zeros(6)), target, until=parameters["long"])
        kept += bool(run.losses[-1] > STILL)
    return kept


def middle_claim(kept: int, total: int) -> Claim:
    """Judge "often" for two empty pieces between others."""
    return Claim.that(
        "Two consecutive pieces without a neuron often mean a local minimum: the middle ones (App. D.1)",
        "often",
        Interval.of_share(kept, total),
        least=OFTEN,
        words=f"share {{}} of {total} random targets is not recovered",
    )


def _fates_panel(targets: list[PiecewiseConstant], outcomes: list[str]) -> Panel:
    ratio = np.array([abs(t.jumps[1] / t.jumps[0]) for t in targets])
    share = np.array([t.breakpoints[0] / t.breakpoints[1] for t in targets])
    line = np.geomspace(1e-2, 1.0, 50)
    series = [Series(line, line, "|s₁| ℓ₁/(ℓ₁ + ℓ₂) = |s₂|", style="dashed", tone="muted")]
    for outcome, tone in ((RECOVERS, "green"), (SECOND_ONLY, "orange")):
        chosen = np.array([one == outcome for one in outcomes])
        series.append(Series(ratio[chosen], share[chosen], outcome, style="points", tone=tone, size=0.7))
    series.append(Series([0.5], [0.5], "paper, equal lengths", style="crosses", tone="red"))
    labels = "random levels and lengths", "|s₂| / |s₁|", "ℓ₁/(ℓ₁ + ℓ₂)"
    return Panel(tuple(series), *labels, x_scale="log", y_limits=(0.0, 1.0))


COUNTEREXAMPLE = Experiment(
    "two_timescale/counterexample",
    "Neurons on one piece only: stuck, or not",
    "App. D.1",
    scales(
        {
            "width": 6,
            "between": (0.65, 0.95),
            "second": 0.6,
            "sharpness": 4e-3,
            "until": 3000.0,
            "long": 1e9,
            "seed": 0,
        },
        quick={"targets": 20},
        paper={"targets": 200},
    ),
    run_counterexample,
    cost={"quick": 6.6, "paper": 150},
)
