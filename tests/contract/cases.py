"""Ten small seeded runs and more of every verb that goes step by step; those of flows are in `flow_cases`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import shallowflow as sf

GENERATORS = sf.data.GENERATORS
THREE = GENERATORS["three_points"]()
STEWART = GENERATORS["stewart"](12, seed=1)
BALL = GENERATORS["sphere"](6, 3, seed=2)
MANY = GENERATORS["sphere"](20, 3, seed=8)
WIDE = GENERATORS["sphere"](5, 12, seed=3)
ORTHOGONAL = GENERATORS["orthogonal"](5, 6, seed=4)
ORTHONORMAL = GENERATORS["orthonormal"](5, 6, seed=5)
CURVE = GENERATORS["curve"]("sin_pi", 20, sampling="random", noise=0.05, seed=6)
LABELS = sf.Dataset(BALL.inputs, np.sign(BALL.targets))
PLANE_LABELS = sf.Dataset(STEWART.inputs, np.where(STEWART.targets > 0.4, 1.0, -1.0))
STEPS = sf.PiecewiseConstant([0.3, 0.7], [0.0, 1.0, 0.4])
BOTH = sf.Additive([STEPS, sf.PiecewiseConstant([0.55], [0.2, -0.5])])
BENT = sf.PiecewiseAffine([0.0, 0.4, 1.0], [0.0, 1.0, 0.3])
GRID = sf.Dataset(np.linspace(0.0, 1.0, 41)[:, None], STEPS(np.linspace(0.0, 1.0, 41)))
SQUARE = sf.Dataset(np.random.default_rng(7).random((30, 2)), BOTH(np.random.default_rng(7).random((30, 2))))
HUGE = sf.Dataset(BALL.inputs, 1e200 * BALL.targets)

RELU = sf.initialize.gaussian(6, 3, init_scale=1.5, seed=26)
LEAKY = sf.initialize.gaussian(6, 3, init_scale=1.5, slope=0.2, seed=26)
SCALED = sf.initialize.asymmetric(6, 3, seed=12)
PLANE = sf.initialize.gaussian(8, 2, init_scale=1.0, seed=14)
SLIDING = sf.initialize.gaussian(8, 2, init_scale=1.0, seed=30)
LEAKY_PLANE = sf.initialize.balanced(8, 2, init_scale=1.0, slope=0.1, seed=15)
HIGH = sf.initialize.he_uniform(6, 12, seed=16)
SIX = sf.initialize.dominated(6, 6, init_scale=1.0, seed=17)
TINY = sf.initialize.log_scaled(6, 6, log_scale=-3.0, seed=18)
KNOTS = sf.initialize.he_knots(6, seed=19)
RAMPS = sf.initialize.uniform_knots(5, seed=20)
JUMPS = sf.initialize.uniform_positions(6, sharpness=0.08, seed=21)
CUBOIDS = sf.initialize.uniform_cuboids(4, 2, sharpness=0.1, outer_range=(0.0, 0.5), seed=22)

SUM, LOGISTIC, NORM = sf.SquareLoss("sum"), sf.LogisticLoss(), sf.NormLoss()
Record = sf.Record


@dataclass(frozen=True)
class Case:
    """A run of a verb from a start on a problem (a data set or a target)."""

    name: str
    verb: str
    start: Any
    problem: Any
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name of the case in the files."""
        return f"{self.verb}/{self.name}"


def cases(verb: str, **rows: tuple[Any, ...]) -> list[Case]:
    """Return the cases of a verb: by name, start, problem and options."""
    return [Case(name, verb, *row) for name, row in rows.items()]


def _descent(steps: int = 100, step: float = 0.02, **options: Any) -> dict[str, Any]:
    return {"step": step, "steps": steps, **options}


