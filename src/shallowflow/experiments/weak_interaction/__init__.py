"""Convergence of shallow ReLU networks on weakly interacting data: the experiments of [weak_interaction]."""

from shallowflow.experiments.weak_interaction.collapses import PROP3
from shallowflow.experiments.weak_interaction.curvatures import FIG5
from shallowflow.experiments.weak_interaction.probability import FIG2
from shallowflow.experiments.weak_interaction.starts import LEMMA5
from shallowflow.experiments.weak_interaction.thresholds import FIG3, FIG4
from shallowflow.experiments.weak_interaction.transitions import FIG1

WEAK_INTERACTION = (FIG1, FIG2, FIG3, FIG4, FIG5, PROP3, LEMMA5)
