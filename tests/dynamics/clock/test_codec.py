"""Trajectory files: every bit comes back, of every kind of path and setting, or an error does."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import shallowflow as sf
from shallowflow.dynamics.clock.codec import _array
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.protocol import Event
from shallowflow.dynamics.clock.trajectory import Outcome, Setting, Trajectory
from shallowflow.errors import FileFormatError
from shallowflow.models.networks import KnotNetwork
from tests.contract.saved import FILES, KINDS
from tests.dynamics.clock.files import changed, fingerprint, members_of, peak_memory, refused, write_zip
from tests.dynamics.examples import EXAMPLE_NETWORKS, PATHS, example_path, example_trajectory
from tests.dynamics.runs import DESCENTS, FLOWS, MOVES, jumps

KEPT: dict[str, Callable[[], Trajectory]] = {
    "snapshots": DESCENTS["descent, cones"],
    "snapshots of steps": DESCENTS["stochastic, plateaus"],
    "snapshots of a flow": partial(
        sf.gradient_flow,
        sf.initialize.he_knots(6, seed=0),
        sf.data.GENERATORS["curve"]("sin_pi", 15),
        until=60.0,
        record=sf.Record.geometric(20),
    ),
    "sparse": lambda: FLOWS["flow, cones"](record=sf.Record.every(1, networks=False)),
    "polynomials": FLOWS["flow, dense knots"],
    "walls": FLOWS["flow, walls"],
    "polynomials of knots": FLOWS["flow, stages"],
    "polynomials of a limit": FLOWS["two timescales, events"],
    "groups": FLOWS["flow, cones"],
    "replayed": FLOWS["flow, leaps"],
    "moves": MOVES["moves, windowed"],
    "saddles": jumps,
}
"""Runs with every kind of path."""


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


@pytest.mark.parametrize("kind", KEPT)
def test_every_kind_of_path_comes_back(tmp_path: Path, kind: str) -> None:
    trajectory = KEPT[kind]()
    trajectory.save(tmp_path / "first")
    loaded = Trajectory.load(tmp_path / "first")
    assert loaded.path == trajectory.path
    assert type(loaded.path) is type(trajectory.path)
    assert (loaded.setting, loaded.events, loaded.outcome) == (
        trajectory.setting,
        trajectory.events,
        trajectory.outcome,
    )
    assert dict(loaded.statistics) == dict(trajectory.statistics)
    np.testing.assert_array_equal(loaded.losses, trajectory.losses)
    for time in trajectory.path.times if kind == "sparse" else np.linspace(0.0, trajectory.times[-1], 7):
        assert loaded(float(time)) == trajectory(float(time))
    loaded.save(tmp_path / "second")
    assert members_of((tmp_path / "second").read_bytes()) == members_of((tmp_path / "first").read_bytes())


DATA = sf.Dataset([[0.1, 2.0], [0.3, -1.0]], [1.0, -1.0], name="two points")
STEP_TARGET = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])
SETTINGS = [
    Setting(),
    Setting("gradient_flow", "dense", DATA, sf.SquareLoss("sum"), None, 24.0, 0.1, 1e-8),
    Setting("gradient_descent", "cones", DATA, sf.LogisticLoss(), step=1 / 3, epsilon=1e-300),
    Setting("adam", data=DATA, loss=sf.NormLoss()),
    Setting("population_flow", data=STEP_TARGET, loss=sf.SquareLoss()),
    Setting("stochastic_descent", data=sf.PiecewiseAffine([0.0, 0.5, 1.0], [0.0, 1.0, 0.25])),
    Setting("stochastic_descent", data=sf.Additive([STEP_TARGET, sf.PiecewiseConstant([0.1], [0.0, 1.0])])),
]


def with_setting(setting: Setting) -> Trajectory:
    path = example_path(EXAMPLE_NETWORKS["relu"], "snapshots")
    return Trajectory(np.zeros(1), np.zeros(1), path, (), Outcome("completed", "."), {}, setting)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: str(setting.data or setting.verb)[:20])
def test_settings_come_back(tmp_path: Path, setting: Setting) -> None:
    with_setting(setting).save(tmp_path / "t")
    loaded = Trajectory.load(tmp_path / "t").setting
    assert loaded == setting
    assert repr(loaded) == repr(setting)


def test_data_that_are_larger_than_the_run_stay_out(tmp_path: Path) -> None:
    large = sf.Dataset(np.ones((10_000, 2)), np.ones(10_000))
    with_setting(Setting("adam", data=large, loss=sf.SquareLoss())).save(tmp_path / "t")
    assert (tmp_path / "t").stat().st_size < 10_000
    assert Trajectory.load(tmp_path / "t").setting == Setting("adam", loss=sf.SquareLoss())


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_version_1_are_read_and_written_as_version_2(tmp_path: Path, kind: str) -> None:
    """Nothing is known of their setting, nor of what rests."""
    old = Trajectory.load(FILES / f"{kind}.trajectory")
    assert old.setting == Setting()
    rests = old.resting(0.0)
    # What rests on orthogonal data can be read off the coordinates themselves.
    assert rests is None or (kind == "replayed" and rests[0].size == 0)
    old.save(tmp_path / "t")
    assert json.loads(members_of((tmp_path / "t").read_bytes())["header.json"])["version"] == 2
    new = Trajectory.load(tmp_path / "t")
    assert fingerprint(new) == fingerprint(old)


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


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a sound file."""
    path = tmp_path_factory.mktemp("sound") / "t"
    example_trajectory("step", "polynomials").save(path)
    return path.read_bytes()


