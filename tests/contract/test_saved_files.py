"""Files that version 0.1 wrote, one of every kind: they are read, and hold what they held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shallowflow as sf
from tests.contract import saved
from tests.contract.described import read
from tests.rounding import assert_rounded

OPERATIONS = {
    "snapshots": 8,
    "snapshots_additive": 8,
    "snapshots_sparse": 0,
    "polynomials": 1_000,
    "polynomials_knots": 1_000,
    "groups": 30_000,
    "replayed": 10_000,
}
"""Roundings between what a file stores and a network read from it, of the largest parameter of its kind.

Snapshots: a straight line. Polynomials: the barycentric formula at q = 8 nodes, its weights (Σ|weights| < 3)
divided by the distance to a node: some 10·q². Groups: systems of 3q equations of condition below 10, and the
product of a few propagators: 10·(3q)² and more. Replayed: a Runge–Kutta step (some ten velocities, each with
sums over m·n products), and exp of log-scales of size 200, whose relative error is 200 roundings.
"""


def expected(kind: str) -> dict[str, NDArray[Any]]:
    with np.load(saved.FILES / f"{kind}.npz", allow_pickle=False) as file:
        return dict(file)


def loaded(kind: str) -> sf.Trajectory:
    return sf.Trajectory.load(saved.FILES / f"{kind}.trajectory")


def assert_parameters(found: Any, theta: NDArray[Any], operations: int) -> None:
    """Compare a network with all its parameters in one vector; every array by its own size."""
    start = 0
    for values in found.parameters.values():
        assert_rounded(values.ravel(), theta[start : start + values.size], operations)
        start += values.size
    assert start == len(theta)


@pytest.mark.parametrize("kind", saved.KINDS)
def test_a_saved_trajectory_tells_what_it_told(kind: str) -> None:
    trajectory, arrays = loaded(kind), expected(kind)
    assert saved.words(trajectory) == read(f"files/{kind}.json")
    for name, values in saved.stored_arrays(trajectory).items():
        np.testing.assert_array_equal(values, arrays[f"stored {name}"])


@pytest.mark.parametrize("kind", saved.KINDS)
def test_networks_are_read_at_any_time(kind: str) -> None:
    trajectory, arrays = loaded(kind), expected(kind)
    for time, theta in zip(arrays["at"], arrays["theta"], strict=True):
        assert_parameters(trajectory(float(time)), theta, OPERATIONS[kind])
    np.testing.assert_array_equal(saved.theta(trajectory.initial), arrays["theta"][0])
    assert_parameters(trajectory.final, arrays["theta"][-1], OPERATIONS[kind])


@pytest.mark.parametrize("kind", saved.KINDS)
def test_recorded_networks_are_what_was_recorded(kind: str) -> None:
    """Exactly, where they are stored; a path by groups and a replayed one compute them."""
    arrays = expected(kind)
    stored = kind.startswith(("snapshots", "polynomials"))
    for name, values in saved.recorded(loaded(kind)).items():
        assert_rounded(values, arrays[f"recorded {name}"], 0 if stored else OPERATIONS[kind])


def test_a_sparse_file_gives_no_network_between_its_ends() -> None:
    trajectory = loaded("snapshots_sparse")
    assert len(trajectory.times) > 2
    with pytest.raises(sf.InvalidInputError, match="networks=True"):
        trajectory(float(trajectory.times[1]))


def test_a_saved_jump_process_is_what_it_was() -> None:
    """The jumps are found again from mask and targets; rates and saddles are sums over n points, in R^d."""
    limit, arrays = sf.SaddleToSaddle.load(saved.FILES / f"{saved.PROCESS}.limit"), expected(saved.PROCESS)
    told, then = saved.words(limit), read(f"files/{saved.PROCESS}.json")
    # Computed anew: the words of the outcome may change, and there may be more statistics.
    statistics = {name: told["statistics"][name] for name in then["statistics"]}
    assert_rounded(statistics.pop("squared norm"), then["statistics"].pop("squared norm"), limit.dataset.size)
    # Only masks that occur count as groups now; neurons that see no point of their sign are counted apart.
    assert statistics.pop("groups") < then["statistics"].pop("groups")
    assert told["statistics"]["idle"] > 0
    assert statistics == then["statistics"]
    assert told["outcome"][0] == then["outcome"][0]
    for word in ("network", "shapes", "constants"):
        assert told[word] == then[word]
    assert [event[1:] for event in told["events"]] == [event[1:] for event in then["events"]]
    for name, values in saved.process_arrays(limit).items():
        np.testing.assert_array_equal(values, arrays[f"stored {name}"])
    operations = 4 * limit.dataset.size * limit.dataset.dimension
    for name, values in saved.process_readings(limit).items():
        assert_rounded(values, arrays[f"read {name}"], operations)


def test_no_file_is_large() -> None:
    sizes = {path.name: path.stat().st_size for path in saved.FILES.iterdir()}
    assert {path.rsplit(".")[0] for path in sizes} == {*saved.KINDS, saved.PROCESS}
    assert max(sizes.values()) < 60_000
    assert sum(sizes.values()) < 300_000
