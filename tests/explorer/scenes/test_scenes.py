"""Scenes: states are checked, messages carry every number, the code of a run makes that run."""

from __future__ import annotations

import io
import json
import re
import struct
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow import KnotNetwork, ReLUNetwork
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.explorer.scene import MOST_FRAMES, Layer, Scene, Show, View, Watch, curves, on_line, packed
from shallowflow.explorer.scenes import SAVED, SCENES
from shallowflow.explorer.scenes.free import opened

SMALL: dict[str, dict[str, Any]] = {
    "alignment": {"width": 20, "until": 20.0},
    "plateau": {"width": 4, "until": 5.0},
    "jumps": {"width": 4},
    "rates": {"size": 3},
    "two-timescales": {"width": 4, "until": 0.5},
    "free": {"width": 10, "until": 5.0},
}


def shown(name: str, **settings: Any) -> Show:
    """Return a scene's run."""
    scene = SCENES[name]
    return scene.run(scene.state({**SMALL[name], **settings}), Watch())


def layer(show: Show, view: str, label: str) -> Layer:
    """Return a layer of a view by its label."""
    (found,) = (one for v in show.views if v.name == view for one in v.layers if one.label == label)
    return found


KINDS = {"curve", "dots", "history", "neurons", "rays", "levels", "marks", "cells"}


