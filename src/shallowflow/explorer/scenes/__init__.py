"""The scenes: one per paper, one for data of your own, and (not in the list) one for runs from files."""

from shallowflow.explorer.scenes.free import FREE, SAVED
from shallowflow.explorer.scenes.line import PLATEAU, TWO_TIMESCALES
from shallowflow.explorer.scenes.relu import ALIGNMENT, JUMPS, RATES

SCENES = {scene.name: scene for scene in (ALIGNMENT, PLATEAU, JUMPS, RATES, TWO_TIMESCALES, FREE)}

__all__ = ["SAVED", "SCENES"]
