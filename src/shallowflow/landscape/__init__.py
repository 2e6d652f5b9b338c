"""Theory without a clock: functions of a network and a data set. Every name is imported on first use."""

from typing import TYPE_CHECKING

from shallowflow.lazy import attach

if TYPE_CHECKING:
    from shallowflow.landscape.early_alignment.ends import Balance as Balance
    from shallowflow.landscape.early_alignment.ends import LargestPull as LargestPull
    from shallowflow.landscape.early_alignment.ends import LeastSquares as LeastSquares
    from shallowflow.landscape.early_alignment.ends import Nature as Nature
    from shallowflow.landscape.early_alignment.ends import PhaseState as PhaseState
    from shallowflow.landscape.early_alignment.ends import SpuriousConditions as SpuriousConditions
    from shallowflow.landscape.early_alignment.ends import balance as balance
    from shallowflow.landscape.early_alignment.ends import largest_pull as largest_pull
    from shallowflow.landscape.early_alignment.ends import least_squares as least_squares
    from shallowflow.landscape.early_alignment.ends import local_rate as local_rate
    from shallowflow.landscape.early_alignment.ends import nature as nature
    from shallowflow.landscape.early_alignment.ends import phase_state as phase_state
    from shallowflow.landscape.early_alignment.ends import spurious_conditions as spurious_conditions
    from shallowflow.landscape.early_alignment.extremal import ExtremalVector as ExtremalVector
    from shallowflow.landscape.early_alignment.extremal import ExtremalVectors as ExtremalVectors
    from shallowflow.landscape.early_alignment.extremal import MergedNeurons as MergedNeurons
    from shallowflow.landscape.early_alignment.extremal import NeuronAlignment as NeuronAlignment
    from shallowflow.landscape.early_alignment.extremal import alignment_time as alignment_time
    from shallowflow.landscape.early_alignment.extremal import extremal_vectors as extremal_vectors
    from shallowflow.landscape.early_alignment.extremal import merged_neurons as merged_neurons
    from shallowflow.landscape.early_alignment.extremal import neuron_alignment as neuron_alignment
    from shallowflow.landscape.early_alignment.frozen import Destinations as Destinations
    from shallowflow.landscape.early_alignment.frozen import Exit as Exit
    from shallowflow.landscape.early_alignment.frozen import destinations as destinations
    from shallowflow.landscape.early_alignment.frozen import exit_time as exit_time
    from shallowflow.landscape.early_alignment.frozen import next_exit as next_exit
    from shallowflow.landscape.early_alignment.pulls import AlignmentThreshold as AlignmentThreshold
    from shallowflow.landscape.early_alignment.pulls import Pull as Pull
    from shallowflow.landscape.early_alignment.pulls import alignment_threshold as alignment_threshold
    from shallowflow.landscape.early_alignment.pulls import minimal_subgradient as minimal_subgradient
    from shallowflow.landscape.early_alignment.pulls import pull as pull
    from shallowflow.landscape.geometry.activity import Census as Census
    from shallowflow.landscape.geometry.activity import activity as activity
    from shallowflow.landscape.geometry.activity import census as census
    from shallowflow.landscape.geometry.activity import merge_duplicates as merge_duplicates
    from shallowflow.landscape.geometry.activity import minimal_gates as minimal_gates
    from shallowflow.landscape.geometry.cones import Cone as Cone
    from shallowflow.landscape.geometry.cones import Cones as Cones
    from shallowflow.landscape.geometry.cones import cell_bound as cell_bound
    from shallowflow.landscape.geometry.cones import cones as cones
    from shallowflow.landscape.geometry.cones import face_bound as face_bound
    from shallowflow.landscape.geometry.floors import Anatomy as Anatomy
    from shallowflow.landscape.geometry.floors import Blocks as Blocks
    from shallowflow.landscape.geometry.floors import Floor as Floor
    from shallowflow.landscape.geometry.floors import Floors as Floors
    from shallowflow.landscape.geometry.floors import blocks as blocks
    from shallowflow.landscape.geometry.floors import floors as floors
    from shallowflow.landscape.geometry.floors import pattern_level as pattern_level
    from shallowflow.landscape.geometry.orthonormal import MaskReport as MaskReport
    from shallowflow.landscape.geometry.orthonormal import mask_failure_bound as mask_failure_bound
    from shallowflow.landscape.geometry.orthonormal import mask_matrix as mask_matrix
    from shallowflow.landscape.geometry.orthonormal import mask_of as mask_of
    from shallowflow.landscape.geometry.orthonormal import mask_report as mask_report
    from shallowflow.landscape.geometry.orthonormal import orthonormality as orthonormality
    from shallowflow.landscape.incremental import HALVING_RATIO as HALVING_RATIO
    from shallowflow.landscape.incremental import min_norm_interpolator as min_norm_interpolator
    from shallowflow.landscape.incremental import min_squared_norm as min_squared_norm
    from shallowflow.landscape.incremental import norm_constant as norm_constant
    from shallowflow.landscape.incremental import squared_norm as squared_norm
    from shallowflow.landscape.plateau.levels import ExitCondition as ExitCondition
    from shallowflow.landscape.plateau.levels import LossParts as LossParts
    from shallowflow.landscape.plateau.levels import Passage as Passage
    from shallowflow.landscape.plateau.levels import RateBounds as RateBounds
    from shallowflow.landscape.plateau.levels import Stability as Stability
    from shallowflow.landscape.plateau.levels import exit_condition as exit_condition
    from shallowflow.landscape.plateau.levels import frozen_losses as frozen_losses
    from shallowflow.landscape.plateau.levels import loss_parts as loss_parts
    from shallowflow.landscape.plateau.levels import next_passage as next_passage
    from shallowflow.landscape.plateau.levels import plateau_level as plateau_level
    from shallowflow.landscape.plateau.levels import projected_residual as projected_residual
    from shallowflow.landscape.plateau.levels import rate_bounds as rate_bounds
    from shallowflow.landscape.plateau.levels import rate_matrix as rate_matrix
    from shallowflow.landscape.plateau.levels import stability as stability
    from shallowflow.landscape.plateau.stationary import RegressionLines as RegressionLines
    from shallowflow.landscape.plateau.stationary import Stationarity as Stationarity
    from shallowflow.landscape.plateau.stationary import Trap as Trap
    from shallowflow.landscape.plateau.stationary import fully_trained as fully_trained
    from shallowflow.landscape.plateau.stationary import macroscopic_data as macroscopic_data
    from shallowflow.landscape.plateau.stationary import regression_lines as regression_lines
    from shallowflow.landscape.plateau.stationary import stationarity as stationarity
    from shallowflow.landscape.plateau.stationary import to_knots as to_knots
    from shallowflow.landscape.plateau.stationary import trap as trap
    from shallowflow.landscape.two_timescale.population import best_outer as best_outer
    from shallowflow.landscape.two_timescale.population import feature_gram as feature_gram
    from shallowflow.landscape.two_timescale.population import feature_moments as feature_moments
    from shallowflow.landscape.two_timescale.population import population_gradient as population_gradient
    from shallowflow.landscape.two_timescale.population import population_loss as population_loss
    from shallowflow.landscape.two_timescale.population import separation as separation
    from shallowflow.landscape.two_timescale.population import well_separated as well_separated
    from shallowflow.landscape.two_timescale.step_classes import Goodness as Goodness
    from shallowflow.landscape.two_timescale.step_classes import StepClass as StepClass
    from shallowflow.landscape.two_timescale.step_classes import covered_error as covered_error
    from shallowflow.landscape.two_timescale.step_classes import fate_of_last_piece as fate_of_last_piece
    from shallowflow.landscape.two_timescale.step_classes import goodness as goodness
    from shallowflow.landscape.two_timescale.step_classes import jump_distances as jump_distances
    from shallowflow.landscape.two_timescale.step_classes import step_class as step_class
    from shallowflow.landscape.two_timescale.timescales import Timescales as Timescales
    from shallowflow.landscape.two_timescale.timescales import timescales as timescales
    from shallowflow.landscape.weak_interaction.interactions import Interaction as Interaction
    from shallowflow.landscape.weak_interaction.interactions import PLBounds as PLBounds
    from shallowflow.landscape.weak_interaction.interactions import (
        activation_probability as activation_probability,
    )
    from shallowflow.landscape.weak_interaction.interactions import average_pl as average_pl
    from shallowflow.landscape.weak_interaction.interactions import (
        correctly_activated as correctly_activated,
    )
    from shallowflow.landscape.weak_interaction.interactions import energies as energies
    from shallowflow.landscape.weak_interaction.interactions import extinction_time as extinction_time
    from shallowflow.landscape.weak_interaction.interactions import (
        fair_activation_probability as fair_activation_probability,
    )
    from shallowflow.landscape.weak_interaction.interactions import gaussian_dimension as gaussian_dimension
    from shallowflow.landscape.weak_interaction.interactions import interaction as interaction
    from shallowflow.landscape.weak_interaction.interactions import lemma_5_widths as lemma_5_widths
    from shallowflow.landscape.weak_interaction.interactions import local_pl as local_pl
    from shallowflow.landscape.weak_interaction.interactions import pl_bounds as pl_bounds
    from shallowflow.landscape.weak_interaction.interactions import (
        sampled_probability as sampled_probability,
    )
    from shallowflow.landscape.weak_interaction.interactions import sufficient_width as sufficient_width

