"""Stages in the array form of the kernels."""

import numpy as np
from numpy.typing import NDArray

from shallowflow.kernels.knots import stage as ks
from tests.kernels.knots.knot_entries import summarize_blocks
from tests.kernels.knots.knot_reference import Stage

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def kernel_arrays(
    stage: Stage, seed: int = 0, rates: tuple[float, float] = (1.0, 1.0)
) -> tuple[FloatArray, ks.Stage, IntArray]:
    """The state, the kernels' stage and the neurons in stage order (random inside a gap)."""
    _, tree, places = ks.summarize(stage.x, stage.y)
    on = np.array([np.searchsorted(places, stage.x[k]) if k >= 0 else -1 for k in stage.held])
    first = np.where(stage.held >= 0, on, np.searchsorted(places, stage.knots, side="right"))
    order = np.lexsort((np.random.default_rng(seed).random(first.size), first))
    live = int((first < places.size).sum())
    state = np.array([stage.knots[order], stage.outer[order]])
    layout = np.array([first[order], on[order], order])
    arranged = ks.Stage(layout, np.zeros((6, first.size + 1)), live, rates, tree, places)
    summarize_blocks(arranged, np.full((2, first.size + 1), -1))
    return state, arranged, order
