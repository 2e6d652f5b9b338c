"""The single runs of [weak_interaction]'s experiments, as tasks of (parameters, seed), and sweeps of them.

"printed": as App. B says. "authors": as in the authors' published programs, where w_j has entries U(±1/√d),
and for Figure 5 is scaled by 0.01, the event 𝓘 is waited for, and training lasts up to ten times as long but
stops at 10⁻⁶ of the usual level. Time is counted as in the paper: an epoch at rate 1 is a step m. The paper
trains in float32, and so do the sweeps ("precision"). A network has converged when Σr² < 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import sphere
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.experiment import Sweep, Values
from shallowflow.landscape import activity, correctly_activated
from shallowflow.landscape.weak_interaction.interactions import curvature_measures
from shallowflow.models import ReLUNetwork, initialize
from shallowflow.studies import Study

CHECK_EVERY = 10
"""Epochs between two looks at the loss."""
MOST_DRAWS = 1000
SMALL_START, LONGER, DEEPER = 0.01, 10, 1e-6
"""Of the authors' programs for Figure 5: scale of w, factor on the epochs, factor on the level."""
ENTRIES = {"printed": "normal", "authors": "uniform"}
"""How w_j is drawn."""
Run = dict[str, Any]


def epochs(size: int, width: int, budget: float = 1.5) -> int:
    """Return the epochs of App. B: int(budget·√(nm) ln(nm)/4 + 1)."""
    product = size * width
    return int(budget * np.sqrt(product) * np.log(product) / 4 + 1)


def stated_width(size: int, factor: float = 1.0) -> int:
    """Return App. B's number of neurons ⌊ln(n/0.05)/ln(4/3)⌋ + 1, times a factor."""
    return round(factor * (int(np.log(size / 0.05) / np.log(4 / 3)) + 1))


def start(setting: str, width: int, dimension: int, rng: np.random.Generator) -> ReLUNetwork:
    """Return a network drawn as printed or as in the authors' programs."""
    return initialize.asymmetric(width, dimension, entries=ENTRIES[setting], seed=rng)


def convergence(parameters: Values, seed: np.random.SeedSequence) -> dict[str, float]:
    """Train one network on random directions: does Σr² fall below 1 within the epochs, and when?

    parameters: size, dimension, width, setting, budget (of epochs), precision. Returned: whether the level
    was seen, the last epoch, the epochs allowed, and the last loss over the first (0 if converged).
    """
    rng = np.random.default_rng(seed)
    size, dimension, width = (int(parameters[name]) for name in ("size", "dimension", "width"))
    dataset = sphere(size, dimension, seed=rng)
    allowed = epochs(size, width, parameters["budget"])
    trajectory = gradient_descent(
        start(parameters["setting"], width, dimension, rng),
        dataset,
        step=float(width),
        steps=allowed,
        record=Record.every(CHECK_EVERY, networks=False),
        precision=parameters["precision"],
        stop_below=0.5 / size,
    )
    converged = trajectory.outcome.status == "converged"
    return {
        "converged": float(converged),
        "epoch": float(trajectory.times[-1] / width),
        "epochs": float(allowed),
        "loss": 0.0 if converged else float(trajectory.losses[-1] / trajectory.losses[0]),
    }


def axes(size: int, dimension: int, rng: np.random.Generator) -> Dataset:
    """Return inputs along the axes with norms U[1, 2] and labels U([−2, −1] ∪ [1, 2])."""
    inputs = np.zeros((size, dimension))
    inputs[np.arange(size), np.arange(size)] = rng.uniform(1.0, 2.0, size)
    return Dataset(inputs, rng.choice([-1.0, 1.0], size) * rng.uniform(1.0, 2.0, size), name="axes")


