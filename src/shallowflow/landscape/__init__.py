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
from shallowflow.landscape.first_activation import (
    activation_probability,
    correctly_activated,
    extinction_time,
    fair_activation_probability,
    lemma_5_widths,
    sampled_probability,
    sufficient_width,
)
from shallowflow.landscape.fully_trained import fully_trained, to_knots
from shallowflow.landscape.interaction import Interaction, gaussian_dimension, interaction
from shallowflow.landscape.last_piece import fate_of_last_piece
from shallowflow.landscape.least_squares import LeastSquares, least_squares
from shallowflow.landscape.local_pl import PLBounds, average_pl, energies, local_pl, pl_bounds
from shallowflow.landscape.merged import MergedNeurons, merged_neurons
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
    mask_of,
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
    "HALVING_RATIO",
    "AlignmentThreshold",
    "Balance",
    "Blocks",
    "Cone",
    "Cones",
    "ExitCondition",
    "ExtremalVector",
    "ExtremalVectors",
    "Goodness",
    "Interaction",
    "LeastSquares",
    "MaskReport",
    "MergedNeurons",
    "Nature",
    "NeuronAlignment",
    "PLBounds",
    "Pull",
    "RateBounds",
    "RegressionLines",
    "SpuriousConditions",
    "Stationarity",
    "StepClass",
    "Trap",
    "activation_probability",
    "alignment_threshold",
    "average_pl",
    "balance",
    "best_outer",
    "blocks",
    "cell_bound",
    "cones",
    "correctly_activated",
    "covered_error",
    "energies",
    "exit_condition",
    "extinction_time",
    "extremal_vectors",
    "face_bound",
    "fair_activation_probability",
    "fate_of_last_piece",
    "feature_gram",
    "feature_moments",
    "fully_trained",
    "gaussian_dimension",
    "goodness",
    "interaction",
    "jump_distances",
    "least_squares",
    "lemma_5_widths",
    "local_pl",
    "mask_failure_bound",
    "mask_matrix",
    "mask_of",
    "mask_report",
    "merged_neurons",
    "min_norm_interpolator",
    "min_squared_norm",
    "minimal_gates",
    "minimal_subgradient",
    "nature",
    "neuron_alignment",
    "norm_constant",
    "orthonormality",
    "pl_bounds",
    "plateau_level",
    "population_gradient",
    "population_loss",
    "projected_residual",
    "pull",
    "rate_bounds",
    "rate_matrix",
    "regression_lines",
    "sampled_probability",
    "separation",
    "spurious_conditions",
    "squared_norm",
    "stationarity",
    "step_class",
    "sufficient_width",
    "to_knots",
    "trap",
    "well_separated",
]
