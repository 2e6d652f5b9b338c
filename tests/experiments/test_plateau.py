"""The experiments of [plateau]: every claim holds, fails and stays open as what was measured has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import curve
from shallowflow.experiments import EXPERIMENTS, Findings
from shallowflow.experiments.plateau.full_training import (
    Ending,
    Glued,
    ending,
    fig4_claims,
    fig5_claims,
    fig7_claims,
    fig8_claims,
    five_points,
    published_end,
    seed_with_two_dead,
)
from shallowflow.experiments.plateau.methods import (
    PUBLISHED,
    Arrivals,
    Finish,
    Hybrid,
    Moves,
    fig9_claims,
    fig10_claims,
    flow,
    hybrid,
    trained,
)
from shallowflow.experiments.plateau.staircase import Race, Stagnation, fig1_claims, fig2_claims
from shallowflow.models import KnotNetwork

STEPS = {"GD": 2_000, "Adam": 500, "LS/GD": 300, "LS/Adam": 300}
SMALL: Mapping[str, Mapping[str, Any]] = {
    "plateau/fig1": {"steps": 20_000, "points": 100, "starts": 2, "flow_steps": 100_000},
    "plateau/fig2": {"steps": 20_000, "points": 50, "starts": 2, "flow_steps": 20_000},
    "plateau/fig4": {"steps": 100_000, "points": 60, "starts": 3, "flow_steps": 100_000},
    "plateau/fig5": {"starts": 2},
    "plateau/fig7": {"steps": 100_000, "points": 60, "starts": 2, "flow_steps": 100_000},
    "plateau/fig8": {"steps": 3_000, "points": 60, "starts": 2, "flow_steps": 3_000},
    "plateau/fig9": {"starts": 5, "races": 2, "points": 40, "steps": STEPS},
    "plateau/fig10": {"starts": 3, "races": 2, "points": 30, "steps": STEPS},
    "plateau/causes": {
        "seeds": 1,
        "hybrid_seeds": 1,
        "stages_seeds": 1,
        "hybrid_steps": 500,
        "until": 100.0,
        "points": 100,
        "stages_until": 5.0,
    },
}


def run(name: str, **changes: Any) -> Findings:
    experiment = EXPERIMENTS[name]
    parameters = {**experiment.parameters["quick"], **SMALL.get(name, {}), **changes}
    found: Findings = experiment.run(parameters, lambda fraction, doing: None)
    return found


def answers(claims: tuple[Any, ...]) -> list[bool | None]:
    return [claim.holds for claim in claims]


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("plateau/")])
def test_every_experiment_runs_small_and_its_claims_say_what_would_make_them_fail(name: str) -> None:
    found = run(name)
    assert found.figures
    for claim in found.claims:
        assert claim.fails_if
        assert claim.reason or claim.holds is True or "share" in claim.measured


def literal(loss: str) -> sf.Trajectory:
    dataset = curve("sin_pi", 20)
    start = sf.initialize.he_knots(4, seed=0)
    return sf.gradient_descent(
        start, dataset, step=1.0 if loss == "bad" else 1e-4, steps=20, loss=sf.SquareLoss("sum")
    )


def test_fig1_claims() -> None:
    near, far = Stagnation((1.05,)), Stagnation((200.0, 150.0))
    assert answers(fig1_claims([near] * 12, literal("good"))) == [True, True, True]
    assert answers(fig1_claims([far] * 12, literal("bad"))) == [True, False, False]
    assert answers(fig1_claims([Stagnation(())] * 12, literal("good"))) == [False, None, True]
    assert answers(fig1_claims([near, Stagnation(())], literal("good")))[0] is None


def test_fig1_looks_at_the_run_of_the_paper() -> None:
    """Far above Q₀ on the first long plateau of sin 5πx, seed 1: 140 to 220 times."""
    from shallowflow.experiments.plateau.staircase import stagnation

    dataset = curve("sin_5pi", 500)
    found = stagnation(
        flow(dataset, {"width": 100, "seed": 1, "points": 300, "flow_steps": 500_000}), dataset
    )
    assert len(found.ratios) == 1
    assert 100 < found.ratios[0] < 400
    assert found.near == 0


def test_fig2_claims() -> None:
    good, bad = Race(1e-2, 1e-4, 0, 5.0), Race(1e-4, 1e-4, 1, 0.5)
    assert answers(fig2_claims([good] * 12, 1e-4, 100)) == [True] * 4
    assert answers(fig2_claims([bad] * 12, 1e-6, 100)) == [False] * 4
    assert answers(fig2_claims([good, bad], 1e-4, 100)) == [None, None, None, None]


def test_illustrations_hold_and_notice_other_knots() -> None:
    for name in ("plateau/fig3", "plateau/fig6"):
        assert answers(run(name).claims) == [True]
        assert answers(run(name, knots=(1.5, 3.25, 4.25, 5.5, 8.5)).claims) == [False]


def test_fig5_claims() -> None:
    good, bad = Glued(20, 1e-2, 1e-4, 1e-12), Glued(0, 1e-4, 1e-4, 0.5)
    assert answers(fig5_claims([good] * 8)) == [True] * 3
    assert answers(fig5_claims([bad] * 8)) == [False] * 3
    assert answers(fig5_claims([good, bad])) == [None] * 3


PUBLISHED_END = KnotNetwork([0.5, 0.0, -0.5, -1.0, -1.0, -1.3, 1.2], [4.0, -4.0, 4.0, -3.0, -2.0, 1.0, 7.0])
END = Ending(1e-8, 1e-9, 5e7, 1e-8, 1e-8, 1e6, 1e-5, 0.1, 1e5, 1e6, 3, PUBLISHED_END)
BAD = Ending(1.0, 0.5, 1e5, 0.5, 0.5, 9e7, 1.0, 1e-9, 1e6, 1e5, 0, KnotNetwork([0.1], [1.0]))


def test_fig4_7_and_8_claims() -> None:
    assert answers(fig4_claims([END] * 20)) == [True] * 5
    assert answers(fig4_claims([BAD] * 20)) == [False, False, None, False, False]
    assert answers(fig4_claims([replace(END, final=BAD.final)] * 20))[2] is False
    assert answers(fig4_claims([END, BAD])) == [None] * 5
    assert answers(fig7_claims([END] * 20)) == [True] * 4
    assert answers(fig7_claims([BAD] * 20)) == [False] * 4
    assert answers(fig7_claims([END, BAD])) == [None] * 4
    assert answers(fig8_claims([END] * 20, 10**8)) == [True] * 3
    assert answers(fig8_claims([BAD] * 20, 10**8)) == [False] * 3
    assert answers(fig8_claims([END, BAD], 10**8)) == [None] * 3


def test_the_published_end_of_figure_4_is_recognised_and_reached() -> None:
    assert published_end(PUBLISHED_END)
    assert not published_end(KnotNetwork([0.5, 0.0, -0.5, -1.0], [4.0, -3.0, 4.0, -5.0]))
    assert not published_end(KnotNetwork([*PUBLISHED_END.knots, 0.25], [*PUBLISHED_END.outer, 1.0]))
    dataset = five_points()
    found = ending(flow(dataset, {"width": 8, "seed": 18, "points": 100, "flow_steps": 10_000_000}), dataset)
    assert found.distance < 1e-3
    assert published_end(found.final)


def test_the_start_of_figure_4_follows_a_rule() -> None:
    seed = seed_with_two_dead(five_points(), 8)
    knots = [sf.initialize.he_knots(8, seed=one).knots for one in range(seed + 1)]
    assert [int(np.sum(one >= 1)) == 2 for one in knots] == [False] * seed + [True]


def test_an_ending_is_read_off_the_run() -> None:
    dataset = curve("sin_pi", 30)
    early = ending(flow(dataset, {"width": 5, "seed": 0, "points": 60, "flow_steps": 1_000}), dataset)
    late = ending(flow(dataset, {"width": 5, "seed": 0, "points": 60, "flow_steps": 10_000_000}), dataset)
    assert late.falling < early.falling
    assert late.misfit < early.misfit
    assert late.drift < early.drift
    assert early.reached == np.inf


MOVES = Moves(1e-2, np.array([1e-2, 5e-5]), 6e-5, 0)
STUCK = Moves(1e-3, np.array([1e-3, 9e-4]), 1.0, 2)


def arrivals(when: float, within: float, plateaus: int) -> Arrivals:
    return Arrivals(*(dict.fromkeys(PUBLISHED, value) for value in (when, within, plateaus)))  # type: ignore[arg-type]


def test_fig9_claims() -> None:
    cost = {"ANLS": 0.1, "all": 3.0}
    assert answers(fig9_claims([MOVES] * 12, [arrivals(np.inf, 1e8, 3)] * 3, cost)) == [True] * 6
    assert answers(fig9_claims([STUCK] * 12, [arrivals(50.0, 1e8, 0)] * 3, cost)) == [False] * 6
    assert answers(fig9_claims([MOVES, STUCK], [arrivals(np.inf, 1e4, 0)] * 3, cost))[4] is None
    assert answers(fig9_claims([MOVES, STUCK], [arrivals(50.0, 1e4, 3)], cost))[:2] == [None, None]


GOOD = Hybrid(3e-5, np.array([0.0, 100.0, 200.0, 1e5]), np.array([1.0, 1.0, 3.0, 0.5]), 1.0, 3)
TAME = Hybrid(1e-2, np.array([0.0, 100.0, 200.0, 1e5]), np.array([1.0, 1.0, 0.9, 0.8]), 0.0, 0)
DONE = {"GD": Finish(1.5e-2, 5e6, 0.2, 2), "Adam": Finish(2e-3, 1e6, 0.1, 2)}
OFF = {"GD": Finish(0.5, 5e6, 1e-9, 0), "Adam": Finish(0.5, 1e6, 1e-9, 0)}
SHORT = {name: replace(one, iterations=1e4) for name, one in DONE.items()}


def test_fig10_claims() -> None:
    close = replace(MOVES, naive=1e-3, errors=np.array([1e-3, 3e-5]), prediction=1e-4)
    assert (
        answers(fig10_claims([close] * 12, {"LS/GD": [GOOD] * 8, "LS/Adam": [GOOD] * 8}, DONE)) == [True] * 12
    )
    failing = fig10_claims([STUCK] * 12, {"LS/GD": [TAME] * 8, "LS/Adam": [TAME] * 8}, OFF)
    assert answers(failing) == [False, True, *[False] * 10]
    assert answers(fig10_claims([MOVES] * 12, {"LS/GD": [GOOD] * 8, "LS/Adam": [GOOD] * 8}, DONE))[1] is False
    brief = replace(TAME, iterations=np.array([0.0, 100.0, 200.0, 1e4]))
    short = answers(fig10_claims([close] * 12, {"LS/GD": [brief] * 8, "LS/Adam": [brief] * 8}, SHORT))
    assert [short[i] for i in (2, 3, 6, 10)] == [None] * 4
    few = fig10_claims(
        [close, replace(STUCK, naive=1.0)], {"LS/GD": [GOOD, TAME], "LS/Adam": [GOOD, TAME]}, DONE
    )
    assert [claim.holds for claim in few if "share" in claim.measured] == [None] * 10


def test_a_hybrid_run_is_read_off() -> None:
    dataset = curve("jump", 100, sampling="random", seed=0)
    parameters = {"width": 30, "seed": 0, "points": 40, "steps": 200}
    found = hybrid(trained("LS/GD", dataset, parameters, lambda done: None))
    assert len(found.predictions) == len(found.iterations)
    assert found.iterations[-1] == 200
    assert found.rise >= 1
    assert found.jump >= 1
    assert 0 < found.error < 0.1