DESCENTS = cases(
    "gradient_descent",
    dense=(RELU, BALL, _descent(engine="dense", record=Record.every(10))),
    dense_logistic=(LEAKY, LABELS, _descent(engine="dense", loss=LOGISTIC, record=Record.geometric(8))),
    dense_slow_inner=(
        SCALED,
        BALL,
        _descent(engine="dense", epsilon=0.25, record=Record.at([0.5, 1.1, 1.6])),
    ),
    blocks=(KNOTS, CURVE, _descent(engine="blocks", record=Record.every(20))),
    blocks_sum=(KNOTS, CURVE, _descent(engine="blocks", step=1e-3, loss=SUM, epsilon=0.5)),
    cones=(PLANE, STEWART, _descent(engine="cones", record=Record.at([0.0, 0.4, 1.2]))),
    cones_logistic=(LEAKY_PLANE, PLANE_LABELS, _descent(engine="cones", loss=LOGISTIC, epsilon=2.0)),
    sliding=(SLIDING, STEWART, _descent(200, engine="sliding", record=Record.every(25))),
    patterns=(LEAKY, BALL, _descent(engine="patterns", epsilon=0.5, record=Record.geometric(10))),
    patterns_logistic=(SCALED, LABELS, _descent(engine="patterns", loss=LOGISTIC, record=Record.every(9))),
    bucketed=(RELU, BALL, _descent(engine="bucketed", record=Record.every(10, networks=False))),
    fused=(LEAKY, BALL, _descent(engine="fused", loss=SUM, step=3e-3, record=Record.every(30))),
    fused_single=(RELU, BALL, _descent(engine="fused", precision="single", record=Record.every(50))),
    gram=(HIGH, WIDE, _descent(engine="gram", record=Record.geometric(6, networks=False))),
    gram_single=(HIGH, WIDE, _descent(engine="gram", precision="single", record=Record.every(50))),
    decoupled=(SIX, ORTHOGONAL, _descent(engine="decoupled", record=Record.every(10))),
    decoupled_single=(SIX, ORTHOGONAL, _descent(engine="decoupled", precision="single")),
    windows=(JUMPS, GRID, _descent(engine="windows", step=0.1, epsilon=0.05, record=Record.every(20))),
    windows_norm=(CUBOIDS, SQUARE, _descent(50, engine="windows", loss=NORM, record=Record.every(10))),
    scaled=(TINY, ORTHONORMAL, _descent(200, step=0.05, engine="scaled", record=Record.every(40))),
    auto=(PLANE, THREE, _descent(step=0.05)),
    stop_below=(RELU, BALL, _descent(200, stop_below=0.5, record=Record.every(5))),
    no_events=(PLANE, STEWART, _descent(50, engine="sliding", record=Record.every(25, max_events=0))),
    unstable=(KNOTS, CURVE, _descent(10, step=1.0)),
    diverged=(RELU, BALL, _descent(50, step=5.0, record=Record.every(1))),
    beyond_numbers=(RELU, HUGE, _descent(5)),
)

ADAM = cases(
    "adam",
    dense=(RELU, BALL, {"steps": 60, "step": 0.01, "engine": "dense", "record": Record.every(10)}),
    dense_logistic=(LEAKY, LABELS, {"steps": 60, "engine": "dense", "loss": LOGISTIC}),
    dense_knots=(KNOTS, CURVE, {"steps": 60, "step": 0.01, "engine": "dense", "record": Record.every(20)}),
    sweep=(KNOTS, CURVE, {"steps": 60, "step": 0.01, "engine": "sweep", "record": Record.every(20)}),
    sweep_sum=(KNOTS, CURVE, {"steps": 100, "engine": "sweep", "loss": SUM, "record": Record.at([3, 50])}),
    auto=(SCALED, BALL, {"steps": 40, "record": Record.geometric(6)}),
    betas=(RELU, BALL, {"steps": 60, "betas": (0.8, 0.99), "record": Record.every(15, networks=False)}),
    damping=(KNOTS, CURVE, {"steps": 60, "step": 0.02, "damping": 1e-3, "betas": (0.5, 0.9)}),
    steps=(JUMPS, GRID, {"steps": 50, "step": 0.002, "record": Record.every(10)}),
    several_dimensions=(CUBOIDS, SQUARE, {"steps": 50, "step": 0.002, "record": Record.every(10)}),
    beyond_numbers=(RELU, HUGE, {"steps": 5}),
)

