"""Where compiled code is looked for, and which span "auto" takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import _CacheLocator

import shallowflow as sf
from shallowflow.dynamics.choice import KERNELS, Choice, chosen_engine, compiled_before
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.sweeps import FusedDescent, SpannedDescent


def test_compiled_code_is_looked_for_where_numba_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the folder is Numba's own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not compiled_before("dense:advance_tiles")
    source = str(KERNELS / "dense.py")
    subpath = _CacheLocator.get_suitable_cache_subpath(source)  # type: ignore[no-untyped-call]
    (tmp_path / subpath).mkdir()
    (tmp_path / subpath / "dense.advance_lanes-20.py311.nbi").touch()
    assert not compiled_before("dense:advance_tiles")
    (tmp_path / subpath / "dense.advance_tiles-186.py311.nbi").touch()
    assert compiled_before("dense:advance_tiles")


def test_as_many_samples_as_dimensions_are_taken_in_their_span() -> None:
    """Their triangle is half empty, and "fused" skips what is empty."""
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(rng.standard_normal((100, 100)) / 10, rng.standard_normal(100))
    network = sf.ReLUNetwork(rng.standard_normal((500, 100)), rng.standard_normal(500))
    task = Task(network, dataset, sf.SquareLoss(), step=1e-3, steps=10**5)
    made = chosen_engine("gradient_descent", "auto", task)
    assert made.func is SpannedDescent
    assert made.args[1] is FusedDescent
    run = sf.gradient_descent(network, dataset, step=1e-3, steps=30)
    plain = sf.gradient_descent(network, dataset, step=1e-3, steps=30, engine="fused")
    np.testing.assert_allclose(run.losses, plain.losses, rtol=1e-10)


@pytest.mark.parametrize(
    ("width", "scale", "expected"),
    [
        (30, 1e-4, "walls"),  # few neurons: a sweep over all costs less than a step by groups
        (3_000, 1e-4, "cones"),  # nobody feels their events
        (3_000, 1.0, "walls"),  # each would end a step by groups
        (100_000, 1.0, "cones"),  # a path of so many is kept by groups
    ],
)
def test_flows_in_the_plane_go_by_groups_where_events_are_not_felt(
    monkeypatch: pytest.MonkeyPatch, width: int, scale: float, expected: str
) -> None:
    monkeypatch.setattr(Choice, "_start", lambda self: 0.0)  # whatever this process has compiled
    network = sf.initialize.balanced(width, 2, init_scale=scale, seed=0)
    task = Task(network, sf.data.GENERATORS["stewart"](), sf.SquareLoss())
    made = chosen_engine("gradient_flow", "auto", task).func
    assert {"WallFlow": "walls", "ConeFlow": "cones"}[getattr(made, "__name__", "")] == expected
