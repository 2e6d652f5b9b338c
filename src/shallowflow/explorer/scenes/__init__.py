"""The scenes: one per paper, one for data of your own, and (not in the list) one for runs from files."""

from shallowflow.explorer.scenes.alignment import ALIGNMENT
from shallowflow.explorer.scenes.free import FREE, SAVED
from shallowflow.explorer.scenes.orthogonal import JUMPS, RATES
from shallowflow.explorer.scenes.plateau import PLATEAU
from shallowflow.explorer.scenes.two_timescales import TWO_TIMESCALES

SCENES = {scene.name: scene for scene in (ALIGNMENT, PLATEAU, JUMPS, RATES, TWO_TIMESCALES, FREE)}

__all__ = ["SAVED", "SCENES"]
