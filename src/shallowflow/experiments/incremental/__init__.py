"""Saddle to saddle on orthogonal data: the experiments of [incremental].

The loss is ½·mean of squared residuals. The scale of the paper's start is not legible; α = 10⁻³⁰⁰ is used for
its figures 1, 3 and 4.
"""

from shallowflow.experiments.incremental.convergence import NEAR_ORTHOGONAL, THEOREM2
from shallowflow.experiments.incremental.norms import FIG5, FIG6
from shallowflow.experiments.incremental.training import FIG1, FIG3, FIG4

INCREMENTAL = (FIG1, FIG3, FIG4, FIG5, FIG6, THEOREM2, NEAR_ORTHOGONAL)
