"""A path by walls: what is read between its steps, files, and what a damaged one is refused for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Bools, Floats
from shallowflow.dynamics.clock.paths import WallPath
from shallowflow.errors import FileFormatError

UNTIL = 6.0
DATASET = sf.data.GENERATORS["sphere"](6, 3, seed=1)
MOMENTS = np.linspace(0.0, UNTIL, 41)


def flow(**options: Any) -> sf.Trajectory:
    """Neurons that cross the walls of six points in space."""
    network = sf.initialize.gaussian(12, 3, init_scale=0.3, seed=2)
    return sf.gradient_flow(network, DATASET, until=UNTIL, **options)


@pytest.fixture(scope="module")
def trajectory() -> sf.Trajectory:
    return flow(engine="walls", epsilon=0.5)


def path_of(trajectory: sf.Trajectory) -> WallPath:
    assert isinstance(trajectory.path, WallPath)
    return trajectory.path


def numbers(network: object) -> Floats:
    assert isinstance(network, sf.ReLUNetwork)
    return np.column_stack([network.inner, network.outer])


def test_between_its_steps_it_solves_the_equation(trajectory: sf.Trajectory) -> None:
    """dw/dt = −ε ∂L/∂w of neurons that do not slide, da/dt = −∂L/∂a of all; no jumps where steps meet."""
    path, h = path_of(trajectory), 1e-4
    events = np.array([event.time for event in trajectory.events])
    assert len(events) > 5
    assert len(path.times) < len(MOMENTS)  # so that many moments are inside steps
    seen = 0
    for time in MOMENTS[1:-1].tolist():
        if np.abs(events - time).min() < 2 * h:
            continue
        seen += 1
        speed = (numbers(path(time + h)) - numbers(path(time - h))) / (2 * h)
        expected, free = pulled(path(time))
        assert free.sum() >= 6
        np.testing.assert_allclose(speed[free], expected[free], rtol=0, atol=1e-6)
        np.testing.assert_allclose(speed[:, 3], expected[:, 3], rtol=0, atol=1e-6)
    assert seen > 30
    for time in path.times[1:-1].tolist():
        before, after = numbers(path(time * (1 - 1e-12))), numbers(path(time * (1 + 1e-12)))
        np.testing.assert_allclose(before, after, rtol=0, atol=1e-7)


def pulled(network: object) -> tuple[Floats, Bools]:
    """The speed of every weight off the walls, written out, and the neurons that are off the walls."""
    assert isinstance(network, sf.ReLUNetwork)
    z = DATASET.inputs @ network.inner.T
    wrong = (np.maximum(z, 0.0) @ network.outer - DATASET.targets) / DATASET.size
    inner = ((z > 0) * wrong[:, None]).T @ DATASET.inputs * network.outer[:, None]
    speed = -np.column_stack([0.5 * inner, np.maximum(z, 0.0).T @ wrong])
    return speed, np.abs(z).min(axis=0) > 1e-6


def test_a_record_at_moments_does_not_cut_its_steps(trajectory: sf.Trajectory) -> None:
    recorded = flow(engine="walls", epsilon=0.5, record=sf.Record.at(MOMENTS))
    assert recorded.statistics == trajectory.statistics
    for time in MOMENTS.tolist():
        np.testing.assert_allclose(numbers(recorded(time)), numbers(trajectory(time)), rtol=0, atol=1e-12)


def test_files_bring_it_back(trajectory: sf.Trajectory, tmp_path: Path) -> None:
    trajectory.save(tmp_path / "run")
    loaded = sf.Trajectory.load(tmp_path / "run")
    path_of(loaded)
    for time in MOMENTS.tolist():
        assert numbers(loaded(time)).tolist() == numbers(trajectory(time)).tolist()


DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "another network": ({"template": lambda _: sf.KnotNetwork([0.0], [1.0])}, "needs a ReLUNetwork"),
    "no step": ({"times": lambda path: path.times[:1]}, "must have a step"),
    "a step of no length": ({"times": lambda path: np.zeros(len(path.times))}, "all steps a length"),
    "no root": ({"root": 0.0}, "root must be positive"),
    "an endless root": ({"root": np.inf}, "root must be positive"),
    "a negative rest": ({"rest": -1e-9}, "rest not negative"),
    "one node": ({"pulls": lambda path: path.pulls[:, :1]}, "do not fit path_inputs"),
    "five nodes": ({"pulls": lambda path: path.pulls[:, :5]}, "do not fit path_inputs"),
    "a sample less": ({"pulls": lambda path: path.pulls[:, :, 1:]}, "do not fit path_inputs"),
    "signs too wide": ({"signs": lambda path: np.repeat(path.signs, 2, 2)}, "do not fit path_inputs"),
    "a code that is no sign": (
        {"signs": lambda path: np.full_like(path.signs, 3)},
        "codes that are no signs",
    ),
    "a negative code": ({"signs": lambda path: np.full_like(path.signs, -4)}, "codes that are no signs"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_refused(damage: str, trajectory: sf.Trajectory) -> None:
    path, (changes, words) = path_of(trajectory), DAMAGES[damage]
    path.check()
    changed = {name: change(path) if callable(change) else change for name, change in changes.items()}
    with pytest.raises(FileFormatError, match=words):
        replace(path, **changed).check()


def test_a_rest_of_zero_is_none(trajectory: sf.Trajectory) -> None:
    replace(path_of(trajectory), rest=0.0).check()
