"""Every claim of [weak_interaction], fed with numbers that must make it hold, fail, or stay open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shallowflow.experiments.experiment import Claim
from shallowflow.experiments.weak_interaction.rates import (
    Bounds,
    Rates,
    Samples,
    Steps,
    bound_claims,
    event_claim,
    rate_claims,
    step_claims,
    stopping_claim,
)
from shallowflow.experiments.weak_interaction.runs import collapse_claims, slope_claim
from shallowflow.experiments.weak_interaction.starts import (
    FirstRates,
    Rule,
    Sample,
    correlated_claim,
    lemma3_claims,
    lemma4_claims,
    rule_claims,
)
from shallowflow.experiments.weak_interaction.thresholds import (
    Law,
    Part,
    budget_claims,
    linear_claim,
    loss_claim,
    transition_claims,
    width_claims,
)
from shallowflow.landscape.weak_interaction.interactions import StartCurvature
from shallowflow.readings.curves import Slope, Threshold


def ends(claims: tuple[Claim, ...]) -> list[bool | None]:
    return [claim.holds for claim in claims]


STEPS = Steps((1e2, 1e100), (0.4, 0.01), (1, 2), 0.519, 0.519)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True, True]),
        ({"errors": (0.4, 0.1)}, [False, True, True]),
        ({"errors": (0.01, 0.02)}, [False, True, True]),
        ({"numbers": (1, 1)}, [True, False, True]),
        ({"numbers": (2, 2)}, [True, False, True]),
        ({"window": 3.73}, [True, True, False]),
    ],
)
def test_figure_1(change: dict[str, Any], expected: list[bool | None]) -> None:
    assert ends(step_claims(STEPS._replace(**change))) == expected


def rates(first: float = -1.0, last: float = -0.5, window: float = -1.0, shift: float = 0.0) -> Rates:
    sizes = np.array([1e2, 1e4, 1e8, 1e16])
    slopes = {alpha: -alpha + shift for alpha in (0.5, 1.0)}
    return Rates(sizes, sizes**first, sizes**last, np.log(sizes) ** window, slopes)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rates(), [True] * 4),
        (rates(first=-0.7), [False, True, True, True]),
        (rates(last=-0.8), [True, False, True, True]),
        (rates(window=-0.5), [True, True, False, True]),
        (rates(shift=0.3), [True, True, True, False]),
    ],
)
def test_rates(found: Rates, expected: list[bool | None]) -> None:
    assert ends(rate_claims(found)) == expected


def part(middle: float | None, *, repeats: int = 25, left: float = 1.0, first: float = 1.0) -> Part:
    """Runs at n = 1000 and 5000, a threshold known to 1 %, and the loss of `left` examples at the end."""
    sizes = np.array([1000.0, 5000.0])
    noise = np.linspace(0.9, 1.1, repeats)
    losses = np.array([np.zeros(repeats), left * noise / 5000])
    fit = None if middle is None else Threshold(middle, 0.99 * middle, 1.01 * middle, 0.01 * middle)
    return Part(sizes, np.array([first * repeats, 0.0]), losses, fit)


def test_figure_2() -> None:
    good = part(3000.0)
    assert ends(transition_claims(100, good, good, good)) == [True] * 5
    assert ends(transition_claims(30, good, good, good)) == [True, None, None, None, True]
    low = part(1700.0)
    assert ends(transition_claims(100, low, good, low)) == [True, True, False, False, False]
    few = part(3000.0, repeats=4)
    assert transition_claims(100, few, few, few)[0].holds is None
    assert transition_claims(100, part(3000.0, first=0.0), good, good)[0].holds is False
    wide = Part(good.sizes, good.converged, good.losses, Threshold(3000.0, 2000.0, 4000.0, 600.0))
    assert ends(transition_claims(100, wide, wide, wide)) == [True, False, None, None, None]
    none = part(None)
    assert ends(transition_claims(100, none, none, none))[2:] == [None, None, None]


def test_what_is_left_beyond_the_transition() -> None:
    assert loss_claim(part(3000.0)).holds
    assert loss_claim(part(3000.0, left=8.0)).holds is False
    assert loss_claim(part(3000.0, left=2.0)).holds is None


def law(power: float, error: float = 0.01, *, places: int = 4) -> Law:
    x = np.array([10.0, 20.0, 40.0, 80.0])[:places]
    found = [Threshold(v, (1 - error) * v, (1 + error) * v, 1.0) for v in 7 * x**power]
    return Law.through(x, list(found))


def test_figures_3_and_4() -> None:
    assert linear_claim(law(1.0)).holds
    assert linear_claim(law(1.6)).holds is False
    assert linear_claim(law(1.1, 0.2)).holds is None
    assert linear_claim(Law(np.zeros(0), [], None)).holds is None
    assert ends(width_claims(law(0.1, 0.05))) == [True, True]
    assert ends(width_claims(law(1.4))) == [False, False]
    assert ends(width_claims(law(1.0, 0.3, places=2))) == [None, None]


def test_budgets() -> None:
    short, same, longer = law(0.5), law(0.5), law(0.5)
    longer = Law(
        longer.x, [Threshold(1.5 * t.middle, 1.5 * t.low, 1.5 * t.high, 1.0) for t in longer.found], None
    )
    assert ends(budget_claims({1.5: short, 6.0: same})) == [True, False]
    assert ends(budget_claims({1.5: short, 6.0: longer})) == [False, True]
    assert ends(budget_claims({1.5: law(0.5, 0.2), 6.0: law(0.5, 0.2)})) == [None, None]
    assert ends(budget_claims({1.5: short, 6.0: Law(np.zeros(0), [], None)})) == [None, None]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-0.55, -0.45, True), (-0.9, -0.1, None), (-0.9, -0.62, False), (-0.65, -0.45, None)],
)
def test_figure_5(low: float, high: float, expected: bool | None) -> None:
    """Containing −½ is not enough: more networks must not make a claim fail that few made hold."""
    assert slope_claim("as printed", "mean", Slope((low + high) / 2, low, high, 0.0)).holds is expected


def test_prop_3() -> None:
    always, often = [(True, 1)] * 100, [(False, 1)] * 50 + [(False, 0)] * 50
    assert ends(collapse_claims(always + often)) == [True, True]
    assert ends(collapse_claims([(True, 1)] * 50 + [(True, 0)] * 50 + [(False, 1)] * 100)) == [False, False]
    assert ends(collapse_claims(always[:5] + often[:5])) == [None, None]
    assert ends(collapse_claims([])) == [None, None]


def test_which_networks_converge() -> None:
    good = np.array([[1.0, 0.0]] * 100)
    fitted = np.where(good > 0, 1e-6, 1.0)
    assert event_claim(Samples(good, fitted), 14).holds
    assert event_claim(Samples(good, 1e-6 * np.ones_like(good)), 14).holds is False
    assert event_claim(Samples(good, np.ones_like(good)), 14).holds is False
    assert event_claim(Samples(good[:5], fitted[:5]), 14).holds is None
    assert stopping_claim(np.full(100, 1e-12)).holds
    assert stopping_claim(np.full(100, 0.5)).holds is False
    assert stopping_claim(np.full(5, 1e-12)).holds is None
    assert stopping_claim(np.zeros(0)).holds is None


def test_bounds_along_runs() -> None:
    assert ends(bound_claims(Bounds(np.array([2.0, 3.0]), np.array([0.1, 0.2]), 0))) == [True, True]
    assert ends(bound_claims(Bounds(np.array([0.9, 3.0]), np.array([0.1, 1.2]), 0))) == [False, False]
    assert ends(bound_claims(Bounds(np.zeros(0), np.zeros(0), 4))) == [None, None]


def test_lemma_5() -> None:
    assert ends(rule_claims(Rule(10, 0, ""), Rule(10, 0, ""))) == [True, True]
    assert ends(rule_claims(Rule(10, 1, ""), Rule(10, 3, ""))) == [False, False]
    sample = Sample(np.array([6, 10]), 1000, np.array([0.3, 0.6]), np.array([0.4, 0.6]))
    assert correlated_claim(sample, 5).holds
    assert correlated_claim(sample._replace(found=np.array([0.31, 0.6])), 5).holds is False
    assert correlated_claim(sample._replace(found=np.array([0.4, 0.5])), 5).holds is False


def first_rates(mean: float = 1.0, spread: float = 1.0, starts: int = 1000, flat: bool = False) -> FirstRates:
    """(n/2) μ(0) of starts of width 400 about β₀ = 6 with γ₀ = 8, both off by these factors."""
    rng = np.random.default_rng(0)
    scores = rng.choice([-1.0, 1.0], (1, starts)) if flat else rng.standard_normal((1, starts))
    drawn = 6.0 * mean + 8.0 * spread * scores / np.sqrt(400)
    return FirstRates((400,), {"data": StartCurvature(6.0, 8.0)}, {"data": drawn})


def test_lemma_4() -> None:
    assert ends(lemma4_claims(first_rates())) == [True, True, True]
    assert lemma4_claims(first_rates(mean=1.2))[0].holds is False
    assert lemma4_claims(first_rates(mean=1.05))[0].holds is None
    assert lemma4_claims(first_rates(spread=1.5))[1].holds is False
    assert lemma4_claims(first_rates(flat=True))[2].holds is False
    assert lemma4_claims(first_rates(starts=30))[2].holds is None


def test_lemma_3() -> None:
    def found(power: float, error: float = 0.02) -> dict[int, Threshold]:
        values = {n: 3.0 * n**power for n in (5, 10, 20)}
        return {n: Threshold(v, (1 - error) * v, (1 + error) * v, 0.1) for n, v in values.items()}

    known = {n: 30 * n**2 for n in (5, 10, 20)}
    assert ends(lemma3_claims(found(2.0), known)) == [True, True]
    assert ends(lemma3_claims(found(3.0), dict.fromkeys(known, 2))) == [False, False]
    assert lemma3_claims(found(2.2, 0.3), known)[0].holds is None
    assert lemma3_claims({}, {})[0].holds is None
