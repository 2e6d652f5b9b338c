"""Convergence of shallow ReLU networks on weakly interacting data: the experiments of [weak_interaction]."""

from shallowflow.experiments.weak_interaction.rates import CONVERGES, FIG1, RATES
from shallowflow.experiments.weak_interaction.runs import FIG5, PROP3
from shallowflow.experiments.weak_interaction.starts import LEMMA3, LEMMA4, LEMMA5
from shallowflow.experiments.weak_interaction.thresholds import FIG2, FIG3, FIG4

EXPERIMENTS = (FIG1, FIG2, FIG3, FIG4, FIG5, CONVERGES, RATES, PROP3, LEMMA3, LEMMA4, LEMMA5)
