"""Plateau phenomenon in gradient descent training of ReLU networks: the experiments of [plateau].

Losses are shown as mean squared errors (1/m)Σr², with which the paper's figures agree; its (2.1) is ½Σr². A
rate of 10⁻³ on the mean squared error is a step of 2·10⁻³ on `SquareLoss("mean")`, ½·mean.
"""

from shallowflow.experiments.plateau.full_training import FIG3, FIG4, FIG5, FIG6, FIG7, FIG8
from shallowflow.experiments.plateau.methods import FIG9, FIG10
from shallowflow.experiments.plateau.staircase import CAUSES, FIG1, FIG2

EXPERIMENTS = (FIG1, FIG2, FIG3, FIG4, FIG5, FIG6, FIG7, FIG8, FIG9, FIG10, CAUSES)
