"""Short runs of every verb by several engines, and the loss of a network as their setting defines it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import shallowflow as sf
from shallowflow.dynamics.baselines import adam, alternating_least_squares
from tests.kernels.orthogonal.log_problems import random_problem

Run = Callable[..., sf.Trajectory]

PLANE = sf.data.GENERATORS["stewart"]()
NEURONS = sf.initialize.balanced(12, 2, init_scale=0.3, seed=1)
CURVE = sf.data.GENERATORS["curve"]("sin_pi", 30)
KNOTS = sf.initialize.he_knots(8, seed=4)
STEPS = sf.initialize.uniform_positions(6, sharpness=0.1, outer=np.linspace(-1, 1, 6), seed=1)
TARGET = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])
LOGS = random_problem(6, 8, 0, log_scale=-30.0)
LABELS = sf.Dataset(PLANE.inputs, np.where(PLANE.targets > 0, 1.0, -1.0))


def _descent(network: Any, dataset: sf.Dataset, engine: str, **options: Any) -> Run:
    return partial(
        sf.gradient_descent, network, dataset, engine=engine, **{"step": 0.01, "steps": 120, **options}
    )


DESCENTS: dict[str, Run] = {
    "descent, dense": _descent(NEURONS, PLANE, "dense"),
    "descent, cones": _descent(NEURONS, PLANE, "cones", epsilon=0.5),
    "descent, cones, logistic": _descent(NEURONS, LABELS, "cones", loss=sf.LogisticLoss()),
    "descent, patterns": _descent(NEURONS, PLANE, "patterns"),
    "descent, patterns, sum": _descent(NEURONS, PLANE, "patterns", loss=sf.SquareLoss("sum")),
    "descent, lanes": _descent(NEURONS, PLANE, "lanes"),
    "descent, fused": _descent(NEURONS, PLANE, "fused"),
    "descent, decoupled": _descent(NEURONS, sf.Dataset(np.eye(2), [1.0, -2.0]), "decoupled"),
    "descent, blocks": _descent(KNOTS, CURVE, "blocks", loss=sf.SquareLoss("sum"), step=1e-3),
    "descent, windows": _descent(STEPS, sf.Dataset([[0.1], [0.4], [0.8]], [1.0, 2.0, 0.0]), "windows"),
    "descent, scaled": _descent(*LOGS, "scaled", step=2.0, steps=900),
    "stochastic, dense": partial(
        sf.stochastic_descent, STEPS, TARGET, step=0.01, steps=120, batch=3, engine="dense", seed=1
    ),
    "stochastic, plain": partial(
        sf.stochastic_descent, STEPS, TARGET, step=0.01, steps=120, epsilon=0.1, engine="plain", seed=1
    ),
    "stochastic, plateaus": partial(
        sf.stochastic_descent, STEPS, TARGET, step=0.01, steps=120, noise=0.1, engine="plateaus", seed=1
    ),
    "stochastic, hats": partial(
        sf.stochastic_descent, STEPS, TARGET, step=0.01, steps=120, engine="hats", seed=1
    ),
    "adam, dense": partial(adam, NEURONS, PLANE, steps=120, engine="dense"),
    "adam, sweep": partial(adam, KNOTS, CURVE, steps=120, engine="sweep"),
    "alternating, gd": partial(alternating_least_squares, KNOTS, CURVE, steps=120, step=0.1),
    "alternating, adam": partial(alternating_least_squares, NEURONS, PLANE, steps=120, inner="adam"),
}
"""Runs of fixed steps."""

FLOWS: dict[str, Run] = {
    "flow, walls": partial(sf.gradient_flow, NEURONS, PLANE, until=20.0, engine="walls"),
    "flow, dense knots": partial(sf.gradient_flow, KNOTS, CURVE, until=20.0, engine="dense"),
    "flow, cones": partial(sf.gradient_flow, NEURONS, PLANE, until=20.0, epsilon=0.5, engine="cones"),
    "flow, stages": partial(sf.gradient_flow, KNOTS, CURVE, until=20.0, speed=2.0, engine="stages"),
    "flow, smooth": partial(
        sf.gradient_flow, STEPS, sf.Dataset([[0.1], [0.4], [0.8]], [1.0, 2.0, 0.0]), until=5.0
    ),
    "flow, leaps": partial(sf.gradient_flow, *LOGS, until=400.0),
    "population, smooth": partial(
        sf.population_flow, STEPS, TARGET, until=5.0, epsilon=0.3, speed=2.0, stiff=False
    ),
    "population, stiff": partial(sf.population_flow, STEPS, TARGET, until=5.0, stiff=True),
    "two timescales, smooth": partial(sf.two_timescale_limit, STEPS, TARGET, until=0.5),
    "two timescales, events": partial(
        sf.two_timescale_limit, sf.StepNetwork([0.2, 0.35, 0.5, 0.7], np.zeros(4)), TARGET, until=1.0
    ),
}
"""Runs that choose their own steps."""

MOVES: dict[str, Run] = {
    f"moves, {method}": partial(sf.active_neuron_least_squares, KNOTS, CURVE, method=method)
    for method in ("windowed", "orthogonal", "orthogonal_stable")
}
"""Runs whose clock counts moves."""


def jumps() -> sf.SaddleToSaddle:
    """Return a limit process, which takes no record."""
    return sf.saddle_to_saddle(*LOGS)


def loss_of(trajectory: sf.Trajectory, network: Any) -> float:
    """Return the loss of a network, by the loss and the data or the target in the setting of a run."""
    setting = trajectory.setting
    assert setting.data is not None
    if not isinstance(setting.data, sf.Dataset):
        assert setting.data is not None
        return sf.landscape.population_loss(network, setting.data)
    assert setting.loss is not None
    return setting.loss.value(network.predict(setting.data.inputs), setting.data.targets)
