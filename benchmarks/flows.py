"""Flow of ReLU networks in any dimension, beside the former plain flow, the flow by cones, SciPy and diffrax.

Grid: inputs normal·1.5/√d, targets normal, rows of W normal·scale/√(m d), |a| = ‖w‖, until t = 20, square
loss. Errors are of the loss at 21 times, against a run of tolerance 10⁻¹¹ (in the grid: 10⁻¹⁰). SciPy and
diffrax follow the plain field with σ'(0) = 0 and are stopped after `PATIENCE` seconds: they
chatter on hyperplanes.

Peers that are not installed beside this package run in processes of their own, named by the environment:
FLOWS_BEFORE, the sources of a version that still had the plain flow ("dense") of ReLU networks, such as
`git archive 77701e7 | tar x -C before` makes in before/src; FLOWS_DIFFRAX, a Python with diffrax.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.models import ReLUNetwork, SquareLoss

UNTIL, PATIENCE, REFERENCE, MOMENTS = 20.0, 5.0, 1e-11, 21
GRID = [(d, n, m) for d in (2, 3, 10, 60) for n in (10, 40) for m in (10, 100, 1000)]
SCALES = (0.1, 1e-3)
DENSE_SECONDS, DENSE_SIZE = 30, 1000
"""The plain flow gets so many seconds; in the grid it is tried where n·m is at most this."""
TOLERANCES = (0.3, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
PEERS = (1e-3, 1e-5, 1e-7)
SOLVERS = ("Tsit5", "Dopri8")

BEFORE = """
import json, resource, sys, time
import numpy as np, shallowflow as sf
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]) + 5, int(sys.argv[2]) + 5))
p = np.load(sys.argv[1])
network = sf.ReLUNetwork(p["inner"], p["outer"], float(p["slope"]), float(p["scale"]))
dataset, times = sf.Dataset(p["inputs"], p["targets"]), p["times"]
options = {"speed": float(p["speed"]), "tolerance": float(p["tolerance"]), "engine": "dense"}
start = time.process_time()
run = sf.gradient_flow(
    network, dataset, until=float(times[-1]), record=sf.Record.at(times, networks=False), **options
)
print(json.dumps([time.process_time() - start, run.losses.tolist()]))
"""
DIFFRAX = """
import json, os, resource, sys, time
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_ENABLE_X64"] = "1"
import diffrax, jax, jax.numpy as jnp, numpy as np
p = np.load(sys.argv[1])
inputs, targets, times = jnp.array(p["inputs"]), jnp.array(p["targets"]), jnp.array(p["times"])

def predict(theta):
    return theta[1] @ jnp.maximum(theta[0] @ inputs.T, 0.0)

def loss(theta):
    return 0.5 * jnp.mean((predict(theta) - targets) ** 2)

def velocity(t, theta, args):
    return jax.tree.map(jnp.negative, jax.grad(loss)(theta))

@jax.jit
def run(theta, tolerance):
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity), getattr(diffrax, sys.argv[3])(), 0.0, times[-1], None, theta,
        saveat=diffrax.SaveAt(ts=times), max_steps=100_000, throw=False,
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=1e-3 * tolerance),
    )
    return jax.vmap(loss)(found.ys), found.result == diffrax.RESULTS.successful

theta = jnp.array(p["inner"]), jnp.array(p["outer"])
compiled = run.lower(theta, 1e-3).compile()
for tolerance in sys.argv[4:]:
    now = int(time.process_time()) + int(sys.argv[2]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (now, now + 100))
    start = time.process_time()
    losses, good = jax.block_until_ready(compiled(theta, float(tolerance)))
    print(json.dumps([time.process_time() - start, losses.tolist() if good else None]), flush=True)
