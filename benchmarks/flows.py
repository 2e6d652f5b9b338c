"""Flow of ReLU networks in any dimension: a grid of sizes, beside the flow by cones and SciPy's `solve_ivp`.

Inputs normal·1.5/√d, targets normal, rows of W normal·scale/√(m d), |a| = ‖w‖, until t = 20, square loss.
Errors are of the loss at 21 times, against a run of tolerance 10⁻¹¹. The peers follow the plain field with
σ'(0) = 0 and are stopped after `PATIENCE` seconds: on hyperplanes they chatter. (diffrax is not among them.)
"""

from __future__ import annotations

import time

import numpy as np
from scipy.integrate import solve_ivp

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.models import ReLUNetwork, SquareLoss

UNTIL, PATIENCE, REFERENCE = 20.0, 8.0, 1e-11
TIMES = np.linspace(0.0, UNTIL, 21)
GRID = [(d, n, m) for d in (2, 3, 10, 60) for n in (10, 40) for m in (10, 100, 1000)]
SCALES = (0.1, 1e-3)
SINGLE = ((4, 7, 100), (5, 60, 50))
"""Dimension, samples, neurons."""


def problem(d: int, n: int, m: int, scale: float) -> tuple[ReLUNetwork, Dataset]:
    """Return a problem of the grid."""
    rng = np.random.default_rng(0)
    dataset = Dataset(rng.normal(size=(n, d)) * 1.5 / np.sqrt(d), rng.normal(size=n))
    inner = rng.normal(size=(m, d)) * scale / np.sqrt(m * d)
    return ReLUNetwork(inner, np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], m)), dataset


def orthogonal_problem(n: int, d: int, m: int) -> tuple[ReLUNetwork, Dataset]:
    """Return a problem with orthogonal inputs of norms 0.5 to 2."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.normal(size=(d, n)))[0].T
    dataset = Dataset(rng.uniform(0.5, 2.0, (n, 1)) * directions, rng.normal(size=n))
    return problem(d, n, m, 0.1)[0], dataset


def timed(
    network: ReLUNetwork, dataset: Dataset, tolerance: float, engine: str = "walls"
) -> tuple[float, Trajectory]:
    """Return CPU seconds and the run, with the loss at `TIMES`."""
    start, record = time.process_time(), Record.at(TIMES, networks=False)
    run = gradient_flow(network, dataset, until=UNTIL, tolerance=tolerance, engine=engine, record=record)
    return time.process_time() - start, run


class TooLongError(Exception):
    """A peer took more than `PATIENCE`."""


def peer(
    network: ReLUNetwork, dataset: Dataset, method: str, tolerance: float
) -> tuple[float, Floats | None]:
    """Return CPU seconds of `solve_ivp` and the losses at `TIMES`; None if it took too long."""
    inputs, targets, start = dataset.inputs, dataset.targets, time.process_time()
    shape = network.inner.shape

    def velocity(_: float, theta: Floats) -> Floats:
        if time.process_time() - start > PATIENCE:
            raise TooLongError
        inner, outer = theta[: -shape[0]].reshape(shape), theta[-shape[0] :]
        z = inner @ inputs.T
        gates = z > 0
        pull = gates * ((targets - outer @ (gates * z)) / len(targets))
        return np.concatenate([(outer[:, None] * (pull @ inputs)).ravel(), np.sum(pull * z, axis=1)])

    theta = np.concatenate([network.inner.ravel(), network.outer])
    try:
        found = solve_ivp(
            velocity, (0, UNTIL), theta, method, TIMES, rtol=tolerance, atol=1e-3 * tolerance
        ).y.T
    except TooLongError:
        return time.process_time() - start, None
    seconds, losses = time.process_time() - start, np.empty(len(TIMES))
    for row, now in enumerate(found):
        moved = ReLUNetwork(now[: -shape[0]].reshape(shape), now[-shape[0] :])
        losses[row] = SquareLoss().value(moved(inputs), targets)
    return seconds, losses


def show_single() -> None:
    """Print problems that took minutes with a plain integrator."""
    cases = [(f"d {d}, n {n}, m {m}", problem(d, n, m, 0.1)) for d, n, m in SINGLE]
    cases.append(("orthogonal, n 40, d 60, m 35", orthogonal_problem(40, 60, 35)))
    for name, (network, dataset) in cases:
        exact = timed(network, dataset, REFERENCE)[1].losses
        seconds, run = min((timed(network, dataset, 1e-8) for _ in range(3)), key=lambda pair: pair[0])
        error = np.abs(run.losses - exact).max()
        print(f"{name}: {seconds:.3f} s, error {error:.1e}, {run.statistics['events']} events", flush=True)


def show_grid() -> None:
    """Print seconds, errors against tolerance 10⁻¹⁰, and the ratio to the flow by cones."""
    for d, n, m in GRID:
        for scale in SCALES:
            network, dataset = problem(d, n, m, scale)
            exact = timed(network, dataset, 1e-10)[1].losses
            seconds, run = timed(network, dataset, 1e-8)
            line = f"d {d:2}, n {n}, m {m:4}, scale {scale:g}: {seconds:.3f} s"
            line += f", error {np.abs(run.losses - exact).max():.1e}, {run.statistics['segments']} steps"
            line += f", {run.statistics['events']} events, {run.statistics['most sliding neurons']} slide"
            if d == 2 and m < 1000:
                line += f"; cones {timed(network, dataset, 1e-8, 'cones')[0] / seconds:.1f} times as long"
            print(line, flush=True)


def show_peers() -> None:
    """Print error against time beside SciPy."""
    for d, n, m in ((3, 10, 10), (10, 40, 100)):
        network, dataset = problem(d, n, m, 0.1)
        exact = timed(network, dataset, REFERENCE)[1].losses
        for tolerance in (1e-4, 1e-6, 1e-8, 1e-10):
            seconds, run = timed(network, dataset, tolerance)
            error = np.abs(run.losses - exact).max()
            print(f"d {d}, n {n}, m {m}: walls {tolerance:g}: {seconds:.3f} s, {error:.1e}", flush=True)
        for method in ("RK45", "DOP853", "LSODA"):
            for tolerance in (1e-3, 1e-5, 1e-7):
                seconds, losses = peer(network, dataset, method, tolerance)
                end = "too long" if losses is None else f"{np.abs(losses - exact).max():.1e}"
                print(f"d {d}, n {n}, m {m}: {method} {tolerance:g}: {seconds:.2f} s, {end}", flush=True)


def main() -> None:
    """Run all parts."""
    timed(*problem(2, 2, 2, 0.1), 1e-8)
    show_single()
    show_grid()
    show_peers()
