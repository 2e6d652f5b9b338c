"""A path by groups against the engine that made it, snapshots, and damaged files."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.clock.loop import joined_rows
from shallowflow.dynamics.clock.paths import GroupPath
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Piece
from shallowflow.dynamics.engines.cone_flow import ConeFlow


def problem() -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """Long enough for crossings, sliding and re-synchronised groups."""
    return sf.initialize.gaussian(60, 2, init_scale=1e-3, seed=2), sf.data.GENERATORS["stewart"]()


@pytest.fixture(scope="module")
def trajectory() -> sf.Trajectory:
    network, dataset = problem()
    return sf.gradient_flow(network, dataset, until=80.0, engine="cones")


def path_of(trajectory: sf.Trajectory) -> GroupPath:
    assert isinstance(trajectory.path, GroupPath)
    return trajectory.path


def numbers(network: object) -> Floats:
    assert isinstance(network, sf.ReLUNetwork)
    return np.column_stack([network.inner, network.outer])


def test_the_path_is_the_engines_own_state_at_every_step() -> None:
    network, dataset = problem()
    engine = ConeFlow(Task(network, dataset, sf.SquareLoss(), speed=2.0, epsilon=0.5))
    pieces, states = list[Piece](), list[sf.ReLUNetwork]()
    while not pieces or pieces[-1].times[-1] < 80.0:
        pieces.append(engine.advance(80.0, rows=True))
        states.append(engine.network())
    times = np.array([0.0, *(piece.times[-1] for piece in pieces)])
    path = engine.path(times, joined_rows(GroupPath, [piece.rows for piece in pieces]))
    assert len(path.syncs) >= 2
    assert np.any((path.targets >= len(path.rays)) & (path.targets < 3 * len(path.rays)))
    for time, state in zip(times[1:], states, strict=True):
        np.testing.assert_allclose(numbers(path(float(time))), numbers(state), rtol=0, atol=1e-11)


def test_the_path_is_continuous_and_solves_the_equation(trajectory: sf.Trajectory) -> None:
    """Across steps, moves and re-synchronisations; da/dt = −∂L/∂a in between."""
    _, dataset = problem()
    for time in trajectory.path.times[1:-1]:
        before, after = (numbers(trajectory(float(time) + shift)) for shift in (-1e-10, 1e-10))
        np.testing.assert_allclose(before, after, atol=1e-8)
    for time in np.random.default_rng(0).uniform(0.1, 79.9, 30):
        here, earlier, later = (trajectory(time + shift) for shift in (0.0, -1e-5, 1e-5))
        assert isinstance(here, sf.ReLUNetwork)
        slopes = sf.SquareLoss().slopes(here(dataset.inputs), dataset.targets)
        gradient = here.pullback(dataset.inputs, slopes)["outer"]
        speed = (numbers(later)[:, 2] - numbers(earlier)[:, 2]) / 2e-5
        np.testing.assert_allclose(speed, -gradient, atol=1e-6)


def test_it_takes_less_memory_than_networks_at_the_nodes() -> None:
    """Per step no number per neuron: at width 2,000 a small share of what polynomials would take."""
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(2_000, 2, init_scale=1e-3)
    path = path_of(sf.gradient_flow(network, dataset, until=1_000.0, engine="cones"))
    held = sum(array.nbytes for array in vars(path).values() if isinstance(array, np.ndarray))
    assert held < 0.02 * 8 * 12 * 3 * 2_000 * len(path.times)


def test_it_can_be_tabulated_unless_it_is_too_large(trajectory: sf.Trajectory) -> None:
    table = trajectory.to_xarray()
    np.testing.assert_array_equal(table["outer"][-1], numbers(trajectory.final)[:, 2])
    path = path_of(trajectory)
    huge = sf.ReLUNetwork(np.ones((3_000_000, 2)), np.ones(3_000_000))
    with pytest.raises(sf.InvalidInputError, match="one by one"):
        replace(path, template=huge).recorded()


def test_files_bring_it_back(trajectory: sf.Trajectory, tmp_path: Path) -> None:
    trajectory.save(tmp_path / "wide.sf")
    loaded = sf.Trajectory.load(tmp_path / "wide.sf")
    for time in (0.0, 3.3, 41.0, 80.0):
        assert loaded(time) == trajectory(time)
    assert loaded.events == trajectory.events
    assert loaded.path.kind == "groups"


def rewritten(source: Path, target: Path, name: str, array: Ints) -> None:
    """Copy a file with one member replaced."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for member in old.namelist():
            if member != f"{name}.npy":
                new.writestr(member, old.read(member))
        with new.open(f"{name}.npy", "w") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)


@pytest.mark.parametrize(
    "damage", ["movers", "start_groups", "occupied_from", "synced", "targets", "moves_from"]
)
def test_a_damaged_file_is_refused(damage: str, trajectory: sf.Trajectory, tmp_path: Path) -> None:
    trajectory.save(tmp_path / "whole.sf")
    array = np.array(getattr(trajectory.path, damage), np.int64)
    array[-1] += 10_000
    rewritten(tmp_path / "whole.sf", tmp_path / "broken.sf", f"path_{damage}", array)
    with pytest.raises(sf.FileFormatError, match=damage):
        sf.Trajectory.load(tmp_path / "broken.sf")
    rewritten(tmp_path / "whole.sf", tmp_path / "short.sf", f"path_{damage}", array[:-1])
    with pytest.raises(sf.FileFormatError):
        sf.Trajectory.load(tmp_path / "short.sf")


def test_members_of_another_kind_of_path_are_refused(trajectory: sf.Trajectory, tmp_path: Path) -> None:
    trajectory.save(tmp_path / "whole.sf")
    with (
        zipfile.ZipFile(tmp_path / "whole.sf") as old,
        zipfile.ZipFile(tmp_path / "other.sf", "w", zipfile.ZIP_STORED) as new,
    ):
        for member in old.namelist():
            content = old.read(member)
            if member == "header.json":
                content = json.dumps({**json.loads(content), "path": "polynomials"}).encode()
            new.writestr(member, content)
    with pytest.raises(sf.FileFormatError):
        sf.Trajectory.load(tmp_path / "other.sf")


def test_a_path_without_a_root_is_refused(trajectory: sf.Trajectory) -> None:
    path = path_of(trajectory)
    path.check()
    for root in (0.0, -1.0, np.nan):
        with pytest.raises(sf.FileFormatError, match="root is not positive"):
            replace(path, root=root).check()


def test_a_neuron_at_zero_stays_there() -> None:
    network = sf.ReLUNetwork([[1.0, 0.5], [0.0, 0.0], [-0.3, 1.0]], [1.0, 0.0, -0.5])
    dataset = sf.Dataset([[1.0, 0.5], [-0.5, 1.0], [0.3, -1.0]], [1.0, -1.0, 0.5])
    path = path_of(sf.gradient_flow(network, dataset, until=5.0, engine="cones"))
    without = sf.ReLUNetwork(network.inner[[0, 2]], network.outer[[0, 2]])
    other = path_of(sf.gradient_flow(without, dataset, until=5.0, engine="cones"))
    for time in np.linspace(0.1, 5.0, 9).tolist():
        assert numbers(path(time))[1].tolist() == [0.0, 0.0, 0.0]
        np.testing.assert_allclose(numbers(path(time))[[0, 2]], numbers(other(time)), rtol=0, atol=1e-9)
