"""Engines that tick, advanced by a number of steps."""

from __future__ import annotations

from shallowflow.dynamics.clock.protocol import Ticking


def advance(engine: Ticking, steps: int) -> None:
    """Make that many more steps."""
    engine.advance((engine.made + steps) * engine.tick, rows=False)