"""


def problem(d: int, n: int, m: int, scale: float) -> tuple[ReLUNetwork, Dataset]:
    """Return a problem of the grid."""
    rng = np.random.default_rng(0)
    dataset = Dataset(rng.normal(size=(n, d)) * 1.5 / np.sqrt(d), rng.normal(size=n))
    inner = rng.normal(size=(m, d)) * scale / np.sqrt(m * d)
    return ReLUNetwork(inner, np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], m)), dataset


def timed(
    network: ReLUNetwork, dataset: Dataset, tolerance: float, engine: str = "walls", **options: Any
) -> tuple[float, Trajectory]:
    """Return CPU seconds and the run, with the loss at `MOMENTS` times."""
    until = options.setdefault("until", UNTIL)
    record = Record.at(np.linspace(0.0, until, MOMENTS), networks=False)
    start = time.process_time()
    run = gradient_flow(network, dataset, tolerance=tolerance, engine=engine, record=record, **options)
    return time.process_time() - start, run


def best(*arguments: Any, **options: Any) -> tuple[float, Trajectory]:
    """Return the fastest of three runs."""
    return min((timed(*arguments, **options) for _ in range(3)), key=lambda pair: pair[0])


def elsewhere(
    program: str,
    python: str,
    case: tuple[ReLUNetwork, Dataset],
    seconds: int,
    *more: str,
    tolerance: float = 1e-8,
    until: float = UNTIL,
    speed: float = 1.0,
) -> list[tuple[float, Floats | None]]:
    """Run a program in a process of its own; return CPU seconds and losses of what it came to print."""
    network, dataset = case
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "problem.npz")
        np.savez(
            file,
            inner=network.inner,
            outer=network.outer,
            slope=network.slope,
            scale=network.scale,
            inputs=dataset.inputs,
            targets=dataset.targets,
            times=np.linspace(0.0, until, MOMENTS),
            tolerance=tolerance,
            speed=speed,
        )
        home = {**os.environ, "PYTHONPATH": os.environ.get("FLOWS_BEFORE", "")}
        command = [python, "-c", program, str(file), str(seconds), *more]
        ended = subprocess.run(command, capture_output=True, text=True, env=home, check=False)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    if ended.returncode:
        lines.append((seconds, None))
    return [(spent, None if losses is None else np.array(losses)) for spent, losses in lines]


def dense(case: tuple[ReLUNetwork, Dataset], seconds: float, limit: int, **options: Any) -> str:
    """Say how long the plain flow takes beside `seconds`."""
    if "FLOWS_BEFORE" not in os.environ:
        return "dense not there"
    spent, losses = elsewhere(BEFORE, sys.executable, case, limit, **options)[0]
    over = ">" if losses is None else ""
    return f"dense {over}{spent:.1f} s, {over}{spent / seconds:.0f} times as long"


def singles() -> list[tuple[str, tuple[ReLUNetwork, Dataset], dict[str, Any]]]:
    """Return problems that took minutes with the plain flow, with the options of their runs."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 5))
    teacher = sf.initialize.balanced(3, 5, init_scale=1.0, seed=1)
    researcher = sf.initialize.balanced(50, 5, init_scale=1e-3, seed=0), Dataset(inputs, teacher(inputs))
    points = Dataset([[-1.0], [0.5], [2.0]], [0.8, -0.3, 1.1]).with_bias()
    orthogonal = sf.data.GENERATORS["orthogonal"](40, 60, seed=2)
    rng = np.random.default_rng(10_002)
    n = int(rng.integers(3, 25))
    m = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 40], p=[0.1, *[0.13] * 5, 0.1, 0.1, 0.05]))
    rng.choice([8, 16, 30, 100, 300])
    rng.choice(["rot", "rot+", "id"], p=[0.4, 0.4, 0.2])
    d = n + int(rng.integers(1, 6))
    targets = rng.standard_normal(n)
    targets = np.sign(targets) * (0.3 + np.abs(targets))
    turned = Dataset(np.linalg.qr(rng.standard_normal((d, d)))[0][:n], targets)
    tiny = sf.initialize.log_scaled(m, d, log_scale=-100 * np.log(10), seed=2).to_relu()
    return [
        ("d 4, n 7, m 100", problem(4, 7, 100, 0.1), {}),
        ("60 points, d 5, m 50, scale 1e-3, until 30", researcher, {"until": 30.0}),
        (
            "3 points with bias, m 200, until 40",
            (sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), points),
            {"until": 40.0},
        ),
        (
            "orthogonal n 40, d 60, m 35, speed 35, until 10",
            (sf.initialize.asymmetric(35, 60, seed=2), orthogonal),
            {"until": 10.0, "speed": 35.0},
        ),
        (f"orthonormal n {n}, d {d}, m {m}, scale 1e-100, until 2968", (tiny, turned), {"until": 2967.75}),
    ]


