"""Plain NumPy and SciPy twins of the knot-flow kernels: O(width · size), one formula at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass
class Stage:
    """A knot network on sorted data, with the pattern of who acts on what written out."""

    x: FloatArray
    y: FloatArray
    knots: FloatArray
    outer: FloatArray
    held: IntArray
    active: BoolArray

    @classmethod
    def random(
        cls, seed: int, width: int, size: int, *, held: float = 0.0, decimals: int = 9, fitted: bool = False
    ) -> "Stage":
        """Random network and data; ``fitted``: the data are the network's values up to 1e-9."""
        rng = np.random.default_rng(seed)
        x = np.sort(np.round(rng.uniform(-1, 1, size), decimals))
        knots, outer = rng.normal(0, 0.8, width), rng.normal(0, 1, width)
        on = np.full(width, -1)
        for j in np.flatnonzero((rng.random(width) < held) & (knots < x[-1])):
            on[j] = np.searchsorted(x, knots[j])
            knots[j] = x[on[j]]
        y = np.sin(5 * x) + 0.1 * rng.normal(size=size)
        active = (x[:, None] > knots) | (x[:, None] == knots) & (on >= 0)
        if fitted:
            y = (active * (x[:, None] - knots)) @ outer + 1e-9 * rng.normal(size=size)
        return cls(x, y, knots, outer, on, active)

    def residual(self, theta: FloatArray | None = None) -> FloatArray:
        knots, outer = (self.knots, self.outer) if theta is None else np.split(theta, 2)
        return np.asarray((self.active * (self.x[:, None] - knots)) @ outer - self.y)

    def gradient(self, theta: FloatArray | None = None) -> FloatArray:
        """Gradient of ½ Σ r² for the fixed pattern: knots, then outer weights; 0 for held knots."""
        knots, outer = (self.knots, self.outer) if theta is None else np.split(theta, 2)
        residual = self.residual(theta)
        inner = -outer * (residual @ self.active) * (self.held < 0)
        return np.concatenate([inner, residual @ (self.active * (self.x[:, None] - knots))])

    def hessian(self) -> FloatArray:
        width = self.knots.size
        jacobian = np.hstack([-1.0 * self.active * self.outer, self.active * (self.x[:, None] - self.knots)])
        hessian = jacobian.T @ jacobian
        pair = np.arange(width)
        force = self.residual() @ self.active
        hessian[pair, width + pair] -= force
        hessian[width + pair, pair] -= force
        return np.asarray(hessian)

    def one_sided(self, j: int, place: float, theta: FloatArray | None = None) -> tuple[float, float]:
        """Velocities (rate 1) of knot j just left and just right of ``place``."""
        outer = self.outer if theta is None else theta[self.knots.size :]
        residual = self.residual(theta)
        left = outer[j] * residual[self.x >= place].sum()
        right = outer[j] * residual[self.x > place].sum()
        return float(left), float(right)


class _Alarm:
    """Terminal event of the reference: falls through zero when a knot meets a place or is let go from it."""

    terminal = True
    direction = -1.0

    def __init__(self, stage: Stage, neuron: int, kind: str, places: FloatArray) -> None:
        self.stage, self.neuron, self.kind = stage, neuron, kind
        first = int(np.searchsorted(places, stage.x[stage.active[:, neuron]].min()))
        self.place = float(places[first - 1] if kind == "down" else places[first])

    def __call__(self, t: float, theta: FloatArray) -> float:
        if self.kind in ("up", "down"):
            distance = float(self.place - theta[self.neuron])
            return distance if self.kind == "up" else -distance
        left, right = self.stage.one_sided(self.neuron, self.place, theta)
        return left if self.kind == "left" else -right


def _kinds(j: int, held: IntArray, gap: IntArray, places: FloatArray) -> tuple[str, ...]:
    """What can happen to knot j: leave its place to the left or right, or reach an end of its gap."""
    if held[j] >= 0:
        return ("left", "right")
    if gap[j] == places.size:
        return ()
    return ("up", "down") if gap[j] > 0 else ("up",)


def filippov(
    x: FloatArray,
    y: FloatArray,
    knots: FloatArray,
    outer: FloatArray,
    rates: tuple[float, float],
    until: float,
) -> tuple[FloatArray, FloatArray, list[tuple[float, str, int, float]]]:
    """Differential inclusion, stage by stage with DOP853 and terminal events; small problems only.

    Returns knots, outer weights and the events (time, kind, neuron, place).
    """
    width = knots.size
    places = np.unique(x)
    scale = np.repeat(rates, width)
    gap = np.searchsorted(places, knots, side="right")
    held = np.full(width, -1)
    theta, t = np.concatenate([knots, outer]), 0.0
    log: list[tuple[float, str, int, float]] = []
    while t < until:
        first = np.where(held >= 0, held, gap)
        active = np.searchsorted(places, x)[:, None] >= first
        stage = Stage(x, y, knots, outer, held.copy(), active)
        alarms = [
            _Alarm(stage, j, kind, places) for j in range(width) for kind in _kinds(j, held, gap, places)
        ]
        flow = solve_ivp(
            lambda _, s, stage=stage: -scale * stage.gradient(s),
            (t, until),
            theta,
            method="DOP853",
            rtol=1e-12,
            atol=1e-13,
            events=alarms or None,
        )
        t, theta = float(flow.t[-1]), flow.y[:, -1]
        fired = [k for k, times in enumerate(flow.t_events or []) if times.size]
        for k in fired:
            j, what = alarms[k].neuron, alarms[k].kind
            if what in ("left", "right"):
                # All knots held on one place feel the same force, so they are let go together.
                place = held[j]
                for i in np.flatnonzero(held == place) if place >= 0 else ():
                    gap[i], held[i] = place if what == "left" else place + 1, -1
                    log.append((t, "release", int(i), places[place]))
                continue
            place = gap[j] if what == "up" else gap[j] - 1
            theta[j] = places[place]
            left, right = stage.one_sided(j, places[place], theta)
            if what == "up" and place == places.size - 1:
                gap[j] = places.size
                log.append((t, "death", j, places[place]))
            elif (what == "up" and right > 0) or (what == "down" and left < 0):
                gap[j] = place + 1 if what == "up" else place
                log.append((t, "cross", j, places[place]))
            else:
                held[j] = place
                log.append((t, "pin", j, places[place]))
    return theta[:width], theta[width:], log