_PLACES = {
    "early_alignment.ends": (
        "Balance LargestPull LeastSquares Nature PhaseState SpuriousConditions balance largest_pull "
        "least_squares local_rate nature phase_state spurious_conditions"
    ),
    "early_alignment.extremal": (
        "ExtremalVector ExtremalVectors MergedNeurons NeuronAlignment alignment_time extremal_vectors "
        "merged_neurons neuron_alignment"
    ),
    "early_alignment.frozen": "Destinations Exit destinations exit_time next_exit",
    "early_alignment.pulls": "AlignmentThreshold Pull alignment_threshold minimal_subgradient pull",
    "geometry.activity": "Census activity census merge_duplicates minimal_gates",
    "geometry.cones": "Cone Cones cell_bound cones face_bound",
    "geometry.floors": "Anatomy Blocks Floor Floors blocks floors pattern_level",
    "geometry.orthonormal": "MaskReport mask_failure_bound mask_matrix mask_of mask_report orthonormality",
    "incremental": "HALVING_RATIO min_norm_interpolator min_squared_norm norm_constant squared_norm",
    "plateau.levels": (
        "ExitCondition LossParts Passage RateBounds Stability exit_condition frozen_losses loss_parts "
        "next_passage plateau_level projected_residual rate_bounds rate_matrix stability"
    ),
    "plateau.stationary": (
        "RegressionLines Stationarity Trap fully_trained macroscopic_data regression_lines stationarity "
        "to_knots trap"
    ),
    "two_timescale.population": (
        "best_outer feature_gram feature_moments population_gradient population_loss separation "
        "well_separated"
    ),
    "two_timescale.step_classes": (
        "Goodness StepClass covered_error fate_of_last_piece goodness jump_distances step_class"
    ),
    "two_timescale.timescales": "Timescales timescales",
    "weak_interaction.interactions": (
        "Interaction PLBounds activation_probability average_pl correctly_activated energies "
        "extinction_time fair_activation_probability gaussian_dimension interaction lemma_5_widths local_pl "
        "pl_bounds sampled_probability sufficient_width"
    ),
}
"""The public names of each module."""

_NAMES = {
    name: f"shallowflow.landscape.{module}" for module, names in _PLACES.items() for name in names.split()
}
__all__ = sorted(_NAMES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _NAMES)
