"""Engines that tick, advanced by a number of steps."""

from __future__ import annotations

import numpy as np

from shallowflow.dynamics.clock.protocol import Ticking


def steps_made(engine: Ticking, count: int) -> int:
    """Ask for that many more steps; return how many were made, which the piece must say, too."""
    start = engine.made
    with np.errstate(over="ignore", invalid="ignore"):  # as in the loop
        piece = engine.advance((start + count) * engine.tick, rows=False)
    made = engine.made - start
    np.testing.assert_array_equal(piece.times, engine.tick * np.array([start, engine.made]))
    assert piece.stop is None if made == count else piece.stop is not None and piece.stop.code == "overflow"
    return made
