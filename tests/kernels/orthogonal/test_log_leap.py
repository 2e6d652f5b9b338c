"""One neuron under a frozen residual, beside SciPy on the plain equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from shallowflow.arrays import Floats
from shallowflow.kernels.orthogonal.step import Deaths, leap


def new_deaths(size: int) -> Deaths:
    return Deaths(np.empty(size), np.empty(size, np.int64))


def by_scipy(g: Floats, sign: float, residual: Floats, rate: float, time: float) -> tuple[float, Floats]:
    """ln|a| and f/|a| at `time` from |a| = 1, f = g: coordinates stop for ever when they reach zero."""
    f, a, now = g.copy(), sign, 0.0
    on = f > 0
    while now < time:

        def velocity(_: float, state: Floats) -> Floats:
            force = np.where(on, rate * residual, 0.0)
            return np.concatenate([state[-1] * force, [force @ state[:-1]]])

        def lowest(_: float, state: Floats) -> float:
            return float(np.min(np.where(on, state[:-1], np.inf)))

        lowest.terminal, lowest.direction = True, -1.0  # type: ignore[attr-defined]
        run: Any = solve_ivp(
            velocity, (now, time), np.append(f, a), events=lowest, method="DOP853", rtol=1e-12, atol=1e-14
        )
        now, f, a = float(run.t[-1]), run.y[:-1, -1].copy(), float(run.y[-1, -1])
        if run.status == 1:
            first = int(np.argmin(np.where(on, f, np.inf)))
            f[first], on[first] = 0.0, False
    return float(np.log(abs(a))), np.where(on, f, 0.0) / abs(a)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_leap_is_the_flow_of_one_neuron(seed: int, sign: float) -> None:
    rng = np.random.default_rng(seed)
    g = rng.standard_normal(7)
    g = np.maximum(g / np.linalg.norm(g), 0.0)
    residual, rate, time = rng.standard_normal(7), 0.3, 6.0
    expected, direction = by_scipy(g, sign, residual, rate, time)
    moved, (deaths, points) = g.copy(), new_deaths(7)
    rho, taken, died = leap(-900.0, moved, residual, sign * rate, time, -np.inf, Deaths(deaths, points))
    assert taken == time
    assert rho + 900.0 == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(moved, direction, atol=1e-9)
    assert set(points[:died]) == set(np.flatnonzero((g > 0) & (moved == 0)))
    assert np.all(np.diff(deaths[:died]) >= 0)


def test_a_leap_stops_at_its_target() -> None:
    g, residual = np.array([0.6, 0.3, 0.0]), np.array([1.0, -1.0, 5.0])
    moved = g.copy()
    rho, taken, _ = leap(-50.0, moved, residual, 1.0, 1e9, -20.0, new_deaths(3))
    assert rho == -20.0
    again = g.copy()
    reached, _, _ = leap(-50.0, again, residual, 1.0, taken, -np.inf, new_deaths(3))
    assert reached == pytest.approx(-20.0, abs=1e-12)
    np.testing.assert_allclose(again, moved, atol=1e-14)


def test_a_neuron_opposed_to_its_drive_shrinks_along_itself() -> None:
    g = np.array([1.0])
    rho, _, died = leap(0.0, g, np.array([-2.0]), 0.5, 3.0, np.inf, new_deaths(1))
    assert (rho, died, g[0]) == (-3.0, 0, 1.0)


def test_a_neuron_without_drive_stays() -> None:
    g = np.array([0.5, 0.5])
    assert leap(-3.0, g, np.zeros(2), 1.0, 7.0, 0.0, new_deaths(2)) == (-3.0, 7.0, 0)