def unpacked(message: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Return header and arrays, read by the description of `packed` alone."""
    (length,) = struct.unpack_from("<I", message)
    header = json.loads(message[4 : 4 + length])
    at, arrays = 4 + length, []
    for one in header["arrays"]:
        kind, size = ("<f4" if one["single"] else "<f8"), int(np.prod(one["shape"]))
        arrays.append(np.frombuffer(message, kind, size, at).reshape(one["shape"]))
        at += -(-arrays[-1].nbytes // 8) * 8
    assert at == len(message)
    return header, arrays


def test_a_message_carries_every_number() -> None:
    x, y = np.linspace(0, 1, 5), np.arange(15.0).reshape(3, 5)
    block = np.arange(6, dtype=np.float32).reshape(3, 2)
    layers = (
        Layer("curve", "c", "network", {"x": x, "y": y}, moving=True),
        Layer("neurons", "", "network", {"angle": block}),
    )
    show = Show(np.arange(3.0), (View("v", "t", layers),), ("s",), "code", ((1.0, "e"),))
    header, arrays = unpacked(packed(show, {"n": 7}))
    assert (header["n"], header["events"], header["sentences"]) == (7, [[1.0, "e"]], ["s"])
    first = header["views"][0]["layers"][0]["arrays"]
    np.testing.assert_array_equal(arrays[first["y"]], y)
    np.testing.assert_array_equal(arrays[header["views"][0]["layers"][1]["arrays"]["angle"]], block)
    np.testing.assert_array_equal(arrays[header["times"]], [0, 1, 2])


VARIED = [
    *((name, {}) for name in SCENES),
    ("plateau", {"until": 0.0, "moves": 2, "knots": [[-0.5, 0.0], [0.25, 0.0]]}),
    ("plateau", {"moves": 3}),
    ("two-timescales", {"method": "SGD"}),
    ("free", {"network": "knots"}),
    ("free", {"network": "steps"}),
    ("free", {"network": "leaky relu", "init": "he_uniform", "loss": "logistic"}),
    ("free", {"method": "descent", "engine": "lanes", "init": "asymmetric", "loss": "sum of squares"}),
    ("free", {"method": "SGD", "loss": "norm"}),
    ("free", {"method": "Adam", "until": 1.0}),
]


@pytest.mark.parametrize(("name", "settings"), VARIED)
def test_the_code_of_a_run_makes_that_run(name: str, settings: dict[str, Any]) -> None:
    show = shown(name, **settings)
    _, arrays = unpacked(packed(show, {}))
    assert all(np.isfinite(array).all() for array in arrays)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(show.code, {})
    if show.trajectory is not None:
        said = float(printed.getvalue().split()[-1])
        np.testing.assert_allclose(said, show.trajectory.losses[-1], rtol=1e-6, atol=1e-14)
    assert printed.getvalue().strip()
    frames = len(show.times)
    moving = [one for view in show.views for one in view.layers if one.moving]
    assert all(any(len(array) == frames for array in one.arrays.values()) for one in moving)
    assert {one.kind for view in show.views for one in view.layers} <= KINDS


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([0.0, 0.2]))
def test_curves_by_sums_are_the_network(width: int, seed: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    inner = np.round(rng.normal(size=(width, 2)), 1)
    network = ReLUNetwork(inner, rng.normal(size=width), slope, 0.5)
    grid = np.linspace(-3.0, 3.0, 61)
    expected = network(np.column_stack([grid, np.ones_like(grid)]))
    np.testing.assert_allclose(on_line(network, grid), expected, atol=1e-13 * width)


def test_knots_are_drawn_as_curves_too() -> None:
    network, grid = KnotNetwork([0.0, 0.5], [1.0, -2.0]), np.linspace(-1, 1, 9)
    np.testing.assert_array_equal(curves([network], grid), [network(grid[:, None])])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([], "state: must be an object"),
        ({"colour": 1}, "'colour' is not a control"),
        ({"width": 0}, r"width: must lie in \[1, 2000\], got 0"),
        ({"width": True}, "width: must be a finite number"),
        ({"scale": float("nan")}, "scale: must be a finite number"),
        ({"scale": "1"}, "scale: must be a finite number"),
        ({"points": []}, "points: must be 1 to 40 pairs"),
        ({"points": [[0, 0]] * 41}, "points: must be 1 to 40 pairs"),
        ({"points": [[0, 1, 2]]}, "points: must be pairs"),
        ({"points": [[0, 1e9]]}, "points: must lie in"),
        ({"points": [[0, None]]}, "points: must be a finite number"),
    ],
)
def test_bad_states_are_refused(state: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SCENES["alignment"].state(state)


def test_what_is_missing_has_its_default() -> None:
    scene = SCENES["plateau"]
    state = scene.state({"width": 3.0})
    assert (state["width"], state["moves"], state.points) == (3, 0, scene.handles[0].points)
    assert state.places == {"knots": ()}


def test_progress_can_end_a_run() -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop(share: float) -> None:
        raise Stop

    scene = SCENES["alignment"]
    with pytest.raises(Stop):
        scene.run(scene.state({"width": 50}), Watch(stop))


def test_the_predicted_exit_is_that_of_the_flow() -> None:
    show = shown("alignment", width=200, until=20.0)
    assert show.trajectory is not None
    (predicted,) = layer(show, "loss", "predicted exit").arrays["x"]
    run = sf.gradient_flow(show.trajectory.initial, show.trajectory.setting.data, until=20.0)  # type: ignore[arg-type]
    data = show.trajectory.setting.data
    assert isinstance(data, sf.Dataset)

    def loss(time: float) -> float:
        network = run(time)
        return 0.5 * float(np.mean((network(data.inputs) - data.targets) ** 2))

    low, high = 0.0, 20.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if loss(middle) > 0.99 * loss(0.0) else (low, middle)
    # The docstring of `exit_time` says 0.2 %.
    np.testing.assert_allclose(predicted, low, rtol=2e-3)


def test_knots_are_where_they_were_placed_and_moves_are_those_of_anls() -> None:
    knots = [[-0.6, 0.0], [0.1, 0.0], [0.4, 0.0]]
    show = shown("plateau", until=0.0, moves=4, knots=knots)
    assert show.places["knots"] == tuple((x, 0.0) for x, _ in knots)
    points = np.array(SCENES["plateau"].handles[0].points)
    data = sf.Dataset(points[:, :1], points[:, 1])
    net = KnotNetwork([x for x, _ in knots], sf.initialize.he_knots(3, seed=0).outer)
    run = sf.active_neuron_least_squares(net, data, max_iterations=4)
    losses = layer(show, "loss", "loss").arrays["y"]
    # The start, then least squares at the same knots, then one frame for each move.
    np.testing.assert_allclose(losses[1:], run.losses, rtol=1e-12)
    assert len(losses) == len(run.events) + 2
    for k, event in enumerate(run.events):
        said = show.events[k + 1][1]
        assert said.startswith(f"move {k + 1}: knot {event.neuron + 1} ")
        assert f" point {event.point + 1}," in said


def test_the_floor_of_a_stage_is_never_undercut() -> None:
    show = shown("plateau", width=8, until=200.0)
    stairs = layer(show, "loss", "floor of the stage").arrays
    starts, ends, levels = stairs["x"][::2], stairs["x"][1::2], stairs["y"][::2]
    losses, checked = layer(show, "loss", "loss").arrays["y"], 0
    for time, loss in zip(show.times, losses, strict=True):
        for level in levels[(starts <= time) & (time < ends)]:
            checked += 1
            assert loss >= level * (1 - 1e-9)
    assert checked > 50


def test_algorithm_1_and_the_flow_jump_together_at_a_tiny_start() -> None:
    show = shown("jumps", alpha=-300.0, width=6)
    stairs = layer(show, "loss", "Algorithm 1 (α → 0)").arrays
    jumps = np.unique(stairs["x"])[1:-1]
    flow = layer(show, "loss", "flow").arrays["y"]
    for before, time in zip(stairs["y"][1::2], jumps, strict=False):
        (k,) = np.flatnonzero((show.times[:-1] <= 0.97 * time) & (show.times[1:] > 0.97 * time))
        np.testing.assert_allclose(flow[k], before, rtol=1e-2)
    assert len(jumps) >= 2


def test_the_rate_goes_from_one_order_to_the_other() -> None:
    show = shown("rates", size=25)
    rates, n = layer(show, "rate", "μ(t)").arrays["y"], 100
    losses = layer(show, "loss", "loss").arrays["y"]
    assert 0.2 / n < rates[0] < 5 / n
    assert 0.2 / np.sqrt(n) < rates[-1] < 5 / np.sqrt(n)
    between = 0.5 * (rates[1:] + rates[:-1])
    fallen = -np.diff(np.log(losses)) / np.diff(show.times)
    np.testing.assert_allclose(fallen, between, rtol=0.1)


@pytest.mark.parametrize("name", ["alignment", "plateau", "two-timescales", "free"])
def test_previews_look_like_the_run(name: str) -> None:
    scene = SCENES[name]
    heavy = {"alignment": {"width": 800, "until": 20.0}, "free": {"width": 200, "until": 20.0}}
    state = scene.state({**SMALL[name], **heavy.get(name, {})})
    coarse, whole = scene.preview(state), scene.run(state, Watch())
    assert coarse is not None
    assert (coarse.stage, whole.stage) == ("preview", "whole")
    assert [view.name for view in coarse.views] == [view.name for view in whole.views]
    rough, exact = (layer(one, "function", "network").arrays["y"][-1] for one in (coarse, whole))
    assert np.max(np.abs(rough - exact)) < 0.25 * np.ptp(exact) + 0.05
    assert SCENES["jumps"].preview(SCENES["jumps"].state({})) is None


def test_a_long_run_is_shown_while_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shallowflow.explorer.scene.PAUSE", 0.0)
    parts: list[Show] = []
    scene = SCENES["free"]
    whole = scene.run(scene.state({"width": 30, "until": 30.0}), Watch(send=parts.append))
    assert len(parts) > 2
    assert {part.stage for part in parts} == {"part"}
    lengths = [len(part.times) for part in parts]
    assert lengths == sorted(lengths)
    final = layer(whole, "loss", "loss").arrays["y"]
    for part in parts:
        assert part.end == 30.0
        np.testing.assert_array_equal(part.times, whole.times[: len(part.times)])
        np.testing.assert_array_equal(layer(part, "loss", "loss").arrays["y"], final[: len(part.times)])


def test_saved_runs_are_opened(tmp_path: Path) -> None:
    file = tmp_path / "run.trajectory"
    for name in ("alignment", "plateau", "jumps", "two-timescales"):
        made = shown(name)
        assert made.trajectory is not None
        made.trajectory.save(file)
        show = opened(file.read_bytes(), "run.trajectory")
        losses = layer(show, "loss", "loss").arrays["y"]
        np.testing.assert_allclose(losses[-1], made.trajectory.losses[-1], rtol=1e-12, atol=1e-16)
        assert {"function"} <= {view.name for view in show.views} or name == "jumps"
        unpacked(packed(show, {"scene": "saved"}))
    with pytest.raises(FileFormatError):
        opened(b"no trajectory", "x")
    with pytest.raises(InvalidInputError, match="open a trajectory"):
        SAVED.run(SAVED.state({}), Watch())


@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: scene.name)
def test_every_letter_is_explained(scene: Scene) -> None:
    show = shown(scene.name)
    texts = [scene.story, *(control.label for control in scene.controls)]
    for view in show.views:
        texts += [view.title, view.x_label, view.y_label, *(one.label for one in view.layers)]
    # Letters on their own (with an index), Greek ones, f*, and names in capitals.
    for text in texts:
        for letter in re.findall(r"(?<![\w'])(?:f\*|[a-zA-Zα-ω](?:_[a-z])?|[A-Z]{3,})(?![\w'*])", text):
            assert letter in scene.letters or letter in ("a", "A"), (letter, text)


def test_no_more_frames_than_a_browser_can_hold() -> None:
    show = Show(np.arange(MOST_FRAMES + 1.0), (), (), "")
    with pytest.raises(InvalidInputError, match="frames: at most 3,600"):
        packed(show, {})
