"""Saddle to saddle on orthogonal data: the experiments of [incremental].

The loss is ½·mean of squared residuals. The scale of the paper's start is not legible; α = 10⁻³⁰⁰ is used for
its figures 1, 3 and 4, and α = 10⁻², 10⁻⁴, 10⁻⁸ and 10⁻³⁰, all of them shown, for figures 5 and 6.
"""

from shallowflow.experiments.incremental.norms import FIG5, FIG6
from shallowflow.experiments.incremental.staircase import FIG1, FIG3, FIG4, PHASES
from shallowflow.experiments.incremental.starts import STARTS
from shallowflow.experiments.incremental.theorems import HALVING, NEAR_ORTHOGONAL, THEOREM2

EXPERIMENTS = (FIG1, PHASES, FIG3, FIG4, FIG5, FIG6, STARTS, THEOREM2, HALVING, NEAR_ORTHOGONAL)
