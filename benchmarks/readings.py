"""How good are the readings: floors, forecast, exit clock, escapes, on fresh seeds chosen beforehand?

Seeds 27,000 and up; sizes of the data sets by the seed alone. Truth is plain descent with small steps. Every
case that was drawn is counted, also where a prediction fails. `python -m benchmarks.readings clock …` for
some of the tables.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.escape import stable_step
from shallowflow.landscape import census, exit_time, next_exit
from shallowflow.landscape.geometry.activity import neurons_of
from shallowflow.landscape.geometry.floors import feature_floor, pattern_floor
from shallowflow.landscape.geometry.tangent import forecast

console = Console(width=120)
SEED = 27_000
SQUARE = sf.SquareLoss()
LOSSES_ONLY = sf.Record.every(1, networks=False)


def small_problem(seed: int, low: float = -8.0, most: int = 20) -> tuple[sf.ReLUNetwork, sf.Dataset, float]:
    """Return a balanced start of scale 10^low … 10^−2, Gaussian labels or a teacher of 3 neurons, and
    G_max."""
    rng = np.random.default_rng(SEED + seed)
    d, n = int(rng.integers(2, most + 1)), int(rng.integers(10, 61))
    inputs = rng.standard_normal((n, d))
    teacher = sf.ReLUNetwork(rng.standard_normal((3, d)), rng.standard_normal(3))
    targets = teacher(inputs) if seed % 2 else rng.standard_normal(n)
    scale = 10.0 ** rng.uniform(low, -2.0)
    network = sf.initialize.balanced(30, d, init_scale=scale, seed=SEED + seed)
    data = sf.Dataset(inputs, targets)
    found = sf.landscape.destinations(network, data)
    return network, data, max((vector.norm for vector in found.vectors), default=0.0)


def clock(number: int = 200) -> None:
    """Print how well the exit clock tells the time of 1 %, beside ln(1/λ)/G_max, and what it costs."""
    errors, simple, costs, never = [], [], [], 0
    for seed in range(number):
        network, data, fastest = small_problem(seed)
        begin = time.process_time()
        found = exit_time(network, data)
        costs.append([time.process_time() - begin, 0.0])
        if not found.reached:
            never += 1
            continue
        step = 1e-3 / fastest
        begin = time.process_time()
        run = sf.gradient_descent(
            network, data, step=step, steps=int(1.2 * found.time / step) + 50, record=LOSSES_ONLY
        )
        costs[-1][1] = time.process_time() - begin
        true = crossing(run.times, run.losses, 0.99 * run.losses[0])
        errors.append(abs(found.time / true - 1.0))
        scale = float(np.sqrt(np.sum(network.outer**2)))
        simple.append(abs(np.log(1.0 / scale) / fastest / true - 1.0))
    table = Table(title=f"Exit clock, time of 1 %, {number} data sets (d 2 to 20, scales 1e-8 to 1e-2)")
    for name in ("", "median", "90 %", "largest", "reached"):
        table.add_column(name)
    for name, values in (("clock", errors), ("ln(1/λ)/G_max", simple)):
        row = [f"{np.quantile(values, share):.4f}" for share in (0.5, 0.9, 1.0)]
        table.add_row(name, *row, f"{len(values)} of {number}")
    console.print(table)
    spent = np.array(costs)
    console.print(
        f"the clock never arrives: {never}; CPU of the clock / of descent with step 1e-3/G_max: "
        f"{spent[:, 0].sum() / spent[:, 1].sum():.4f}"
    )


def crossing(times: Floats, losses: Floats, level: float) -> float:
    """Return when a loss first falls to a level; NaN if it does not."""
    below = np.flatnonzero(losses <= level)
    if not below.size:
        return float("nan")
    k = int(below[0])
    share = np.log(losses[k - 1] / level) / np.log(losses[k - 1] / losses[k]) if k else 0.0
    return float(times[k - 1] + share * (times[k] - times[k - 1])) if k else float(times[0])


def later(number: int = 160) -> None:
    """Print how well `next_exit` tells the end of later plateaus, asked at their quietest moment."""
    errors: dict[str, list[float]] = {"awake run on": [], "all frozen": []}
    spent = np.zeros(2)
    for seed in range(number):
        network, data, fastest = small_problem(10_000 + seed, low=-6.0, most=10)
        begin = time.process_time()
        run = slow_descent(network, data, fastest)
        whole = time.process_time() - begin
        times, losses = run.times, run.losses
        quiet = quietest(losses, -np.gradient(losses, times))
        if quiet is None:
            continue
        state, goal = run(float(times[quiet])), 0.98 * losses[quiet]
        assert isinstance(state, sf.ReLUNetwork)
        assert run.setting.step is not None
        steps = int((times[quiet + np.argmax(losses[quiet:] <= goal)] - times[quiet]) / run.setting.step)
        again = sf.gradient_descent(
            state, data, step=run.setting.step, steps=steps + 100, record=sf.Record.every(1, networks=False)
        )
        true = crossing(again.times, again.losses, goal)
        if not np.isfinite(true):
            continue
        asleep = census(state, data).dormant
        begin = time.process_time()
        found = next_exit(state, data, fall=0.02, most=60_000)
        spent += time.process_time() - begin, whole
        frozen = exit_time(state, data, fall=0.02, dormant=asleep) if asleep.any() else None
        errors["awake run on"].append(abs(found.time / true - 1.0))
        errors["all frozen"].append(abs(frozen.time / true - 1.0) if frozen else np.inf)
    plateaus = len(errors["all frozen"])
    table = Table(title=f"Later plateaus: {plateaus} in {number} runs, time until 2 % less")
    for name in ("", "within 10 %", "within 25 %", "median error", "never"):
        table.add_column(name)
    for name, values in errors.items():
        off = np.array(values)
        shares = [f"{np.sum(off <= limit)} of {len(off)}" for limit in (0.1, 0.25)]
        table.add_row(name, *shares, f"{np.median(off):.4f}", str(int(np.sum(~np.isfinite(off)))))
    console.print(table)
    console.print(f"CPU of next_exit / of the whole descent: {spent[0] / spent[1]:.3f}")


def slow_descent(network: sf.ReLUNetwork, data: sf.Dataset, fastest: float) -> sf.Trajectory:
    """Return a descent to t = 800/G_max with steps of 0.02/G_max, or 0.1/λ_max of its end if that is less."""
    step, until = 0.02 / fastest, 800.0 / fastest
    for _ in range(3):
        steps = int(until / step)
        run = sf.gradient_descent(network, data, step=step, steps=steps, record=sf.Record.every(steps // 800))
        final = run.final
        assert isinstance(final, sf.ReLUNetwork)
        allowed = stable_step(final, data) / 9.0
        if step <= allowed:
            break
        step = 0.9 * allowed
    return run


def quietest(losses: Floats, speeds: Floats) -> int | None:
    """Return the quietest moment of a plateau: dL/dt fell to 5 % of its peak, rises by 4, the loss later 10 %
    less."""
    peak = int(np.argmax(speeds))
    after = np.flatnonzero(speeds[peak:] < 0.05 * speeds[peak])
    if not after.size:
        return None
    onset = peak + int(after[0])
    lows = np.minimum.accumulate(speeds[onset:])
    rises = np.flatnonzero(speeds[onset:] > 4.0 * np.maximum(lows, 1e-12 * speeds[peak]))
    if not rises.size or losses[-1] > 0.9 * losses[onset]:
        return None
    return onset + int(np.argmin(speeds[onset : onset + rises[0] + 1]))


def lowest(number: int = 10_000) -> None:
    """Print whether floors are ever undercut: in each state, and later while the pattern stands."""
    rng = np.random.default_rng(SEED)
    states = undercut = kept = later_undercut = interpolate = 0
    smallest = np.inf
    while states < number:
        d, n, m = int(rng.integers(1, 21)), int(rng.integers(5, 61)), int(rng.integers(2, 21))
        data = sf.Dataset(rng.standard_normal((n, d)), rng.standard_normal(n))
        start = sf.ReLUNetwork(rng.standard_normal((m, d)), rng.standard_normal(m))
        step = stable_step(start, data) / 3.0
        run = sf.gradient_descent(start, data, step=step, steps=2_000, record=sf.Record.geometric(50))
        before: tuple[bytes, float] | None = None
        for t in run.times.tolist():
            network = run(t)
            assert isinstance(network, sf.ReLUNetwork)
            neurons = neurons_of(network, data)
            value = SQUARE.value(network(data.inputs), data.targets)
            feature = feature_floor(neurons, data.targets, 1.0 / n)
            pattern = pattern_floor(neurons, data.targets, 1.0 / n)
            states, interpolate = states + 1, interpolate + pattern.interpolates
            slack = 1e-12 * value
            undercut += not pattern.level - slack <= feature.level <= value + slack
            smallest = min(smallest, (value - pattern.level) / value)
            key = neurons.signs.tobytes()
            if before is not None and before[0] == key:
                kept += 1
                later_undercut += value < before[1] - slack
            before = key, pattern.level
    console.print(
        f"floors: {states} states (d 1 to 20), chain broken {undercut} times; smallest (L − pattern)/L "
        f"{smallest:.1e}; {interpolate} patterns can interpolate; {kept} times the pattern stood until the "
        f"next record, the loss then below the earlier floor {later_undercut} times"
    )


Family = Callable[[int], tuple[sf.ReLUNetwork, sf.Dataset, sf.Dataset]]


def uniform(width: int, dimension: int, rng: np.random.Generator) -> sf.ReLUNetwork:
    """Return PyTorch's default start: uniform in ±1/√(fan in), the bias as the last coordinate."""
    inner = rng.uniform(-1, 1, (width, dimension)) / np.sqrt(max(dimension - 1, 1))
    return sf.ReLUNetwork(inner, rng.uniform(-1, 1, width) / np.sqrt(width))


