"""Solutions of the subgradient flow where it is not smooth: slides against a smoothed ReLU, two ways.

[plateau] §2 (Filippov solutions of (2.3)); [early_alignment] App. E.1, Example 1 (solutions are not unique).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats

WIDTHS = (1e-3, 1e-4, 1e-5)


def smoothed(network: sf.KnotNetwork, x: Floats, y: Floats, until: float, width: float) -> Floats:
    """Return (b, c) at `until` of the flow of ½Σ with relu smoothed by a parabola on [−width, width]."""

    def velocity(_: float, theta: Floats) -> Floats:
        knots, outer = np.split(theta, 2)
        z = x[:, None] - knots
        inside = np.abs(z) < width
        features = np.where(inside, (z + width) ** 2 / (4 * width), np.maximum(z, 0.0))
        gates = np.clip(0.5 + z / (2 * width), 0.0, 1.0)
        residual = features @ outer - y
        return np.concatenate([outer * (residual @ gates), -(residual @ features)])

    start = np.concatenate([network.knots, network.outer])
    run = solve_ivp(velocity, (0.0, until), start, method="LSODA", rtol=1e-9, atol=1e-11)
    assert run.success
    return np.asarray(run.y[:, -1])


def test_knots_that_slide_are_the_limit_of_smoothed_ones() -> None:
    """The distance to the flow with a ReLU smoothed over a width falls like that width, slide after slide."""
    slides = releases = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y = np.linspace(-1.0, 1.0, 6), rng.standard_normal(6)
        network = sf.KnotNetwork(np.sort(rng.uniform(-1.2, 0.8, 4)), rng.standard_normal(4))
        run = sf.gradient_flow(
            network, sf.Dataset(x[:, None], y), until=3.0, loss=sf.SquareLoss("sum"), tolerance=1e-10
        )
        # From a two-valued event on there are several solutions, and smoothing chooses its own.
        end = 0.99 * min([event.time for event in run.events if event.kind == "two-valued"] + [3.0])
        now = run(end)
        assert isinstance(now, sf.KnotNetwork)
        there = np.concatenate([now.knots, now.outer])
        errors = [float(np.abs(smoothed(network, x, y, end, w) - there).max()) for w in WIDTHS]
        for wide, narrow in pairwise(errors):
            assert narrow == pytest.approx(0.1 * wide, rel=0.05)
        slides += sum(event.kind == "slide" for event in run.events if event.time < end)
        releases += sum(event.kind == "release" for event in run.events if event.time < end)
    assert slides >= 10
    assert releases >= 1


def relu(network: object) -> sf.ReLUNetwork:
    assert isinstance(network, sf.ReLUNetwork)
    return network


def test_example_1_a_neuron_at_rest_may_leave_or_stay() -> None:
    """One point (1, 1), w = 0: all solutions stay until some t₀ and then leave; the flow says so."""
    data = sf.Dataset([[1.0]], [1.0])
    run = sf.gradient_flow(sf.ReLUNetwork([[0.0]], [1.0]), data, until=1.0, engine="walls")
    assert [(event.kind, event.time) for event in run.events] == [("two-valued", 0.0)]
    assert "one of several solutions" in str(run.statistics["accuracy"])
    # It takes t₀ = 0: the limit of starts w > 0. Descent, with σ'(0) = 0, takes t₀ = ∞.
    left = sf.gradient_flow(sf.ReLUNetwork([[1e-7]], [1.0]), data, until=1.0, engine="walls")
    assert relu(run.final).inner[0, 0] == pytest.approx(relu(left.final).inner[0, 0], abs=1e-6)
    stayed = sf.gradient_descent(sf.ReLUNetwork([[0.0]], [1.0]), data, step=1e-3, steps=1000)
    assert relu(stayed.final).inner[0, 0] == 0.0


@pytest.mark.parametrize("engine", ["walls", "cones"])
def test_a_sliding_neuron_whose_outer_weight_changes_sign_may_go_either_way(engine: str) -> None:
    """It slides along x₁ = 0 until a = 0; from there the flow takes one of the two ways that exist."""
    data = sf.Dataset([[1.0, 0.0], [-0.5, 1.0]], [-2.0, -1.0])
    run = sf.gradient_flow(
        sf.ReLUNetwork([[0.01, 1.0]], [0.5]), data, until=3.0, engine=engine, tolerance=1e-10
    )
    assert [event.kind for event in run.events] == ["slide", "two-valued"]
    meeting = run.events[1].time
    parting = relu(run(meeting))
    assert abs(parting.inner[0, 0]) < 1e-9
    assert abs(parting.outer[0]) < 1e-6
    ways = []
    for side in (-1e-7, 1e-7):
        nudged = sf.ReLUNetwork([[side, parting.inner[0, 1]]], [-1e-7])
        way = sf.gradient_descent(nudged, data, step=1e-4, steps=round((3.0 - meeting) / 1e-4))
        ways.append(float(way.losses[-1]))
    assert abs(ways[0] - ways[1]) > 0.1
    assert min(abs(way - run.losses[-1]) for way in ways) < 1e-3
