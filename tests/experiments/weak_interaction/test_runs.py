"""The single runs against the paper's settings and against plain training."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import sphere
from shallowflow.experiments.weak_interaction import runs


def test_widths_and_epochs_are_those_of_the_appendix() -> None:
    """m = 39 for n = 3000; int(1.5 √(nm) ln(nm)/4 + 1) epochs."""
    assert runs.stated_width(3000) == 39
    assert runs.stated_width(3000, 4.0) == 156
    assert runs.epochs(3000, 39) == 1497
    assert runs.epochs(3000, 39, 3.0) == 2994


@pytest.mark.parametrize("setting", ["printed", "authors"])
def test_both_starts_satisfy_assumption_1(setting: str) -> None:
    network = runs.start(setting, 200, 50, np.random.default_rng(0))
    excess = np.abs(network.outer) - np.linalg.norm(network.inner, axis=1)
    assert excess.min() > 0
    assert excess.mean() == pytest.approx(1.0, abs=0.25)
    spread = np.abs(network.inner).max() * np.sqrt(50)
    assert (spread <= 1.0) == (setting == "authors")


def test_convergence_is_that_of_plain_training() -> None:
    """The task's network and data, drawn again and trained by the dense engine in double precision."""
    parameters = {
        "size": 25,
        "dimension": 10,
        "width": 30,
        "setting": "printed",
        "budget": 1.5,
        "precision": "double",
    }
    for k in range(4):
        seed = np.random.SeedSequence(k)
        found = runs.convergence(parameters, seed)
        rng = np.random.default_rng(seed)
        dataset = sphere(25, 10, seed=rng)
        network = sf.initialize.asymmetric(30, 10, seed=rng)
        allowed = runs.epochs(25, 30)
        trajectory = sf.gradient_descent(
            network, dataset, step=30.0, steps=allowed, engine="dense", record=sf.Record.every(10)
        )
        below = np.flatnonzero(trajectory.losses < 0.5 / 25)
        last = below[0] if len(below) else -1
        assert found["converged"] == bool(len(below))
        assert found["epoch"] == trajectory.times[last] / 30
        assert found["epochs"] == allowed


def test_curvatures_are_the_measures_of_the_appendix() -> None:
    parameters = {"size": 20, "dimension": 30, "width": 22, "setting": "printed", "precision": "double"}
    seed = np.random.SeedSequence(3)
    found = runs.curvature(parameters, seed)
    rng = np.random.default_rng(seed)
    dataset = runs.axes(20, 30, rng)
    network = sf.initialize.asymmetric(22, 30, seed=rng)
    allowed = runs.epochs(20, 22)
    trajectory = sf.gradient_descent(
        network, dataset, step=22.0, steps=allowed, engine="dense", record=sf.Record.every(1)
    )
    losses, final = trajectory.losses, trajectory.final
    assert isinstance(final, sf.ReLUNetwork)
    active = final.inner @ dataset.inputs.T > 0
    shares = (final.outer**2 @ active) / 22
    assert found["last"] == pytest.approx(np.log(losses[-2] / losses[-1]), rel=1e-6)
    assert found["mean"] == pytest.approx(np.log(losses[0] / losses[-1]) / allowed, rel=1e-9)
    assert found["low"] == pytest.approx(2 / 20 * shares.min(), rel=1e-9)
    assert found["high"] == pytest.approx(16 / 20 * shares.max(), rel=1e-9)


def test_the_authors_runs_start_well_and_stop_deep() -> None:
    parameters = {"size": 20, "dimension": 30, "width": 14, "setting": "authors", "precision": "double"}
    for k in range(3):
        found = runs.curvature(parameters, np.random.SeedSequence(k))
        assert found["loss"] < 1e-6


def test_dominated_neurons_do_not_collapse_and_small_ones_do() -> None:
    parameters = {
        "ratio": 0.4,
        "label": 50.0,
        "bound": 0.01,
        "lowest": 0.5,
        "highest": 0.6,
        "rate": 1e-3,
        "epochs": 8000,
    }
    small = runs.collapse({**parameters, "dominated": False}, np.random.SeedSequence(1))
    assert small == {"lost": 1.0, "loss": pytest.approx(20.0**2 / 4, rel=1e-6), "allowed": 1.0}
    large = runs.collapse({**parameters, "dominated": True}, np.random.SeedSequence(1))
    assert large["lost"] == 0.0
    assert large["loss"] < 1e-6
