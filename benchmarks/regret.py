"""Does "auto" take the best engine? Its CPU time over that of the best exact engine, and beside plain loops.

Gradient descent on x ~ N(0, 1)/√d, w ~ N(0, 1), a = ±1/√m, step 1/m, from the start of the run: seconds of
set-up and per step of every engine that fits, measured warm, and from them the total of runs of 10³, 10⁵ and
10⁶ steps (of these only those of under a minute). Peers: the same loop in NumPy, a plain triple loop in
Numba, PyTorch if installed. `python -m benchmarks.regret fit` prints the constants of `dynamics.choice` for
this machine; `again` takes the measurements of the last time; `third` measures every third point of the grid.
`others`: whole calls of the other verbs, "auto" beside every engine that fits.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import nnls

import shallowflow as sf
from shallowflow.dynamics.choice import ENGINES, IN_SPAN, TERMS, Choice, Sizes, chosen_engine, names_of
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.sweeps import SpannedDescent

SIZES, DIMENSIONS, WIDTHS = (3, 20, 100, 1000), (2, 3, 10, 100), (10, 100, 1000, 10_000)
STEPS = (10**3, 10**5, 10**6)
PATIENCE, REPEATS, PATIENT = 0.03, 3, 2.0
MINUTE, CLOSE, ALLOWED, SHORT = 60.0, 5e-3, 1.25, 1.5


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def problem(n: int, d: int, m: int, logistic: bool, steps: int = 0) -> Task:
    """Return a random task."""
    rng = np.random.default_rng([n, d, m])
    inputs, targets = rng.standard_normal((n, d)) / np.sqrt(d), rng.standard_normal(n)
    network = sf.ReLUNetwork(rng.standard_normal((m, d)), rng.choice([-1.0, 1.0], m) / np.sqrt(m))
    dataset = sf.Dataset(inputs, np.sign(targets) if logistic else targets)
    loss: sf.LogisticLoss | sf.SquareLoss = sf.LogisticLoss() if logistic else sf.SquareLoss()
    return Task(network, dataset, loss, 1.0 / m, 1.0, steps)


def grid() -> Iterator[tuple[int, int, int, bool]]:
    yield from product(SIZES, DIMENSIONS, WIDTHS, (False, True))


def descents(task: Task) -> list[Choice]:
    """Return the rows of engines of descent that fit; those by patterns only where patterns are few."""
    n, d = task.dataset.inputs.shape
    d = min(n, d) if task.in_span else d
    work = n * d * task.network.width
    rows = [row for row in ENGINES if row.verb == "gradient_descent" and row.fits(task)]
    return [row for row in rows if row.name != "patterns" or work <= 2 * 10**6 or (d <= 3 and n <= 100)]


def per_step(advance: Callable[[int], object], calls: int = 1) -> float:
    """Return seconds per step: best of some, each long enough to be measured."""
    while (seconds := cpu(partial(advance, calls))) <= PATIENCE:
        calls = max(2 * calls, int(calls * PATIENCE / max(seconds, 1e-6)))
    return min(seconds, *(cpu(partial(advance, calls)) for _ in range(REPEATS - 1))) / calls


def measured(make: Callable[[Task], Any], task: Task) -> tuple[float, float]:
    """Return seconds of set-up and per step of an engine."""
    tick = task.step
    make(task).advance(2 * tick, False)  # compiled or loaded before anything is timed
    setup = min(cpu(lambda: make(task)) for _ in range(REPEATS))
    engine, made = make(task), 0

    def advance(count: int) -> None:
        nonlocal made
        made += count
        engine.advance(tick * made, False)

    return setup, per_step(advance)


def numpy_loop(task: Task) -> Callable[[int], None]:
    """Return plain gradient descent in NumPy, as one would write it."""
    x, y = task.dataset.inputs, task.dataset.targets
    w, a = np.array(task.network.parameters["inner"]), np.array(task.network.parameters["outer"])
    logistic = isinstance(task.loss, sf.LogisticLoss)

    def advance(count: int) -> None:
        nonlocal w, a
        for _ in range(count):
            z = x @ w.T
            h = np.maximum(z, 0.0)
            f = h @ a
            r = (-y / (1.0 + np.exp(y * f)) if logistic else f - y) / len(y)
            w, a = w - task.step * ((r[:, None] * (z > 0) * a).T @ x), a - task.step * (r @ h)

    return advance


@njit(cache=True, fastmath=False)
def _numba_steps(w: Any, a: Any, x: Any, y: Any, step: float, logistic: bool, count: int) -> None:
    n, d, m = x.shape[0], x.shape[1], w.shape[0]
    for _ in range(count):
        gw, ga = np.zeros((m, d)), np.zeros(m)
        z = np.empty(m)
        for i in range(n):
            f = 0.0
            for j in range(m):
                s = 0.0
                for k in range(d):
                    s += w[j, k] * x[i, k]
                z[j] = s
                if s > 0.0:
                    f += a[j] * s
            r = (-y[i] / (1.0 + np.exp(y[i] * f)) if logistic else f - y[i]) / n
            for j in range(m):
                if z[j] > 0.0:
                    ga[j] += r * z[j]
                    for k in range(d):
                        gw[j, k] += r * a[j] * x[i, k]
        for j in range(m):
            a[j] -= step * ga[j]
            for k in range(d):
                w[j, k] -= step * gw[j, k]


def numba_loop(task: Task) -> Callable[[int], None]:
    """Return the same as plain loops, compiled."""
    w, a = np.array(task.network.parameters["inner"]), np.array(task.network.parameters["outer"])
    x, y = np.array(task.dataset.inputs), np.array(task.dataset.targets)
    logistic = isinstance(task.loss, sf.LogisticLoss)
    _numba_steps(w, a, x, y, task.step, logistic, 1)
    return lambda count: _numba_steps(w, a, x, y, task.step, logistic, count)


def torch_loop(task: Task) -> Callable[[int], None]:
    """Return the same by PyTorch's autograd."""
    import torch

    torch.set_num_threads(1)
    x, y = torch.tensor(task.dataset.inputs), torch.tensor(task.dataset.targets)
    w, a = (torch.tensor(v, requires_grad=True) for v in task.network.parameters.values())
    optimizer = torch.optim.SGD([w, a], lr=task.step)
    logistic = isinstance(task.loss, sf.LogisticLoss)

    def advance(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            f = torch.relu(x @ w.T) @ a
            loss = torch.nn.functional.softplus(-y * f).mean() if logistic else 0.5 * ((f - y) ** 2).mean()
            loss.backward()
            optimizer.step()

    return advance


def point(n: int, d: int, m: int, logistic: bool) -> dict[str, Any]:
    """Return the measurements of one point, of all engines and peers, and print them."""
    task = problem(n, d, m, logistic)
    found = {row.name: measured(row.engine(), task) for row in descents(task)}
    if n <= d:
        inside = descents(replace(task, in_span=True))
        spanned = {row: partial(SpannedDescent, engine=row.engine()) for row in inside if row.name in IN_SPAN}
        found |= {f"span+{row.name}": measured(make, task) for row, make in spanned.items()}
    peers = {"NumPy": numpy_loop, "Numba": numba_loop}
    if importlib.util.find_spec("torch") and n * d * m <= 10**7:
        peers["PyTorch"] = torch_loop
    beside = {name: per_step(make(task)) for name, make in peers.items()}
    words = [f"{name} {1e6 * cost:.2f}" for name, (_, cost) in found.items()]
    words += ["|", *(f"{name} {1e6 * cost:.2f}" for name, cost in beside.items())]
    kind = "log" if logistic else "sq "
    print(f"n {n:5d}  d {d:4d}  m {m:6d}  {kind}  {'  '.join(words)}", flush=True)
    return {"n": n, "d": d, "m": m, "log": int(logistic), "own": found, "peers": beside}


def table(keep: Path, every: int = 1) -> list[dict[str, Any]]:
    """Return the measurements of every so many points."""
    rows = []
    for where in islice(grid(), 0, None, every):
        rows.append(point(*where))
        keep.write_text(json.dumps(rows))
    return rows


def name_of(task: Task) -> str:
    """Return what "auto" takes."""
    make = chosen_engine("gradient_descent", "auto", task)
    taken, where = (make.args[1], "span+") if make.func is SpannedDescent else (make.func, "")
    rows = [row for row in ENGINES if row.verb == "gradient_descent"]
    return where + next(row.name for row in rows if row.engine() is taken)


def judged(row: dict[str, Any]) -> Iterator[tuple[float, float, str, str]]:
    """Yield for 10³, 10⁵, 10⁶ steps the regret of "auto", what is allowed, by which plain loop it is beaten
    ("": none), and what was taken; the regret of 10⁶ steps that take over a minute is NaN.
    """
    task = problem(row["n"], row["d"], row["m"], bool(row["log"]))
    where = f"n {row['n']} d {row['d']} m {row['m']} {'log' if row['log'] else 'sq'}"
    for steps in STEPS:
        total = {name: setup + steps * cost for name, (setup, cost) in row["own"].items()}
        best, short = min(total, key=lambda k: total[k]), steps == STEPS[0]
        taken = name_of(replace(task, steps=steps))
        own = total.get(taken, np.inf)
        plain = min(row["peers"], key=lambda k: row["peers"][k])
        ratio = own / (steps * row["peers"][plain])
        beaten = ratio > ALLOWED and own * (1 - 1 / ratio) > CLOSE
        regret = 1.0 if own - total[best] < CLOSE and short else own / total[best]
        regret = np.nan if total[best] > MINUTE and steps == STEPS[-1] else regret
        words = f"{where}: {taken} is {ratio:.2f} × {plain}" if beaten else ""
        yield regret, SHORT if short else ALLOWED, words, f"{where}: {taken} instead of {best}"


def warm() -> None:
    """Load all kernels, so that "auto" does not count what a first use costs."""
    for row in ENGINES:
        if row.kernel:
            import_module(f"shallowflow.kernels.{row.kernel.partition(':')[0]}")


def descent(rows: list[dict[str, Any]]) -> None:
    """Print the regret of "auto", and where a plain loop would have been faster."""
    for steps, found in zip(STEPS, zip(*map(judged, rows), strict=True), strict=True):
        reached = [one for one in found if np.isfinite(one[0])]
        values, limit = np.array([one[0] for one in reached]), reached[0][1]
        beaten = [one[2] for one in reached if one[2]]
        mean = float(np.exp(np.log(values).mean()))
        above = f"{int(np.sum(values > limit))} above {limit}"
        print(f"\n{steps:,} steps, {len(values)} problems: regret {mean:.3f}, at worst {values.max():.2f}")
        print(f"  {above}; beaten by a plain loop: {len(beaten)}")
        for regret, *_, words in sorted(reached, reverse=True)[:8]:
            if regret > 1.1:
                print(f"    {regret:.2f}  {words}")
        for words in beaten[:8]:
            print(f"    {words}")


def fit(rows: list[dict[str, Any]]) -> None:
    """Print constants: non-negative least squares of relative errors."""
    for name, (terms, _, _) in TERMS.items():
        points = [
            (terms(Sizes(r["n"], min(r["n"], r["d"]) if triangle else r["d"], r["m"], r["log"], triangle)),
             r["own"][where + name][1] * 1e9)
            for triangle, where in ((False, ""), (True, "span+"))
            for r in rows
            if where + name in r["own"]
        ]  # fmt: skip
        if not points:
            continue
        matrix = np.array([np.array(t) / cost for t, cost in points])
        constants, _ = nnls(matrix, np.ones(len(matrix)))
        errors = np.sort(matrix @ constants)
        spread = errors[[len(errors) // 10, -1 - len(errors) // 10]]
        print(f"{name:10s} {np.array2string(constants, precision=4, suppress_small=True)}  "
              f"predicted/measured {spread[0]:.2f}–{spread[1]:.2f}")  # fmt: skip


Run = Callable[..., object]
STIFF = {"auto": None, "stiff": True, "explicit": False}
END = sf.Record.geometric(2, networks=False)


def flows() -> Iterator[tuple[str, str, Run]]:
    """Yield (verb, problem, run) of gradient flows in the plane and of knots."""
    for n, m, scale in product((3, 10, 40), (10, 100, 1000), (1.0, 0.01, 0.001)):
        rng = np.random.default_rng([n, m])
        data = sf.Dataset(rng.standard_normal((n, 2)), rng.standard_normal(n))
        start = sf.initialize.gaussian(m, 2, init_scale=scale, seed=1)
        run = partial(sf.gradient_flow, start, data, until=5.0, record=END)
        yield "gradient_flow", f"plane, n {n}, m {m}, start {scale:g}", run
    for n, m in product((10, 100), (5, 20)):
        data, knots = sf.data.GENERATORS["curve"]("sin_pi", n), sf.initialize.he_knots(m, seed=0)
        run = partial(sf.gradient_flow, knots, data, until=5.0, record=END)
        yield "gradient_flow", f"knots, n {n}, m {m}", run


def lines() -> Iterator[tuple[str, str, Run]]:
    """Yield descents and Adam of knots and steps, and stochastic descent of steps."""
    for n, m, steps in product((10, 100, 1000), (5, 100), (1_000, 10_000)):
        if n * m * steps > 10**8:  # "dense" would take minutes
            continue
        data, knots = sf.data.GENERATORS["curve"]("sin_pi", n), sf.initialize.he_knots(m, seed=0)
        windows = sf.initialize.uniform_positions(m, sharpness=0.5 / m, seed=1)
        shifted = sf.Dataset(0.5 + 0.5 * data.inputs, data.targets)
        words = f"n {n}, m {m}, {steps:,} steps"
        for name, net, points in (("knots", knots, data), ("steps", windows, shifted)):
            run = partial(sf.gradient_descent, net, points, step=1e-4, steps=steps, record=END)
            yield "gradient_descent", f"{name}, {words}", run
        run = partial(sf.adam, knots, data, steps=steps, record=END)
        yield "adam", words, run
    target = sf.PiecewiseConstant([0.3, 0.7], [0.0, 1.0, 0.5])
    for m, share in product((5, 20, 60, 120, 300), (0.08, 1.0)):
        net = sf.initialize.uniform_positions(m, sharpness=share / m, seed=1)
        run = partial(sf.stochastic_descent, net, target, step=1e-3, steps=20_000, record=END)
        yield "stochastic_descent", f"m {m}, η {share:g}/m", run


def limits() -> Iterator[tuple[str, str, Run]]:
    """Yield flows against a target; instead of an engine they take `stiff`."""
    target = sf.PiecewiseConstant([0.3, 0.7], [0.0, 1.0, 0.5])
    for m, eta in ((8, 0.02), (20, 0.004), (200, 0.0015)):
        net = sf.initialize.uniform_positions(m, sharpness=eta, seed=1)
        for epsilon, until in product((1.0, 0.1, 0.01, 1e-6), (1.0, 10.0)):
            run = partial(sf.population_flow, net, target, until=until, epsilon=epsilon, record=END)
            words = f"m {m}, η {eta:g}, ε {epsilon:g}, t {until:g}"
            yield "population_flow", words, run
    for m, eta in ((8, 0.02), (20, 0.004)):
        net = sf.initialize.uniform_positions(m, sharpness=eta, seed=1)
        run = partial(sf.two_timescale_limit, net, target, until=0.5, record=END)
        yield "two_timescale_limit", f"m {m}, η {eta:g}", run


def others() -> None:
    """Print "auto" over the best engine, whole calls, for the other verbs."""
    regrets = dict[str, list[float]]()
    for verb, words, run in (*flows(), *lines(), *limits()):
        seconds = dict[str, float]()
        options: dict[str, dict[str, Any]] = {name: {"engine": name} for name in names_of(verb)}
        if len(options) == 1:
            options = {name: {"stiff": value} for name, value in STIFF.items()}
        for name, option in options.items():  # compiled or loaded before anything is timed
            with suppress(sf.InvalidInputError):
                run(**option)
                seconds[name] = np.inf
        for name in list(seconds) * REPEATS:  # by turns; what takes long is timed once
            if not PATIENT < seconds[name] < np.inf:
                seconds[name] = min(seconds[name], cpu(partial(run, **options[name])))
        auto = seconds.pop("auto")
        best = min(seconds, key=lambda name: seconds[name])
        regret = 1.0 if auto - seconds[best] < CLOSE else auto / seconds[best]
        regrets.setdefault(verb, []).append(regret)
        listed = "  ".join(f"{name} {1e3 * value:.1f}" for name, value in seconds.items())
        print(f"{verb:20s} {words:32s} auto {1e3 * auto:8.1f} ms  {regret:5.2f}  | {listed}", flush=True)
    for name, values in regrets.items():
        print(f"{name}: {len(values)} problems, regret at worst {max(values):.2f}")


def main() -> None:
    kept = Path("regret.json")
    asked = sys.argv[1:] if sys.argv[0].endswith("regret.py") else []
    if "others" in asked:
        return others()
    every, old = 3 if "third" in asked else 1, "again" in asked and kept.exists()
    rows = json.loads(kept.read_text()) if old else table(kept, every)
    warm()
    if "fit" in asked:
        fit(rows)
    descent(rows)


if __name__ == "__main__":
    main()