def curve(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset, sf.Dataset]:
    """1-40-1 with biases on sin 5πx, 200 points."""
    rng = np.random.default_rng(SEED + seed)
    x, new = np.linspace(-1, 1, 200), rng.uniform(-1, 1, 500)
    both = [sf.Dataset(z[:, None], np.sin(5 * np.pi * z)).with_bias() for z in (x, new)]
    return uniform(40, 2, rng), both[0], both[1]


def plane(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset, sf.Dataset]:
    """40 neurons with biases on a smooth function of the plane, 400 points, noise 0.05."""
    rng = np.random.default_rng(SEED + seed)
    sets = []
    for count, noise in ((400, 0.05), (800, 0.0)):
        x = rng.uniform(-1, 1, (count, 2))
        y = np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1]) + noise * rng.standard_normal(count)
        sets.append(sf.Dataset(x, y).with_bias())
    return uniform(40, 3, rng), sets[0], sets[1]


def teacher(seed: int, neurons: int = 12, width: int = 12) -> tuple[sf.ReLUNetwork, sf.Dataset, sf.Dataset]:
    """12 neurons on a teacher of 12, d = 10, 600 points, noise 0.05."""
    rng = np.random.default_rng(SEED + seed)
    truth = sf.ReLUNetwork(rng.standard_normal((neurons, 10)) / np.sqrt(10), rng.standard_normal(neurons))
    sets = []
    for count, noise in ((600, 0.05), (1000, 0.0)):
        x = rng.standard_normal((count, 10))
        sets.append(sf.Dataset(x, truth(x) + noise * rng.standard_normal(count)))
    return uniform(width, 10, rng), sets[0], sets[1]


