"""Flow of a wide ReLU network in the plane: beside SciPy's RK45, and how the cost grows with the width.

Three points of [early_alignment] App. B.1 (balanced) and Stewart's data of App. B.2 (Gaussian), λ = 10⁻³.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.integrate import RK45

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.landscape import least_squares
from shallowflow.models import ReLUNetwork, initialize

FULL_PEER = False
"""Whether RK45 runs to the end however long it takes, instead of a minute."""


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def flow(
    network: ReLUNetwork, dataset: Dataset, until: float, tolerance: float = 1e-8
) -> tuple[float, Trajectory]:
    """CPU seconds of the flow, its path kept, and the trajectory."""
    start = time.process_time()
    trajectory = gradient_flow(network, dataset, until=until, tolerance=tolerance, engine="cones")
    return time.process_time() - start, trajectory


def rk45_seconds(
    network: ReLUNetwork, dataset: Dataset, until: float, absolute: float
) -> tuple[float, float]:
    """CPU seconds of SciPy's RK45 (rtol 10⁻⁸) on the vectorised right-hand side, and the time it reached.

    The right-hand side is two thin matrix products, one product with a vector, and products of vectors.
    Unless `FULL_PEER`, it runs for at most a minute; the time reached says how far that went.
    """
    inputs, targets, width = dataset.inputs, dataset.targets, network.width
    active = np.empty((len(targets), width))

    def velocity(_: float, theta: Floats) -> Floats:
        inner, outer = theta[: 2 * width].reshape(2, width), theta[2 * width :]
        z = inputs @ inner
        np.greater(z, 0.0, out=active)
        np.maximum(z, 0.0, out=z)
        pull = (targets - z @ outer) / len(targets)
        push = (pull[:, None] * inputs).T @ active
        rate = np.empty_like(theta)
        np.multiply(push, outer, out=rate[: 2 * width].reshape(2, width))
        np.multiply(inner[0], push[0], out=rate[2 * width :])
        push[1] *= inner[1]
        rate[2 * width :] += push[1]
        return rate

    theta = np.concatenate([network.inner.T.ravel(), network.outer])
    start = time.process_time()
    solver = RK45(velocity, 0.0, theta, until, rtol=1e-8, atol=absolute)
    while solver.status == "running" and (FULL_PEER or time.process_time() - start < 60.0):
        solver.step()
    return time.process_time() - start, float(solver.t)


def against_rk45(width: int = 200_000, until: float = 200.0) -> None:
    """Beside RK45 with two absolute tolerances.

    The weights start at 10⁻⁶. atol 10⁻¹⁰ leaves them four digits while they align; 10⁻¹⁴ asks for the eight
    of the relative tolerance. If RK45 was stopped, its time is a lower bound: nothing is extrapolated.
    """
    network, dataset = initialize.balanced(width, 2, init_scale=1e-3), three_points()
    ours, trajectory = min((flow(network, dataset, until) for _ in range(3)), key=lambda run: run[0])
    print(
        f"three points, width {width:,}, to t = {until:g}: {ours:.2f} s, "
        f"{trajectory.statistics['events']:,} events"
    )
    for absolute in (1e-10, 1e-14):
        theirs, reached = rk45_seconds(network, dataset, until, absolute)
        whole = "" if reached == until else f" (only to t = {reached:.1f}: a lower bound)"
        print(f"  RK45, atol {absolute:g}: {theirs:.1f} s{whole}, {theirs / ours:.1f} × ours", flush=True)


def limit_of_the_three_points(width: int = 200_000) -> None:
    dataset = three_points()
    network = initialize.balanced(width, 2, init_scale=1e-3)
    for tolerance in (1e-8, 1e-10):
        seconds, trajectory = flow(network, dataset, 2000.0, tolerance)
        line = dataset.inputs @ least_squares(dataset).coefficients
        error = np.abs(trajectory.final(dataset.inputs) - line).max()
        print(
            f"three points, width {width:,}, to t = 2000, tolerance {tolerance:g}: {seconds:.2f} s, "
            f"|h - least squares| {error:.1e}, {trajectory.statistics['segments']} steps"
        )


def stewart_runs(widths: tuple[int, ...] = (2_000, 20_000, 200_000)) -> None:
    dataset = stewart()
    for width in widths:
        network = initialize.gaussian(width, 2, init_scale=1e-3)
        seconds, trajectory = flow(network, dataset, 2000.0)
        print(
            f"Stewart, width {width:,}, to t = 2000: {seconds:.1f} s, loss {trajectory.losses[-1]:.7f}, "
            f"{trajectory.outcome.status}, {dict(trajectory.statistics)}"
        )


def descent_towards_the_flow(width: int = 2_000, until: float = 100.0) -> None:
    """The loss of exact descent minus that of the flow: first order in the step?"""
    dataset, network = stewart(), initialize.gaussian(width, 2, init_scale=1e-3)
    times = np.linspace(0.1 * until, until, 10)
    _, trajectory = flow(network, dataset, until, 1e-10)
    exact = np.array([_loss(trajectory(float(t)), dataset) for t in times])
    for step in (4e-3, 2e-3, 1e-3):
        record = Record.at(times, networks=False)
        losses = gradient_descent(
            network, dataset, step=step, steps=round(until / step), record=record, engine="cones"
        ).losses[1:]
        error = np.abs(losses - exact).max()
        print(f"  Stewart, step {step:g}: largest |loss(descent) - loss(flow)| {error:.2e}")


def _loss(network: Callable[[Floats], Floats], dataset: Dataset) -> float:
    return 0.5 * float(np.mean((network(dataset.inputs) - dataset.targets) ** 2))


def growth(widths: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6, 10**7)) -> None:
    dataset = three_points()
    for width in widths:
        network = initialize.balanced(width, 2, init_scale=1e-3)
        early, _ = flow(network, dataset, 30.0)
        seconds, trajectory = flow(network, dataset, 2000.0)
        print(
            f"  width {width:>10,}: to t = 30 {early:7.2f} s, to t = 2000 {seconds:7.2f} s, "
            f"{trajectory.statistics['events']:,} events"
        )


def main() -> None:
    flow(initialize.balanced(50, 2, init_scale=0.1), three_points(), 1.0)
    limit_of_the_three_points()
    against_rk45()
    descent_towards_the_flow()
    stewart_runs()
    print("three points, growth with the width")
    growth()


if __name__ == "__main__":
    main()