def show_single() -> None:
    """Print the single problems, by walls, and the ratio to the plain flow."""
    for name, case, options in singles():
        exact = timed(*case, REFERENCE, **options)[1].losses
        seconds, run = best(*case, 1e-8, **options)
        error = np.abs(run.losses - exact).max()
        line = f"{name}: {seconds:.4f} s, error {error:.1e}, {run.statistics['events']} events; "
        print(line + dense(case, seconds, DENSE_SECONDS, **options), flush=True)


def show_grid() -> None:
    """Print seconds, errors against tolerance 10⁻¹⁰, and the ratio to the flow by cones."""
    for d, n, m in GRID:
        for scale in SCALES:
            case = problem(d, n, m, scale)
            exact = timed(*case, 1e-10)[1].losses
            seconds, run = best(*case, 1e-8) if m < 1000 else timed(*case, 1e-8)
            line = f"d {d:2}, n {n}, m {m:4}, scale {scale:g}: {seconds:.4f} s"
            line += f", error {np.abs(run.losses - exact).max():.1e}, {run.statistics['segments']} steps"
            line += f", {run.statistics['events']} events, {run.statistics['most sliding neurons']} slide"
            if d == 2:
                line += f"; cones {timed(*case, 1e-8, 'cones')[0] / seconds:.1f} times as long"
            print(line, flush=True)


class TooLongError(Exception):
    """A peer took more than `PATIENCE`."""


def scipy_peer(
    network: ReLUNetwork, dataset: Dataset, method: str, tolerance: float
) -> tuple[float, Floats | None]:
    """Return CPU seconds of `solve_ivp` and the losses; None if it took too long."""
    inputs, targets, start = dataset.inputs, dataset.targets, time.process_time()
    shape, times = network.inner.shape, np.linspace(0.0, UNTIL, MOMENTS)

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
            velocity, (0, UNTIL), theta, method, times, rtol=tolerance, atol=1e-3 * tolerance
        ).y.T
    except TooLongError:
        return time.process_time() - start, None
    seconds, losses = time.process_time() - start, np.empty(len(times))
    for row, now in enumerate(found):
        moved = ReLUNetwork(now[: -shape[0]].reshape(shape), now[-shape[0] :])
        losses[row] = SquareLoss().value(moved(inputs), targets)
    return seconds, losses


def show_peers() -> None:
    """Print error against time beside SciPy and diffrax (whose compilation is not counted)."""
    for d, n, m in ((3, 10, 10), (10, 40, 100)):
        case, name = problem(d, n, m, 0.1), f"d {d}, n {n}, m {m}"
        exact = timed(*case, REFERENCE)[1].losses
        for tolerance in TOLERANCES:
            seconds, run = best(*case, tolerance)
            error = np.abs(run.losses - exact).max()
            print(f"{name}: walls {tolerance:g}: {seconds:.4f} s, {error:.1e}", flush=True)
        for method in ("RK45", "DOP853", "LSODA"):
            for tolerance in PEERS:
                show_peer(f"{name}: {method} {tolerance:g}", exact, *scipy_peer(*case, method, tolerance))
        for solver in SOLVERS if "FLOWS_DIFFRAX" in os.environ else ():
            python, more = os.environ["FLOWS_DIFFRAX"], [solver, *(f"{t:g}" for t in PEERS)]
            for tolerance, found in zip(
                PEERS, elsewhere(DIFFRAX, python, case, int(PATIENCE), *more), strict=False
            ):
                show_peer(f"{name}: diffrax {solver} {tolerance:g}", exact, *found)


def show_peer(name: str, exact: Floats, seconds: float, losses: Floats | None) -> None:
    """Print the line of a peer."""
    end = "not ended" if losses is None else f"{np.abs(losses - exact).max():.1e}"
    print(f"{name}: {seconds:.3f} s, {end}", flush=True)


def show_dense() -> None:
    """Print the ratio to the plain flow on the smaller problems of the grid."""
    for d, n, m in GRID:
        for scale in SCALES if n * m <= DENSE_SIZE else ():
            case = problem(d, n, m, scale)
            line = dense(case, best(*case, 1e-8)[0], DENSE_SECONDS)
            print(f"d {d:2}, n {n}, m {m:4}, scale {scale:g}: {line}", flush=True)


def main() -> None:
    """Run all parts."""
    timed(*problem(2, 2, 2, 0.1), 1e-8)
    show_single()
    show_peers()
    show_grid()
    show_dense()