def five(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset, sf.Dataset]:
    """40 neurons on a teacher of 5, d = 10, 600 points, noise 0.05."""
    return teacher(seed, 5, 40)


def ahead(seeds: int = 4) -> None:
    """Print the error |ln(forecast/true)| by what the forecast itself says: the kernel frozen, and
    renewed."""
    bands = (0.97, 0.9, 0.8, 0.7, 0.5, 0.0)
    errors: dict[str, dict[float, list[float]]] = {
        name: {band: [] for band in bands} for name in ("frozen", "renewed")
    }
    beyond, spent = 0, np.zeros(2)
    for family in (curve, plane, five):
        for seed in range(seeds):
            network, data, _ = family(500 + seed)
            step = stable_step(network, data) / 3.0
            marks = np.array([0, 100, 300, 400, 1000, 1300, 3000, 4000, 10_000])
            run = sf.gradient_descent(
                network, data, step=step, steps=10_000, record=sf.Record.at(step * marks)
            )
            for i in range(len(marks) - 1):
                state = run(float(run.times[i]))
                neurons, both = neurons_of(state, data), []
                for which, most in enumerate((1, 100)):
                    begin = time.process_time()
                    both.append(forecast(state, neurons, data, SQUARE, step, most=most))
                    spent[which] += time.process_time() - begin
                for j in range(i + 1, len(marks)):
                    until = step * float(marks[j] - marks[i])
                    for name, found in zip(errors, both, strict=True):
                        if name == "renewed" and until > found.reach:
                            beyond += 1
                            continue
                        said = found(until) / run.losses[i]
                        band = next(one for one in bands if said >= one)
                        errors[name][band].append(abs(np.log(said * run.losses[i] / run.losses[j])))
    table = Table(title="Forecast: error by what it says itself")
    for column in ("L(T)/L(0) above", "kernel", "number", "median", "90 %", "largest"):
        table.add_column(column)
    for band in bands:
        for name in errors:
            values = errors[name][band]
            row = [f"{np.quantile(values, q):.4f}" for q in (0.5, 0.9, 1.0)] if values else ["–"] * 3
            table.add_row(f"{band:g}", name, str(len(values)), *row)
    console.print(table)
    console.print(
        f"{beyond} times were beyond the reach of the renewed forecast; CPU renewed / frozen "
        f"{spent[1] / spent[0]:.0f}, {spent[1] / (8 * 3 * seeds):.2f} s each"
    )


