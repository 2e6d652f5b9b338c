"""Trajectory files: every bit comes back, or an error does; a kill leaves the old file or the new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.models.networks import KnotNetwork
from tests.dynamics.examples import EXAMPLE_NETWORKS, PATHS, example_path, example_trajectory


@pytest.mark.parametrize("name", EXAMPLE_NETWORKS)
@pytest.mark.parametrize("kind", PATHS)
def test_every_bit_comes_back(tmp_path: Path, name: str, kind: str) -> None:
    trajectory = example_trajectory(name, kind)
    path = tmp_path / "run.trajectory"
    trajectory.save(path)
    loaded = Trajectory.load(str(path))
    assert fingerprint(loaded) == fingerprint(trajectory)
    assert loaded.initial == EXAMPLE_NETWORKS[name]
    for array in (loaded.times, loaded.losses, loaded.path.times, loaded.path.__dict__["values"]):
        assert not array.flags.writeable
    loaded.save(path)
    assert fingerprint(Trajectory.load(path)) == fingerprint(trajectory)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.trajectory"]


def test_diverged_networks_and_numpy_numbers_are_stored(tmp_path: Path) -> None:
    values = np.array([[0.0, 1.0, -0.0, 5e-324], [np.nan, np.inf, -np.inf, 1e308]])
    path = Snapshots(KnotNetwork([0.0, 1.0], [-0.0, 5e-324]), np.array([0.0, 1.0]), values)
    index: Any = np.int64(1)
    events = (Event(np.float64(0.5), "off", index, index),)
    counts: dict[str, Any] = {"steps": np.int64(5), "loss": np.float64(np.nan)}
    trajectory = Trajectory(np.zeros(1), np.array([np.inf]), path, events, Outcome("diverged", "."), counts)
    trajectory.save(tmp_path / "t")
    assert fingerprint(Trajectory.load(tmp_path / "t")) == fingerprint(trajectory)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    name=st.sampled_from(sorted(EXAMPLE_NETWORKS)),
    kind=st.sampled_from(PATHS),
    words=st.text(max_size=20),
    statistics=st.dictionaries(
        st.text(max_size=5), st.floats() | st.integers() | st.text(max_size=5), max_size=4
    ),
)
def test_any_words_and_statistics_come_back(
    tmp_path_factory: Any, name: str, kind: str, words: str, statistics: dict[str, float | int | str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "words"
    path = example_path(EXAMPLE_NETWORKS[name], kind)
    trajectory = Trajectory(np.zeros(1), np.zeros(1), path, (), Outcome("stalled", words, words), statistics)
    trajectory.save(file)
    assert fingerprint(Trajectory.load(file)) == fingerprint(trajectory)


def test_memory_order_does_not_matter(tmp_path: Path) -> None:
    path = example_path(EXAMPLE_NETWORKS["knot"], "snapshots")
    assert isinstance(path, Snapshots)
    turned = Snapshots(path.template, path.times, np.asfortranarray(path.values))
    Trajectory(np.zeros(9)[::3], np.arange(9.0)[::-3], turned, (), Outcome("completed", ".")).save(
        tmp_path / "t"
    )
    loaded = Trajectory.load(tmp_path / "t")
    assert loaded.path == path
    assert loaded.losses.tolist() == [8.0, 5.0, 2.0]


def test_a_rewritten_sound_file_is_read(tmp_path: Path, sound: bytes) -> None:
    # The tests below change one thing in such a file.
    write_zip(tmp_path / "t", members_of(sound))
    assert fingerprint(Trajectory.load(tmp_path / "t")) == fingerprint(
        example_trajectory("step", "polynomials")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, r"its version is 2, this program reads 1$"),
        ({"version": None}, r"its version is None, this program reads 1$"),
        ({"format": "other"}, r"its header is not a trajectory's$"),
        ({"path": "splines"}, r"its path is of unknown kind 'splines'$"),
        ({"path": "snapshots"}, r"path_values has shape \(4, 4, 5\) instead of \(5, 5\)$"),
        ({"outcome": ["fine", "", ""]}, r"status: must be one of completed, .*; got 'fine'$"),
        ({"outcome": []}, r"missing 2 required positional arguments"),
        ({"events": [[0.0, "boom", 0, 0]]}, r"kind: must be one of on, .*; got 'boom'$"),
        ({"events": [[0.0, "on"]]}, r"not enough values to unpack"),
        ({"events": 3}, r"not iterable"),
        ({"statistics": [1, 2]}, r"has no attribute 'items'"),
        ({"network": {"type": "object", "shapes": {}, "constants": {}}}, r"'object'$"),
        ({"network": {"type": "StepNetwork", "shapes": {}, "constants": {}}}, r"'positions'$"),
    ],
)
def test_headers_that_make_no_sense_are_refused(
    tmp_path: Path, sound: bytes, change: dict[str, Any], message: str
) -> None:
    members = members_of(sound)
    members["header.json"] = json.dumps({**json.loads(members["header.json"]), **change}).encode()
    write_zip(tmp_path / "t", members)
    refused(tmp_path / "t", message)


@pytest.mark.parametrize(
    ("shapes", "constants", "message"),
    [
        (
            {"positions": [2], "outer": [2], "offset": []},
            {"sharpness": -1},
            "sharpness: must be >= 0, got -1",
        ),
        (
            {"positions": [2], "outer": [2], "offset": []},
            {"secret": 1},
            "unexpected keyword argument 'secret'",
        ),
        (
            {"positions": [3], "outer": [1], "offset": []},
            {"sharpness": 1},
            "positions, outer: must have equal lengths",
        ),
        (
            {"positions": [9], "outer": [9], "offset": []},
            {"sharpness": 1},
            "path_values holds 5 numbers per network",
        ),
        (
            {"positions": [10**13], "outer": [2], "offset": []},
            {"sharpness": 1},
            "path_values holds 5 numbers",
        ),
        ({"positions": [-1, -2], "outer": [2], "offset": []}, {"sharpness": 1}, "negative dimensions"),
    ],
)
def test_networks_that_do_not_fit_are_refused(
    tmp_path: Path, sound: bytes, shapes: dict[str, Any], constants: dict[str, float], message: str
) -> None:
    members = members_of(sound)
    header = json.loads(members["header.json"])
    header["network"] = {"type": "StepNetwork", "shapes": shapes, "constants": constants}
    members["header.json"] = json.dumps(header).encode()
    write_zip(tmp_path / "t", members)
    assert peak_memory(lambda: refused(tmp_path / "t", message)) < 1_000_000
