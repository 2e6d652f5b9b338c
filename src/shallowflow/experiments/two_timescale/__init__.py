"""Leveraging the two-timescale regime: the experiments of [two_timescale], printed and as run."""

from shallowflow.experiments.two_timescale.batch_training import FIG10
from shallowflow.experiments.two_timescale.beside_limit import FIG3
from shallowflow.experiments.two_timescale.drawings import FIG1, FIG2, FIG7
from shallowflow.experiments.two_timescale.one_dimension import FIG4, FIG5
from shallowflow.experiments.two_timescale.over_epsilon import FIG8
from shallowflow.experiments.two_timescale.several_dimensions import FIG6, FIG9
from shallowflow.experiments.two_timescale.theory import COUNTEREXAMPLE, ORDERS, THEOREMS

EXPERIMENTS = (FIG1, FIG2, FIG3, FIG4, FIG5, FIG6, FIG7, FIG8, FIG9, FIG10, COUNTEREXAMPLE, THEOREMS, ORDERS)
