"""Files of arrays: damaged and foreign ones are refused. Kills in a save: `tests/test_kills.py`."""

from __future__ import annotations

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
from shallowflow.errors import FileFormatError
from tests.dynamics.clock.files import claim, fingerprint, members_of, npy, peak_memory, refused, write_zip
from tests.dynamics.examples import EXAMPLE_NETWORKS, example_path, example_trajectory


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a sound file."""
    path = tmp_path_factory.mktemp("sound") / "t"
    example_trajectory("step", "polynomials").save(path)
    return path.read_bytes()


def test_a_truncated_file_is_refused_wherever_it_is_cut(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "cut"
    cuts = {*np.linspace(0, len(sound) - 1, 200).astype(int).tolist(), *range(len(sound) - 30, len(sound))}
    for cut in cuts:
        path.write_bytes(sound[:cut])
        refused(path, "is not a whole shallowflow trajectory file")


def test_no_flipped_byte_changes_a_trajectory_silently(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "flipped"
    path.write_bytes(sound)
    expected = fingerprint(Trajectory.load(path))
    refusals, positions = 0, [*range(0, len(sound) - 450, 2), *range(len(sound) - 450, len(sound))]
    for position in positions:
        flipped = bytearray(sound)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        try:
            loaded = Trajectory.load(path)
        except FileFormatError:
            refusals += 1
        else:
            assert fingerprint(loaded) == expected, position
    assert refusals > 0.7 * len(positions)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(data=st.data())
def test_no_damage_changes_a_trajectory_silently(
    tmp_path_factory: Any, sound: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(sound)
    expected = fingerprint(Trajectory.load(path))
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 3), "flips")):
        # The directory at the end steers the reading, so it gets half of the flips.
        last = len(sound) - 1
        position = data.draw(st.integers(0, last) | st.integers(last - 350, last), "position")
        damaged[position] = data.draw(st.integers(0, 255), "byte")
    path.write_bytes(damaged)
    try:
        loaded = Trajectory.load(path)
    except FileFormatError:
        refused(path)
    else:
        assert fingerprint(loaded) == expected


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    refused(tmp_path / "none", r"none: cannot be read: No such file or directory$")
    refused(tmp_path, r": cannot be read: Is a directory$")


def test_other_programs_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    np.savez(path, times=np.zeros(2), losses=np.zeros(2))
    refused(path, "it holds other members than a trajectory has")
    write_zip(path, {})
    refused(path, "it holds other members than a trajectory has")
    np.save(tmp_path / "array.npy", np.zeros(3))
    refused(tmp_path / "array.npy", "File is not a zip file")
    path.write_bytes(pickle.dumps({"times": [0.0]}))
    refused(path, "File is not a zip file")
    path.write_text("time,loss\n0,1\n")
    refused(path, "File is not a zip file")


def test_members_may_not_be_missing_added_or_doubled(tmp_path: Path, sound: bytes) -> None:
    members = members_of(sound)
    path = tmp_path / "t"
    write_zip(path, {name: members[name] for name in list(members)[:-1]})
    refused(path, "other members")
    write_zip(path, {**members, "../evil": b""})
    refused(path, "other members")
    write_zip(path, members)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("times.npy", members["times.npy"])
    refused(path, "other members")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_bombs_are_refused_without_unpacking(tmp_path: Path, sound: bytes, compression: int) -> None:
    members = members_of(sound)
    members["losses.npy"] = npy(np.zeros(1_000_000))
    path = tmp_path / "bomb"
    write_zip(path, members, compression)
    assert path.stat().st_size < 100_000
    assert peak_memory(lambda: refused(path, "its members are compressed")) < 1_000_000


@pytest.mark.parametrize("member", ["times.npy", "losses.npy", "path_times.npy", "path_values.npy"])
@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (-1,), (0, 10**15), (2,)])
def test_arrays_that_claim_more_than_they_hold_are_refused(
    tmp_path: Path, sound: bytes, member: str, shape: tuple[int, ...]
) -> None:
    write_zip(tmp_path / "t", {**members_of(sound), member: claim(shape)})
    assert peak_memory(lambda: refused(tmp_path / "t")) < 1_000_000


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{"a": 1}], dtype=object), r"losses must be float64 in C order, got object"),
        (np.zeros(7, dtype=np.float32), r"losses must be float64 in C order, got float32"),
        (np.zeros(7, dtype=">f8"), r"losses must be float64 in C order, got >f8"),
        (np.zeros(7, dtype=np.complex128), r"losses must be float64 in C order, got complex128"),
        (np.asfortranarray(np.zeros((7, 2))), r"losses must be float64 in C order"),
        (np.zeros(6), r"losses has shape \(6,\) instead of \(7,\)"),
        (np.zeros((7, 1)), r"losses has shape \(7, 1\) instead of \(7,\)"),
    ],
)
def test_arrays_of_other_types_and_shapes_are_refused(
    tmp_path: Path, sound: bytes, array: np.ndarray[Any, Any], message: str
) -> None:
    write_zip(tmp_path / "t", {**members_of(sound), "losses.npy": npy(array)})
    refused(tmp_path / "t", message)


class Bomb:
    """Unpickling it would be noticed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


def test_pickles_are_never_loaded(tmp_path: Path, sound: bytes) -> None:
    objects = npy(np.array([Bomb()], dtype=object))
    for member in ("times.npy", "path_values.npy"):
        write_zip(tmp_path / "t", {**members_of(sound), member: objects})
        refused(tmp_path / "t", "must be float64")


@pytest.mark.parametrize("header", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 1}'])
def test_headers_that_are_not_json_objects_are_refused(tmp_path: Path, sound: bytes, header: bytes) -> None:
    write_zip(tmp_path / "t", {**members_of(sound), "header.json": header})
    refused(tmp_path / "t")


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path, reason in [
        (tmp_path / "nowhere" / "t", "No such file or directory"),
        (tmp_path / "file" / "t", "Not a directory"),
        (tmp_path, "."),
    ]:
        with pytest.raises(FileFormatError, match=f"^{re.escape(str(path))}: cannot be written: {reason}"):
            example_trajectory().save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_trajectory_that_cannot_be_stored_leaves_the_old_file(tmp_path: Path) -> None:
    example_trajectory().save(tmp_path / "t")
    path = example_path(EXAMPLE_NETWORKS["knot"], "snapshots")
    statistics: dict[str, Any] = {"thing": object()}
    odd = Trajectory(np.zeros(1), np.zeros(1), path, (), Outcome("completed", "."), statistics)
    with pytest.raises(TypeError, match="not JSON serializable"):
        odd.save(tmp_path / "t")
    assert fingerprint(Trajectory.load(tmp_path / "t")) == fingerprint(example_trajectory())
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]