def escapes(number: int = 20) -> None:
    """Print the loss after an escape and 3,000 steps relative to 3,000 plain steps, all networks of each
    family."""
    families: tuple[tuple[str, Family, int], ...] = (
        ("1d", curve, 20_000),
        ("plane", plane, 10_000),
        ("10h", teacher, 6_000),
    )
    table = Table(title=f"Escapes, {number} networks of each family: median [10 %, 90 %], worst")
    for name in ("family", "moves", "just after", "after 3,000", "worst", "held-out", "worst held-out"):
        table.add_column(name)
    for name, family, steps in families:
        rows, chosen = [], []
        for seed in range(100, 100 + number):
            network, data, new = family(seed)
            step = stable_step(network, data) / 3.0
            stuck = sf.gradient_descent(network, data, step=step, steps=steps).final
            assert isinstance(stuck, sf.ReLUNetwork)
            found = sf.escape(stuck, data)
            plain = sf.gradient_descent(stuck, data, step=step, steps=3_000).final
            trained = sf.gradient_descent(found.network, data, step=min(step, found.step), steps=3_000).final
            values = [SQUARE.value(one(data.inputs), data.targets) for one in (stuck, plain, trained)]
            kept = [SQUARE.value(one(new.inputs), new.targets) for one in (plain, trained)]
            rows.append([found.after / values[0], values[2] / values[1], kept[1] / kept[0]])
            chosen.append("+".join(move.name for move in found.moves))
        middle, low, high = (np.quantile(rows, q, axis=0) for q in (0.5, 0.1, 0.9))
        worst, worse = np.max(rows, axis=0), int(np.sum(np.array(rows)[:, 1] > 1.0))
        moves = ", ".join(f"{one}: {chosen.count(one)}" for one in sorted(set(chosen)))
        spread = f"{middle[1]:.2f} [{low[1]:.2f}, {high[1]:.2f}]"
        kept_spread = f"{middle[2]:.2f} [{low[2]:.2f}, {high[2]:.2f}]"
        table.add_row(
            name,
            moves,
            f"{middle[0]:.2f}",
            spread,
            f"{worst[1]:.4f} ({worse} > 1)",
            kept_spread,
            f"{worst[2]:.2f}",
        )
    console.print(table)


TABLES: dict[str, Callable[[], None]] = {
    "floors": lowest,
    "clock": clock,
    "later": later,
    "forecast": ahead,
    "escapes": escapes,
}


def main(names: list[str] | None = None) -> None:
    for name in names or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
