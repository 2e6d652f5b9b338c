"""Early alignment in two-layer networks training is a two-edged sword: experiments of [early_alignment].

The authors' code has the mean of squared residuals without the ½: their rate 10⁻³ is step 2·10⁻³ here.
"""

from shallowflow.experiments.early_alignment.alignment import THEOREM1
from shallowflow.experiments.early_alignment.limits import NATURE, WIDTH
from shallowflow.experiments.early_alignment.stewart import FIG3
from shallowflow.experiments.early_alignment.three_points import FIG2
from shallowflow.experiments.early_alignment.training import FIG1

EARLY_ALIGNMENT = (FIG1, FIG2, FIG3, THEOREM1, NATURE, WIDTH)