def curvature(parameters: Values, seed: np.random.SeedSequence) -> dict[str, float]:
    """Train one network on orthogonal inputs; return the four measures of Figure 5, and the last loss.

    "good" is 1 where every sample had a neuron of its sign at the start, as Conjecture 1 asks.

    Orthogonal inputs may be taken along the axes: printed weights are rotation-invariant, and the authors'
    programs take them there.
    """
    rng = np.random.default_rng(seed)
    size, dimension, width = (int(parameters[name]) for name in ("size", "dimension", "width"))
    printed = parameters["setting"] == "printed"
    dataset = axes(size, dimension, rng)
    network = start(parameters["setting"], width, dimension, rng)
    for _ in range(MOST_DRAWS):
        if printed or correctly_activated(network, dataset).all():
            break
        network = start(parameters["setting"], width, dimension, rng)
    good = float(correctly_activated(network, dataset).all())
    if not printed:
        network = ReLUNetwork(SMALL_START * network.inner, network.outer, scale=network.scale)
    allowed = epochs(size, width) * (1 if printed else LONGER)
    # Printed runs last to the end, of which two losses are wanted; the others may stop at any epoch.
    ends = Record.at([(allowed - 1.0) * width, float(allowed) * width], networks=False)
    trajectory = gradient_descent(
        network,
        dataset,
        step=float(width),
        steps=allowed,
        record=ends if printed else Record.every(1, networks=False),
        precision=parameters["precision"],
        stop_below=0.0 if printed else DEEPER * 0.5 / size,
    )
    losses, final = trajectory.losses, trajectory.final
    assert isinstance(final, ReLUNetwork)
    measures = curvature_measures(final, dataset, losses, trajectory.times[-1] / width)
    return {**measures._asdict(), "loss": float(losses[-1] * 2 * size), "good": good}


def collapse(parameters: Values, seed: np.random.SeedSequence) -> dict[str, float]:
    """Train two neurons on two orthonormal inputs with labels y₁ > 0 > −λy₁: is the smaller label lost?

    parameters: ratio λ, label y₁, bound of |a_j|, lowest and highest ⟨w_j, x_i⟩, rate, epochs; dominated:
    take a = (1.1‖w₁‖, −1.1‖w₂‖) instead, as Assumption 1 asks.
    """
    rng = np.random.default_rng(seed)
    label, ratio, bound = parameters["label"], parameters["ratio"], parameters["bound"]
    dataset = Dataset(np.eye(2), [label, -ratio * label])
    inner = rng.uniform(parameters["lowest"], parameters["highest"], (2, 2))
    outer = rng.uniform(-bound, bound, 2)
    if parameters["dominated"]:
        outer = np.array([1.1, -1.1]) * np.linalg.norm(inner, axis=1)
    trajectory = gradient_descent(
        ReLUNetwork(inner, outer, scale=0.5),
        dataset,
        step=2 * parameters["rate"],
        steps=parameters["epochs"],
        engine="decoupled",
        record=Record.geometric(2, networks=False),
    )
    final = trajectory.final
    assert isinstance(final, ReLUNetwork)
    lost = bool(np.all(activity(final, dataset.inputs)[:, 1] <= 0))
    allowed = smallest_ratio(float(inner.max()), label) <= ratio <= inner.min() / inner.max()
    return {"lost": float(lost), "loss": float(trajectory.losses[-1]), "allowed": float(allowed)}


def smallest_ratio(largest: float, label: float) -> float:
    """Return the lower bound (85) on λ, √(8 max ⟨w_j, x_i⟩/y₁)."""
    return float(np.sqrt(8 * largest / label))


def plan(sizes: Sequence[int], dimension: int, widths: Sequence[int], parameters: Values) -> list[Run]:
    """Return the parameters of a run of `convergence` for every size, with its width."""
    fixed = {
        "dimension": dimension,
        "setting": "printed",
        "budget": 1.5,
        "precision": parameters["precision"],
    }
    return [{**fixed, "size": size, "width": width} for size, width in zip(sizes, widths, strict=True)]


def execute(
    name: str, plans: Sequence[list[Run]], parameters: Values, sweep: Sweep
) -> list[tuple[list[Run], list[Mapping[str, float]]]]:
    """Train `repeats` networks at every point of the plans; return the runs of each with their numbers."""
    points = [point for part in plans for point in part]
    repeats = parameters["repeats"]
    study = Study(f"weak_interaction/{name}", convergence, points, repeats, parameters["seed"])
    numbers = [result.metrics for result in sweep(study)]
    ends = repeats * np.cumsum([len(part) for part in plans])
    runs = [[point for point in part for _ in range(repeats)] for part in plans]
    return [(part, numbers[end - len(part) : end]) for part, end in zip(runs, ends, strict=True)]


def successes(
    runs: list[Run], results: Sequence[Mapping[str, float]], budget: float = 1.5
) -> tuple[Floats, Floats]:
    """Return sizes and successes (0 or 1) within the epochs of a budget."""
    sizes = np.array([run["size"] for run in runs], dtype=float)
    within = [
        result["converged"] and result["epoch"] <= epochs(run["size"], run["width"], budget)
        for run, result in zip(runs, results, strict=True)
    ]
    return sizes, np.array(within, dtype=float)


def shares_of(sizes: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the different sizes, and the mean of the values at each."""
    kinds = np.unique(sizes)
    return kinds, np.array([np.mean(values[sizes == kind]) for kind in kinds])
