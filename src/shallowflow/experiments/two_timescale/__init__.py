"""Leveraging the two-timescale regime: the experiments of [two_timescale], printed and as run."""

from shallowflow.experiments.two_timescale.batch_training import FIG6, FIG9, FIG10
from shallowflow.experiments.two_timescale.beside_limit import FIG3
from shallowflow.experiments.two_timescale.one_dimension import FIG4, FIG5, FIG8
from shallowflow.experiments.two_timescale.theory import COUNTEREXAMPLE, ORDERS, THEOREMS
from shallowflow.experiments.two_timescale.training import FIG1, FIG2, FIG7

EXPERIMENTS = (FIG1, FIG2, FIG3, FIG4, FIG5, FIG6, FIG7, FIG8, FIG9, FIG10, COUNTEREXAMPLE, THEOREMS, ORDERS)
