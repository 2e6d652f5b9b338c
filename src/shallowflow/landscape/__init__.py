"""Theory without a clock: functions of a network and a data set."""

from shallowflow.landscape.aligned import NeuronAlignment, neuron_alignment
from shallowflow.landscape.alignment import (
    AlignmentThreshold,
    Pull,
    alignment_threshold,
    minimal_subgradient,
    pull,
)
from shallowflow.landscape.balance import Balance, Nature, balance, nature
from shallowflow.landscape.blocks import Blocks, blocks
from shallowflow.landscape.cones import Cone, Cones, cell_bound, cones, face_bound
from shallowflow.landscape.extremal import ExtremalVector, ExtremalVectors, extremal_vectors
from shallowflow.landscape.fully_trained import fully_trained, to_knots
from shallowflow.landscape.least_squares import LeastSquares, least_squares
from shallowflow.landscape.min_norm import (
    HALVING_RATIO,
    min_norm_interpolator,
    min_squared_norm,
    norm_constant,
    squared_norm,
)
from shallowflow.landscape.orthonormal import (
    MaskReport,
    mask_failure_bound,
    mask_matrix,
    mask_report,
    orthonormality,
)
from shallowflow.landscape.plateau import (
    ExitCondition,
    RateBounds,
    exit_condition,
    plateau_level,
    projected_residual,
    rate_bounds,
    rate_matrix,
)
from shallowflow.landscape.spurious import SpuriousConditions, spurious_conditions
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
    "HALVING_RATIO",
    "AlignmentThreshold",
    "Balance",
    "Blocks",
    "Cone",
    "Cones",
    "ExitCondition",
    "ExtremalVector",
    "ExtremalVectors",
    "LeastSquares",
    "MaskReport",
    "Nature",
    "NeuronAlignment",
    "Pull",
    "RateBounds",
    "RegressionLines",
    "SpuriousConditions",
    "Stationarity",
    "Trap",
    "alignment_threshold",
    "balance",
    "blocks",
    "cell_bound",
    "cones",
    "exit_condition",
    "extremal_vectors",
    "face_bound",
    "fully_trained",
    "least_squares",
    "mask_failure_bound",
    "mask_matrix",
    "mask_report",
    "min_norm_interpolator",
    "min_squared_norm",
    "minimal_gates",
    "minimal_subgradient",
    "nature",
    "neuron_alignment",
    "norm_constant",
    "orthonormality",
    "plateau_level",
    "projected_residual",
    "pull",
    "rate_bounds",
    "rate_matrix",
    "regression_lines",
    "spurious_conditions",
    "squared_norm",
    "stationarity",
    "to_knots",
    "trap",
]
