"""Scenes: states are checked, messages carry every number, the code of a run makes that run."""

from __future__ import annotations

import io
import json
import struct
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow import KnotNetwork, ReLUNetwork
from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import Layer, Show, View, packed
from shallowflow.explorer.scenes import SCENES
from shallowflow.explorer.scenes.drawing import curves, on_line

SMALL: dict[str, dict[str, Any]] = {
    "alignment": {"width": 20, "until": 20.0},
    "plateau": {"width": 4, "until": 5.0},
    "jumps": {"width": 4},
    "rates": {"size": 3},
    "two-timescales": {"width": 4, "until": 0.5},
    "free": {"width": 10, "until": 5.0},
}


def quiet(share: float) -> None:
    """Take no notice."""


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


@pytest.mark.parametrize("name", SCENES)
def test_the_code_of_a_run_makes_that_run(name: str) -> None:
    scene = SCENES[name]
    show = scene.run(scene.state(SMALL[name]), quiet)
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
    moving = [layer for view in show.views for layer in view.layers if layer.moving]
    assert all(any(len(array) == frames for array in layer.arrays.values()) for layer in moving)


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
    assert (state["width"], state["method"], state.points) == (3, "flow", scene.handles.points)


def test_progress_can_end_a_run() -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop(share: float) -> None:
        raise Stop

    scene = SCENES["alignment"]
    with pytest.raises(Stop):
        scene.run(scene.state({"width": 50}), stop)
