"""Small seeded runs of the verbs that follow a flow or a limit."""

from __future__ import annotations

import numpy as np

import shallowflow as sf
from tests.contract.cases import (
    ADAM,
    ALTERNATING,
    ANLS,
    BALL,
    CUBOIDS,
    CURVE,
    DESCENTS,
    GRID,
    HUGE,
    JUMPS,
    KNOTS,
    LABELS,
    LEAKY,
    LEAKY_PLANE,
    LOGISTIC,
    ORTHONORMAL,
    PLANE,
    PLANE_LABELS,
    RELU,
    SCALED,
    SIX,
    SQUARE,
    STEPS,
    STEWART,
    STOCHASTIC,
    SUM,
    THREE,
    TINY,
    Case,
    Record,
    cases,
)

AT = Record.at([0.25, 0.5, 0.75])
FLOWS = cases(
    "gradient_flow",
    dense=(RELU, BALL, {"until": 1.0, "engine": "dense", "record": AT}),
    dense_path=(RELU, BALL, {"until": 1.0, "engine": "dense"}),
    dense_logistic=(LEAKY, LABELS, {"until": 2.0, "engine": "dense", "loss": LOGISTIC, "epsilon": 0.5}),
    dense_scaled=(
        SCALED,
        BALL,
        {"until": 1.0, "engine": "dense", "speed": 2.0, "record": Record.geometric(6)},
    ),
    dense_knots=(KNOTS, CURVE, {"until": 1.0, "engine": "dense", "record": AT}),
    stages=(KNOTS, CURVE, {"until": 1.0, "engine": "stages", "record": AT}),
    stages_sum=(KNOTS, CURVE, {"until": 0.2, "engine": "stages", "loss": SUM, "epsilon": 0.5}),
    cones=(PLANE, STEWART, {"until": 2.0, "engine": "cones"}),
    cones_logistic=(
        LEAKY_PLANE,
        PLANE_LABELS,
        {"until": 2.0, "engine": "cones", "loss": LOGISTIC, "epsilon": 2.0},
    ),
    cones_losses=(
        PLANE,
        STEWART,
        {"until": 1.0, "engine": "cones", "record": Record.at([0.3], networks=False)},
    ),
    plane=(PLANE, STEWART, {"until": 2.0, "engine": "dense", "record": Record.every(1)}),
    log_scaled=(TINY, ORTHONORMAL, {"until": 15.0, "record": Record.every(1)}),
    log_scaled_fast=(
        TINY,
        ORTHONORMAL,
        {"until": 5.0, "speed": 2.0, "loss": SUM, "record": Record.at([1.0, 2.0])},
    ),
    steps=(JUMPS, GRID, {"until": 5.0, "epsilon": 0.05, "record": Record.at([1.0, 2.0])}),
    several_dimensions=(CUBOIDS, SQUARE, {"until": 1.0, "epsilon": 0.1}),
    auto=(PLANE, THREE, {"until": 2.0, "tolerance": 1e-6, "record": Record.geometric(5)}),
    stop=(sf.ReLUNetwork([[1.0]], [0.5]), sf.Dataset([[1.0]], [1.0]), {"until": 100.0, "stop": 1e-3}),
    few_events=(PLANE, STEWART, {"until": 2.0, "record": Record.every(1, networks=False, max_events=1)}),
    beyond_numbers=(RELU, HUGE, {"until": 1.0}),
)

POPULATION = cases(
    "population_flow",
    path=(JUMPS, STEPS, {"until": 5.0}),
    at=(JUMPS, STEPS, {"until": 5.0, "record": Record.at([1.0, 2.5])}),
    geometric=(JUMPS, STEPS, {"until": 5.0, "record": Record.geometric(6)}),
    losses=(JUMPS, STEPS, {"until": 5.0, "record": Record.at([1.0], networks=False)}),
    slow_inner=(JUMPS, STEPS, {"until": 20.0, "epsilon": 0.02}),
    fast=(JUMPS, STEPS, {"until": 2.0, "speed": 3.0, "epsilon": 0.1}),
    loose=(JUMPS, STEPS, {"until": 5.0, "tolerance": 1e-6}),
    stiff=(JUMPS, STEPS, {"until": 20.0, "epsilon": 0.05, "stiff": True}),
    stop=(JUMPS, STEPS, {"until": 500.0, "epsilon": 0.1, "stop": 0.01}),
    one_step=(
        sf.StepNetwork([0.45], [0.2], 0.1, 0.1),
        sf.PiecewiseConstant([0.5], [0.0, 1.0]),
        {"until": 9.0},
    ),
)

SHARP = sf.initialize.uniform_positions(6, sharpness=0.0, seed=31)
SMOOTH = sf.StepNetwork([0.1, 0.22, 0.45, 0.62, 0.78, 0.9], np.zeros(6), 0.0, 0.02)
LIMITS = cases(
    "two_timescale_limit",
    sharp=(SHARP, STEPS, {"until": 1.0}),
    sharp_at=(SHARP, STEPS, {"until": 1.0, "record": Record.at([0.05, 0.1])}),
    sharp_geometric=(SHARP, STEPS, {"until": 0.5, "record": Record.geometric(6)}),
    two_neurons=(
        sf.StepNetwork([0.3, 0.6], [0.0, 0.0]),
        sf.PiecewiseConstant([0.5], [0.0, 1.0]),
        {"until": 2.0},
    ),
    few_neurons=(sf.StepNetwork([0.2, 0.5, 0.8], np.zeros(3)), STEPS, {"until": 1.0}),
    few_events=(SHARP, STEPS, {"until": 1.0, "record": Record.every(1, networks=False, max_events=1)}),
    smooth=(SMOOTH, STEPS, {"until": 0.2}),
    smooth_at=(SMOOTH, STEPS, {"until": 0.2, "record": Record.at([0.05, 0.1])}),
    smooth_loose=(SMOOTH, STEPS, {"until": 0.2, "tolerance": 1e-6}),
    smooth_stiff=(SMOOTH, STEPS, {"until": 0.2, "stiff": True}),
    smooth_stop=(SMOOTH, STEPS, {"until": 50.0, "stop": 0.02}),
)

_POSITIVE = sf.data.GENERATORS["orthonormal"](12, labels="positive", seed=32)
_MIXED = sf.data.GENERATORS["orthonormal"](8, 10, labels="bounded", seed=33)
SADDLES = [
    *(
        Case(f"positive_{seed}", "saddle_to_saddle", network, _POSITIVE)
        for seed in (1, 2, 3, 4)
        for network in [sf.initialize.log_scaled(8, 12, log_scale=-200.0, seed=seed)]
    ),
    *(
        Case(f"mixed_{seed}", "saddle_to_saddle", network, _MIXED)
        for seed in (5, 6, 7)
        for network in [sf.initialize.log_scaled(20, 10, log_scale=-1000.0, seed=seed)]
    ),
    *cases(
        "saddle_to_saddle",
        relu=(sf.initialize.balanced(12, 10, seed=8), _MIXED),
        never_fitted=(sf.initialize.log_scaled(2, 10, log_scale=-50.0, seed=9), _MIXED),
        twins=(sf.ReLUNetwork(np.repeat(SIX.inner, 2, axis=0), np.repeat(SIX.outer, 2)), ORTHONORMAL),
    ),
]

CASES = [*DESCENTS, *ADAM, *ALTERNATING, *ANLS, *STOCHASTIC, *FLOWS, *POPULATION, *LIMITS, *SADDLES]
