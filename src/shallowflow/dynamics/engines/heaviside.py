"""The two-timescale limit with η = 0, from event to event, with and without two neurons per piece.

A jump between two free neurons that touch no other jump moves by the closed form of `JumpPair`; so does
one between the edge of [0, 1] and such a neuron. What is left (several jumps in one interval, a neuron
between two jumps, a held neuron beside an interval with a jump) is integrated at nearly full precision, and
events in it are located to rounding. Events: a neuron reaches a jump and stays (`hit`) or goes on (`pass`),
a held neuron is let go (`release`). No two neurons meet, except at a jump from equal distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes, lobatto_weights
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, unflatten
from shallowflow.dynamics.engines.heaviside_motion import (
    ClosedForm,
    Integration,
    Standing,
    closed_form,
    standing,
)
from shallowflow.landscape.two_timescale.population import step_loss
from shallowflow.models.networks import StepNetwork

NODES = 8
PATH_ERROR, DEEPEST = 1e-10, 40
STUCK = 1000

Motion = Callable[[float], Floats]
"""τ → sorted positions (m,)."""


class HeavisideFlow:
    """Follow the sorted positions u(τ); θ is (positions, outer, offset) with a = a*(u)."""

    name = "events"
    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, network: StepNetwork, target: PiecewiseConstant) -> None:
        self._template, self._target = network, target
        self.order = np.argsort(network.positions, kind="stable")
        self._time, self.u = 0.0, network.positions[self.order]
        self.state = standing(self.u, target)
        self._closed = self._integrated = self._idle = self._segments = self._events = 0
        self._let_go()

    def theta(self, u: Floats, state: Standing) -> Floats:
        """Return (positions, outer, offset) of sorted positions, in the order of the network."""
        c = state.plateaus(u)
        positions, outer = np.empty(len(u)), np.empty(len(u))
        positions[self.order], outer[self.order] = u, np.diff(c)
        return np.concatenate([positions, outer, c[:1]])

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance to the next event, or to `until`."""
        start, state = self._time, self.state
        motion, end, struck = self._epoch(until)
        times, values = self._path(motion, state, start, end)
        self.u, self._time = motion(end), end
        events = self._settle(struck, end)
        passed = end > start
        self._idle = 0 if passed else self._idle + 1
        self._segments, self._events = self._segments + len(values), self._events + len(events)
        return Piece(
            times if passed else times[:1],
            rows={"values": values if passed else values[:0]},
            events=lambda most: events[:most],
            stop=Stop("events repeat", {"time": end}) if self._idle > STUCK else None,
        )

    def network(self) -> StepNetwork:
        """Return the present network."""
        return unflatten(self._template, self.theta(self.u, self.state))

    def loss(self) -> float:
        """Return ½∫(f − f*)² of the present network."""
        return step_loss(self.network(), self._target)

    def path(self, times: Floats, rows: Rows) -> Polynomials[StepNetwork]:
        """Return the polynomials of these steps."""
        return Polynomials(self._template, times, rows["values"])

    def statistics(self) -> Statistics:
        """Return how many stretches of jumps moved by the closed form, and how many were integrated."""
        return {
            "closed forms": self._closed,
            "integrated": self._integrated,
            "segments": self._segments,
            "events": self._events,
        }

    def _epoch(self, until: float) -> tuple[Motion, float, list[tuple[int, int]]]:
        """Return the motion from now on, the time of its first event, and (neuron, jump) of the hits."""
        start, u, state = self._time, self.u, self.state
        pairs, rest = list[ClosedForm](), list[tuple[int, int]]()
        for stretch in state.stretches():
            solved = closed_form(stretch, u, state)
            if solved is None:
                rest.append(stretch)
            else:
                pairs.append(solved)
        self._closed, self._integrated = self._closed + len(pairs), self._integrated + len(rest)
        end = min([until, *(start + pair.hitting_time for pair in pairs)])
        integration = Integration(u, state, rest, start, end) if rest else None
        struck = list[tuple[int, int]]()
        if integration is not None:
            end, struck = integration.end, integration.struck
        struck += [hit for pair in pairs if start + pair.hitting_time <= end for hit in pair.struck]

        def motion(time: float) -> Floats:
            now = u.copy() if integration is None else integration(time)
            for pair in pairs:
                pair.place(now, time - start)
            return now

        return motion, end, struck

    def _settle(self, struck: list[tuple[int, int]], time: float) -> list[Event]:
        """Put the neurons that reached a jump onto it, and let go all that are pulled off theirs."""
        piece, held = self.state.piece.copy(), self.state.held.copy()
        for j, jump in struck:
            self.u[j], piece[j], held[j] = self.state.v[jump], jump, jump
        self.state = replace(self.state, piece=piece, held=held)
        released = self._let_go()
        events = [
            Event(time, "pass" if (j, jump) in released else "hit", int(self.order[j]), jump)
            for j, jump in struck
        ]
        return events + [
            Event(time, "release", int(self.order[j]), jump)
            for j, jump in released
            if (j, jump) not in struck
        ]

    def _let_go(self) -> list[tuple[int, int]]:
        """Release held neurons that are pulled off, the one pulled most first; return (neuron, jump)."""
        released = list[tuple[int, int]]()
        while True:
            left, right = self.state.held_velocities(self.state.plateaus(self.u))
            slack = self.state.slack
            loose = (self.state.held >= 0) & ((left < -slack) | (right > slack))
            if not loose.any():
                return released
            j = int(np.argmax(np.where(loose, np.maximum(-left, right), -np.inf)))
            jump, piece, held = int(self.state.held[j]), self.state.piece.copy(), self.state.held.copy()
            piece[j], held[j] = (jump + 1 if right[j] > -left[j] else jump), -1
            self.state = replace(self.state, piece=piece, held=held)
            released.append((j, jump))

    def _path(self, motion: Motion, state: Standing, start: float, end: float) -> tuple[Floats, Floats]:
        """Return times and Lobatto values of θ, halved until the interpolant is right to `PATH_ERROR`."""
        nodes = lobatto_nodes(NODES)
        done: list[tuple[float, Floats]] = []
        waiting = [(start, end, 0)]
        while waiting:
            a, b, depth = waiting.pop()
            values = np.array([self.theta(motion(a + share * (b - a)), state) for share in nodes])
            worst = 0.0
            for share in (0.11, 0.5, 0.83):
                exact = self.theta(motion(a + share * (b - a)), state)
                worst = max(worst, float(np.abs(lobatto_weights(share, NODES) @ values - exact).max()))
            scale = max(1.0, float(np.abs(values).max()))
            if worst <= PATH_ERROR * scale or depth >= DEEPEST:
                done.append((b, values))
            else:
                middle = 0.5 * (a + b)
                waiting += [(middle, b, depth + 1), (a, middle, depth + 1)]
        return np.array([start, *(b for b, _ in done)]), np.array([values for _, values in done])