ALTERNATING = cases(
    "alternating_least_squares",
    knots=(KNOTS, CURVE, {"steps": 40, "step": 0.01, "record": Record.every(10)}),
    knots_sum=(KNOTS, CURVE, {"steps": 40, "loss": SUM, "record": Record.geometric(6)}),
    knots_adam=(KNOTS, CURVE, {"steps": 40, "inner": "adam", "record": Record.at([5, 17, 40])}),
    few_knots=(sf.KnotNetwork([-1.2, -0.4, 0.3], [0.0, 0.0, 0.0]), CURVE, {"steps": 100, "step": 0.01}),
    ramps=(RAMPS, GRID, {"steps": 30, "step": 0.001, "record": Record.every(30)}),
    relu=(RELU, MANY, {"steps": 20, "record": Record.every(4)}),
    leaky=(
        LEAKY,
        MANY,
        {"steps": 20, "step": 0.01, "inner": "gd", "record": Record.every(5, networks=False)},
    ),
    relu_adam=(SCALED, MANY, {"steps": 20, "inner": "adam", "record": Record.every(4)}),
    steps=(JUMPS, GRID, {"steps": 30, "step": 0.005, "record": Record.every(10)}),
    several_dimensions=(CUBOIDS, SQUARE, {"steps": 30, "step": 0.005}),
)

SUM = sf.SquareLoss("sum")
"""What version 0.1 took by default for ANLS; now ½ mean is the one default."""
ANLS = cases(
    "active_neuron_least_squares",
    windowed=(KNOTS, CURVE, {"loss": SUM}),
    chain=(KNOTS, CURVE, {"loss": SUM, "method": "chain"}),
    reference=(KNOTS, CURVE, {"loss": SUM, "method": "reference"}),
    orthogonal=(KNOTS, CURVE, {"loss": SUM, "method": "orthogonal", "max_iterations": 2}),
    orthogonal_stable=(KNOTS, CURVE, {"loss": SUM, "method": "orthogonal_stable"}),
    mean=(KNOTS, CURVE, {"loss": sf.SquareLoss(), "record": Record.every(2)}),
    few_moves=(KNOTS, CURVE, {"loss": SUM, "max_iterations": 3, "record": Record.at([1, 2])}),
    no_move=(KNOTS, CURVE, {"loss": SUM, "max_iterations": 0}),
    few_events=(KNOTS, CURVE, {"loss": SUM, "record": Record.every(3, networks=False, max_events=2)}),
    ramps=(RAMPS, GRID, {"loss": SUM, "max_iterations": 8}),
    few_knots=(
        sf.KnotNetwork([-0.9, 0.2, 0.6], [0.0, 0.0, 0.0]),
        CURVE,
        {"loss": SUM, "record": Record.geometric(5)},
    ),
)


def _sampled(steps: int = 200, step: float = 0.05, **options: Any) -> dict[str, Any]:
    return {"step": step, "steps": steps, "epsilon": 0.1, **options}


STOCHASTIC = cases(
    "stochastic_descent",
    plain=(JUMPS, STEPS, _sampled(engine="plain", record=Record.every(50))),
    plain_batch=(JUMPS, STEPS, _sampled(engine="plain", batch=4, noise=0.1, seed=1)),
    plateaus=(JUMPS, STEPS, _sampled(engine="plateaus", record=Record.every(50))),
    plateaus_box=(JUMPS, STEPS, _sampled(engine="plateaus", box_slope=True, seed=2, record=Record.every(40))),
    hats=(JUMPS, STEPS, _sampled(engine="hats", record=Record.at([1.0, 4.0, 9.0]))),
    hats_noise=(JUMPS, STEPS, _sampled(engine="hats", noise=0.2, seed=np.random.SeedSequence(3))),
    dense=(JUMPS, STEPS, _sampled(engine="dense", batch=3, seed=4, record=Record.every(50))),
    dense_norm=(JUMPS, STEPS, _sampled(50, 0.01, engine="dense", batch=5, loss=NORM, seed=5)),
    auto=(JUMPS, STEPS, _sampled(record=Record.every(50, networks=False))),
    several_dimensions=(CUBOIDS, BOTH, _sampled(batch=2, seed=6, record=Record.geometric(7))),
    ramps=(RAMPS, BENT, _sampled(step=0.01, batch=2, seed=7, record=Record.every(100))),
)