def test_a_rewritten_sound_file_is_read(tmp_path: Path, sound: bytes) -> None:
    # The tests below change one thing in such a file.
    write_zip(tmp_path / "t", members_of(sound))
    assert fingerprint(Trajectory.load(tmp_path / "t")) == fingerprint(
        example_trajectory("step", "polynomials")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, r"its version is 3, this program reads 1 and 2$"),
        ({"version": None}, r"its version is None, this program reads 1 and 2$"),
        ({"version": 1}, r"it holds other members than a trajectory has$"),
        ({"columns": ["rest_times"]}, r"it holds other members than a trajectory has$"),
        ({"columns": 3}, r"not iterable"),
        ({"setting": None}, r"has no attribute 'get'"),
        ({"setting": {"data": ["Dataset", "."]}}, r"it holds other members than a trajectory has$"),
        ({"setting": {"data": ["Spline", [[], [1.0]]]}}, r"'Spline'$"),
        (
            {"setting": {"data": ["PiecewiseConstant", [[0.5], [1.0]]]}},
            r"values: must be one more than",
        ),
        ({"setting": {"data": 3}}, r"not subscriptable"),
        ({"setting": {"loss": ["HingeLoss", {}]}}, r"'HingeLoss'$"),
        ({"setting": {"loss": ["SquareLoss", {"reduction": "median"}]}}, r"reduction: must be one of"),
        ({"setting": {"loss": ["SquareLoss", {"secret": 1}]}}, r"unexpected keyword argument 'secret'"),
        ({"setting": {"speed": "fast"}}, r"speed: must be a number, got 'fast'$"),
        ({"setting": {"step": float("nan")}}, r"step: must be finite, got nan$"),
        ({"setting": {"secret": 1}}, r"unexpected keyword argument 'secret'"),
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
            "its networks hold 5 numbers",
        ),
        (
            {"positions": [10**13], "outer": [2], "offset": []},
            {"sharpness": 1},
            "its networks hold 5 numbers",
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


Change = Callable[[NDArray[Any]], NDArray[Any]]


def put(index: Any, value: float) -> Change:
    """Return what sets one entry."""

    def change(array: NDArray[Any]) -> NDArray[Any]:
        array = array.copy()
        array[index] = value
        return array

    return change


HOSTILE: list[tuple[str, str, Change, str]] = [
    (
        "snapshots",
        "path_values",
        lambda a: a[:-1],
        r"path_values has shape \(86, 36\) instead of",
    ),
    ("snapshots", "path_values", lambda a: a[:, :-1], r"has shape \(87, 35\) instead of \(87, 36\)$"),
    ("snapshots", "path_values", lambda a: a[None], r"has shape \(1, 87, 36\) instead of \(87, 36\)$"),
    ("snapshots", "path_start", lambda a: a[1:], r"its networks hold 35 numbers"),
    ("snapshots", "path_start", lambda a: a[:0], r"."),
    ("snapshots", "path_times", lambda a: a[::-1].copy(), r"path_times goes back in time$"),
    ("snapshots", "path_times", put(3, np.nan), r"path_times: entries must be finite"),
    ("snapshots", "path_times", lambda a: a[:0], r"path_times: must not be empty"),
    ("snapshots", "times", lambda a: a[::-1].copy(), r"times goes back in time$"),
    ("snapshots", "times", lambda a: a[:-1], r"losses has shape \(87,\) instead of \(86,\)$"),
    ("snapshots", "data_inputs", lambda a: a[:-1], r"inputs"),
    ("snapshots", "data_targets", put(0, np.inf), r"targets: entries must be finite"),
    (
        "snapshots of a flow",
        "path_rest_neurons",
        put(0, 6),
        r"path_rest_neurons holds numbers that are too",
    ),
    ("snapshots of a flow", "path_rest_neurons", put(0, -1), r"path_rest_neurons holds negative numbers$"),
    ("snapshots of a flow", "path_rest_neurons", lambda a: a[:-1], r"path_rest_neurons has shape"),
    ("snapshots of a flow", "path_rest_times", put(0, 1e9), r"path_rest_times does not rise$"),
    ("snapshots of a flow", "path_rest_points", lambda a: a.astype(float), r"path_rest_points must be int64"),
    ("polynomials", "path_values", put((0, 0, 0), np.nan), r"path_values holds numbers that are not finite$"),
    ("polynomials", "path_values", lambda a: a[:, :1], r"path_values has 1 nodes per step instead of 2"),
    ("polynomials", "path_values", lambda a: a[:-1], r"path_values has shape"),
    ("polynomials", "path_times", lambda a: np.append(a[:-1], a[-2]), r"path_times must have a step"),
    ("replayed", "path_values", put((1, 0, 0), np.inf), r"path_values holds numbers that are not finite$"),
    ("replayed", "path_values", lambda a: a[:, :, :-1], r"path_inputs has shape"),
    ("replayed", "path_targets", lambda a: a[:-1], r"path_targets has shape"),
    ("moves", "path_neurons", put(2, 8), r"path_neurons holds numbers that are too large$"),
    ("moves", "path_neurons", put(2, -1), r"path_neurons holds negative numbers$"),
    ("moves", "path_neurons", lambda a: a[1:], r"path_neurons has shape"),
    ("moves", "path_positions", put(2, np.nan), r"path_positions holds numbers that are not finite$"),
    ("moves", "path_order", lambda a: 0 * a, r"its moves are not those of a KnotNetwork and its order$"),
    ("moves", "path_times", lambda a: a + 1, r"path_times are not the numbers of its moves$"),
    ("moves", "path_x", put(-1, -5.0), r"path_x does not rise$"),
    ("moves", "path_x", put(1, -1.0), r"path_x must rise"),
    ("moves", "path_weights", put(0, 0.0), r"path_weights be positive$"),
    ("saddles", "path_corrections", put(0, np.nan), r"path_corrections holds numbers that are not finite$"),
    ("saddles", "path_times", lambda a: 2 * a, r"path_times are not those of Algorithm 1"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of a sound file of every kind."""
    folder, found = tmp_path_factory.mktemp("sound"), dict[str, bytes]()
    for kind, make in KEPT.items():
        make().save(folder / "t")
        found[kind] = (folder / "t").read_bytes()
    return found


@pytest.mark.parametrize(("kind", "name", "change", "message"), HOSTILE)
def test_arrays_that_contradict_each_other_are_refused(
    tmp_path: Path, files: dict[str, bytes], kind: str, name: str, change: Change, message: str
) -> None:
    write_zip(tmp_path / "t", changed(files[kind], name, change))
    refused(tmp_path / "t", message)


@pytest.mark.parametrize("kind", KEPT)
def test_no_member_may_be_missing_or_of_another_type(
    tmp_path: Path, files: dict[str, bytes], kind: str
) -> None:
    members = members_of(files[kind])
    for name in members:
        write_zip(tmp_path / "t", {key: value for key, value in members.items() if key != name})
        refused(tmp_path / "t", "it holds other members than a trajectory has")
        if name != "header.json":
            write_zip(tmp_path / "t", changed(files[kind], name[:-4], lambda array: array.astype(np.float32)))
            refused(tmp_path / "t", f"{name[:-4]} must be")


@pytest.mark.parametrize("kind", KEPT)
def test_a_path_of_another_kind_does_not_fit(tmp_path: Path, files: dict[str, bytes], kind: str) -> None:
    members = members_of(files[kind])
    header = json.loads(members["header.json"])
    for other in {"snapshots", "polynomials", "groups", "replayed", "moves", "saddles"} - {header["path"]}:
        members["header.json"] = json.dumps({**header, "path": other}).encode()
        write_zip(tmp_path / "t", members)
        refused(tmp_path / "t")


@pytest.mark.parametrize(
    ("kind", "scalars", "message"),
    [
        ("replayed", {"rate": 0.0}, r"rate: must be > 0"),
        ("replayed", {"tiny": float("nan")}, r"tiny: must be finite"),
        ("groups", {"root": -1.0}, r"root is not positive"),
        ("groups", {"root": "1"}, r"root: must be a number"),
        ("snapshots", None, r"not subscriptable"),
    ],
)
def test_numbers_of_a_path_are_checked(
    tmp_path: Path, files: dict[str, bytes], kind: str, scalars: Any, message: str
) -> None:
    members = members_of(files[kind])
    header = json.loads(members["header.json"])
    header["scalars"] = scalars if scalars is None else {**header["scalars"], **scalars}
    members["header.json"] = json.dumps(header).encode()
    write_zip(tmp_path / "t", members)
    refused(tmp_path / "t", message)


def test_arrays_of_another_version_of_numpys_format_are_refused() -> None:
    for version in ((1, 0), (2, 0), (3, 0)):
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.arange(3.0), version=version)
        if version == (1, 0):
            assert _array(stream.getvalue(), "losses", False).tolist() == [0.0, 1.0, 2.0]
        else:
            with pytest.raises(FileFormatError, match=r"^losses is an array of an unknown version$"):
                _array(stream.getvalue(), "losses", False)
