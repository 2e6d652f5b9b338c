"""Random step networks and targets for the tests, and plain NumPy versions of their integrals."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.arrays import Floats

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


SHARPNESSES = (0.01, 0.1, 0.5, 1.0)


@st.composite
def problems(
    draw: st.DrawFn, widest: int = 12, sharpnesses: tuple[float, ...] = SHARPNESSES
) -> tuple[sf.StepNetwork, sf.PiecewiseConstant]:
    """Draw a network whose windows may overlap, leave [0, 1] or lie on jumps, and a target."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width, pieces = draw(st.integers(1, widest)), draw(st.integers(1, 5))
    breaks = np.sort(rng.uniform(0.02, 0.98, pieces - 1))
    positions = rng.uniform(-0.1, 1.1, width)
    if pieces > 1 and draw(st.booleans()):
        positions[0] = breaks[0]
    target = sf.PiecewiseConstant(breaks, rng.normal(size=pieces))
    sharpness = draw(st.sampled_from(sharpnesses))
    return sf.StepNetwork(positions, rng.normal(size=width), rng.normal(), sharpness), target


def grid(network: sf.StepNetwork, target: sf.PiecewiseConstant) -> tuple[Floats, Floats]:
    """Return nodes and weights of a 12-point Gauss rule between all kinks of f and jumps of f*."""
    half = 0.5 * network.sharpness
    u = network.positions
    kinks = np.concatenate([target.breakpoints, u - half, u, u + half])
    edges = np.unique(np.concatenate([[0.0, 1.0], kinks[(kinks > 0) & (kinks < 1)]]))
    middle, radius = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    x = (middle[:, None] + radius[:, None] * NODES).ravel()
    return x, (radius[:, None] * WEIGHTS).ravel()


def features(network: sf.StepNetwork, x: Floats) -> Floats:
    """Return 1 and σ_η(x − u_j) at the points x, (k, m + 1)."""
    steps = sf.CubicStep(network.sharpness)(x[:, None] - network.positions)
    return np.column_stack([np.ones(len(x)), steps])
