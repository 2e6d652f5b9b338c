"""The order of the errors (App. D.2): SGD and the flow in h, the flow and the limit in ε, the limits in η.

No range is chosen by what comes out. The start is the published one, positions u; the time is half of the
earliest at which the limit brings a neuron to a jump. h goes from Table 1's 10⁻⁵ to App. C's 10⁻³, with the η
of Table 1 (and an ε that makes the runs short: the comparison is at equal ε). ε goes down from Table 1's by
two decades, η by halves, both from within 𝒰 (Δ(u) > 2η), where the limit (5) is defined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.arrays import Floats
from shallowflow.data import PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.population import population_flow
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.two_timescale import hitting_times, two_timescale_limit
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import PRINTED, PUBLISHED
from shallowflow.landscape import separation
from shallowflow.models import StepNetwork

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
    until = 0.5 * float(hitting_times(sharp, _target()).min())
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
    panels = tuple(_panel(name, *found[name]) for name in found)
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


def _target() -> PiecewiseConstant:
    return PRINTED.target


def _smooth(sharp: StepNetwork, sharpness: float) -> StepNetwork:
    return StepNetwork(sharp.positions, sharp.outer, 0.0, sharpness)


def _over_step(sharp: StepNetwork, step: float, parameters: Values) -> float:
    """Return the root mean square over seeds of the distance of SGD to the flow."""
    network = _smooth(sharp, parameters["printed_sharpness"])
    epsilon, until = parameters["ratio"], parameters["until"]
    flow = population_flow(network, _target(), until=until / epsilon, epsilon=epsilon, tolerance=1e-9)
    ends = [
        stochastic_descent(
            network,
            _target(),
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
    flow = population_flow(network, _target(), until=until / epsilon, epsilon=epsilon, tolerance=1e-9)
    limit = two_timescale_limit(network, _target(), until=until, tolerance=1e-9)
    return _far(flow.final, limit.final)


def _over_sharpness(sharp: StepNetwork, sharpness: float, parameters: Values) -> float:
    until = parameters["until"]
    return _far(
        two_timescale_limit(_smooth(sharp, sharpness), _target(), until=until, tolerance=1e-10).final,
        two_timescale_limit(sharp, _target(), until=until).final,
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


def _panel(name: str, values: Floats, errors: Floats) -> Panel:
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
    cost={},
)
