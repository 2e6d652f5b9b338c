"""Early alignment in two-layer networks training is a two-edged sword: experiments of [early_alignment].

The authors' code has the mean of squared residuals without the ½: their rate 10⁻³ is step 2·10⁻³ here.
"""

from shallowflow.experiments.early_alignment.examples import CRITICAL_SCALE, FIG1, NATURE, WIDTH
from shallowflow.experiments.early_alignment.stages import FIG2, FIG3, LIMITS
from shallowflow.experiments.early_alignment.theorems import PHASES, THEOREM1

EXPERIMENTS = (FIG1, FIG2, FIG3, THEOREM1, NATURE, WIDTH, PHASES, LIMITS, CRITICAL_SCALE)
