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
from shallowflow.landscape.plateau import (
    ExitCondition,
    RateBounds,
    exit_condition,
    plateau_level,
    projected_residual,
    rate_bounds,
    rate_matrix,
)
from shallowflow.landscape.population import (
    best_outer,
    feature_gram,
    feature_moments,
    population_gradient,
    separation,
    well_separated,
)
from shallowflow.landscape.population_loss import population_loss
from shallowflow.landscape.spurious import SpuriousConditions, spurious_conditions
from shallowflow.landscape.stationarity import (
    RegressionLines,
    Stationarity,
    Trap,
    regression_lines,
    stationarity,
    trap,
)
from shallowflow.landscape.step_class import (
    Goodness,
    StepClass,
    covered_error,
    goodness,
    jump_distances,
    step_class,
)
from shallowflow.landscape.subgradient import minimal_gates

__all__ = [
    "AlignmentThreshold",
    "Balance",
    "Blocks",
    "Cone",
    "Cones",
    "ExitCondition",
    "ExtremalVector",
    "ExtremalVectors",
    "Goodness",
    "LeastSquares",
    "Nature",
    "NeuronAlignment",
    "Pull",
    "RateBounds",
    "RegressionLines",
    "SpuriousConditions",
    "Stationarity",
    "StepClass",
    "Trap",
    "alignment_threshold",
    "balance",
    "best_outer",
    "blocks",
    "cell_bound",
    "cones",
    "covered_error",
    "exit_condition",
    "extremal_vectors",
    "face_bound",
    "feature_gram",
    "feature_moments",
    "fully_trained",
    "goodness",
    "jump_distances",
    "least_squares",
    "minimal_gates",
    "minimal_subgradient",
    "nature",
    "neuron_alignment",
    "plateau_level",
    "population_gradient",
    "population_loss",
    "projected_residual",
    "pull",
    "rate_bounds",
    "rate_matrix",
    "regression_lines",
    "separation",
    "spurious_conditions",
    "stationarity",
    "step_class",
    "to_knots",
    "trap",
    "well_separated",
]
