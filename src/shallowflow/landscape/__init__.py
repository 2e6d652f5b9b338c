"""Theory without a clock: functions of a network and a data set."""

from shallowflow.landscape.blocks import Blocks, blocks
from shallowflow.landscape.fully_trained import fully_trained, to_knots
from shallowflow.landscape.least_squares import LeastSquares, least_squares
from shallowflow.landscape.plateau import (
    ExitCondition,
    RateBounds,
    exit_condition,
    plateau_level,
    projected_residual,
    rate_bounds,
    rate_matrix,
)
from shallowflow.landscape.stationarity import (
    RegressionLines,
    Stationarity,
    Trap,
    regression_lines,
    stationarity,
    trap,
)
from shallowflow.landscape.subgradient import minimal_gates

__all__ = [
    "Blocks",
    "ExitCondition",
    "LeastSquares",
    "RateBounds",
    "RegressionLines",
    "Stationarity",
    "Trap",
    "blocks",
    "exit_condition",
    "fully_trained",
    "least_squares",
    "minimal_gates",
    "plateau_level",
    "projected_residual",
    "rate_bounds",
    "rate_matrix",
    "regression_lines",
    "stationarity",
    "to_knots",
    "trap",
]
