"""Networks kept by cones: to the last bit those that an engine writes out, in a fraction of the memory."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.engines import cones
from shallowflow.dynamics.engines.cones import ConeDescent, ConeTable
from shallowflow.models.loss import LogisticLoss, SquareLoss
from tests.dynamics.clock.files import members_of, peak_memory
from tests.dynamics.ticks import steps_made

Loss = SquareLoss | LogisticLoss


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of any size are kept by cones."""
    monkeypatch.setattr(cones, "LARGE", 0)
    monkeypatch.setattr(cones, "NEURONS_PER_CONE", 0)


def table_of(run: sf.Trajectory) -> ConeTable:
    assert isinstance(run.path, Snapshots)
    assert isinstance(run.path.values, ConeTable)
    return run.path.values


def kept_bytes(table: ConeTable) -> int:
    return sum(array.nbytes for moment in table.moments for array in moment if array is not None)


def random_start(seed: int, width: int = 60) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """A network with neurons at the origin, one on a wall, zeros of both signs, and an output factor."""
    rng = np.random.default_rng(seed)
    inputs, inner = rng.standard_normal((6, 2)), 0.3 * rng.standard_normal((width, 2))
    inputs[5], inner[:2], inner[2] = 0.0, 0.0, [-inputs[0, 1], inputs[0, 0]]
    inner[3], inner[4] = [0.0, 1.0], [-0.0, -1.0]
    network = sf.ReLUNetwork(inner, 0.3 * rng.standard_normal(width), slope=0.1 * (seed % 2), scale=0.5)
    return network, sf.Dataset(inputs, np.sign(rng.standard_normal(6)))


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("loss", [SquareLoss(), LogisticLoss()], ids=str)
@pytest.mark.parametrize("epsilon", [1.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_what_the_engine_writes(loss: Loss, epsilon: float, seed: int) -> None:
    network, dataset = random_start(seed)
    engine = ConeDescent(Task(network, dataset, loss, 3e-2, epsilon))
    log = engine.log(1)
    assert log is not None
    written = list[Floats]()
    for steps in (0, 1, 1, 3, 0, 10, 40, 100, 100, 400, 2000, 2000):
        steps_made(engine, steps)
        log.add()
        written.append(np.empty(flatten(network).size))
        engine.write(written[-1])
    table = log.table()
    # In any order: a row does not depend on those that were made before it.
    for k in np.random.default_rng(seed).permutation(len(written)):
        assert table[k].tobytes() == written[k].tobytes() == table[k - len(written)].tobytes()
    assert np.asarray(table).tobytes() == np.array(written).tobytes()
    assert table.shape == np.array(written).shape
    assert table.nbytes == np.array(written).nbytes
    with pytest.raises(IndexError):
        table[len(written)]


@pytest.mark.usefixtures("small_tables")
def test_neurons_that_chatter_are_kept_one_by_one() -> None:
    """On Stewart's data; the dense engine, which knows no cones, says the same up to rounding."""
    network, dataset = sf.initialize.gaussian(300, 2, init_scale=1e-3, seed=1), stewart()
    engine = ConeDescent(Task(network, dataset, SquareLoss(), 1e-3, 1.0))
    log = engine.log(1)
    assert log is not None
    plain = list[Floats]()
    for steps in (0, 100, 1_000, 10_000, 20_000, 20_000, 1, 1):
        steps_made(engine, steps)
        log.add()
        plain.append(flatten(engine.network()))
    table = log.table()
    assert np.asarray(table).tobytes() == np.array(plain).tobytes()
    assert len(table.moments[-1].alone) > 10
    # More than half of the neurons have moved, later hardly any.
    assert sum(one.moved is None for one in table.moments) > 1
    assert table.moments[-1].moved is not None
    assert len(table.moments[-1].moved) < 30


def both(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[sf.Trajectory, sf.Trajectory]:
    """A run that keeps its networks by cones, and the same with networks written out."""
    network, dataset = random_start(3)
    given = {"step": 3e-2, "steps": 3000, "engine": "cones", "record": sf.Record.geometric(40), **options}
    plain = sf.gradient_descent(network, dataset, **given)
    with monkeypatch.context() as patched:
        patched.setattr(cones, "LARGE", 0)
        patched.setattr(cones, "NEURONS_PER_CONE", 0)
        kept = sf.gradient_descent(network, dataset, **given)
    assert isinstance(table_of(kept), ConeTable)
    assert isinstance(plain.path, Snapshots)
    assert isinstance(plain.path.values, np.ndarray)
    return kept, plain


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.2}, {"stop_below": 0.3}, {"step": 40.0}], ids=str)
def test_runs_are_the_same_however_networks_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any]
) -> None:
    kept, plain = both(monkeypatch, **options)
    assert kept == plain
    assert plain == kept
    assert kept == kept
    assert kept.path.recorded().tobytes() == plain.path.recorded().tobytes()
    assert kept.initial == plain.initial
    assert kept.final == plain.final
    for time in (*kept.times, *(0.5 * (kept.times[1:] + kept.times[:-1]))):
        assert kept(time) == plain(time)
    kept.save(tmp_path / "kept")
    plain.save(tmp_path / "plain")
    # Members, not files: an archive has the time at which it was written.
    assert members_of((tmp_path / "kept").read_bytes()) == members_of((tmp_path / "plain").read_bytes())
    assert sf.Trajectory.load(tmp_path / "kept") == kept
    for twin in (pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):
        assert twin == kept
    np.testing.assert_array_equal(kept.to_xarray()["inner"], plain.to_xarray()["inner"])


def test_other_networks_are_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, plain = both(monkeypatch)
    assert isinstance(plain.path, Snapshots)
    values = np.array(plain.path.values)
    values[7, 11] += 1e-9
    assert kept.path != Snapshots(plain.path.template, plain.path.times, values)
    assert kept.path != Snapshots(plain.path.template, plain.path.times + 1.0, plain.path.values)
    assert kept.path != Snapshots(plain.path.template, plain.path.times[:-1], values[:-1])
    assert kept.path != plain


@pytest.mark.usefixtures("small_tables")
def test_a_run_that_goes_on_tells_what_it_has() -> None:
    seen = list[sf.Trajectory]()

    class Watch:
        """A progress that looks at the run so far."""

        def __call__(self, share: float) -> None:
            pass

        def look(self, make: Any) -> None:
            seen.append(make())

    network, dataset = random_start(1)
    whole = sf.gradient_descent(network, dataset, step=0.1, steps=300, engine="cones", progress=Watch())
    assert len(seen) > 3
    for part in seen:
        np.testing.assert_array_equal(part.path.recorded(), whole.path.recorded()[: len(part.times)])


def test_a_wide_run_keeps_little() -> None:
    network = sf.initialize.balanced(20_000, 2, init_scale=1e-3, seed=0)
    data, runs = three_points(), list[sf.Trajectory]()

    def run() -> None:
        runs.append(sf.gradient_descent(network, data, step=1e-3, steps=20_000, engine="cones"))

    run()
    table = table_of(runs[0])
    assert kept_bytes(table) < table.nbytes / 8
    # Memory for the engine's own neurons included.
    assert peak_memory(run) < table.nbytes / 3
    for k in range(0, len(runs[0].times), 20):
        found = runs[0](runs[0].times[k])
        loss = 0.5 * float(np.mean((found(data.inputs) - data.targets) ** 2))
        assert abs(loss - runs[0].losses[k]) < 1e-12


def test_small_runs_and_many_cones_are_written_out() -> None:
    dataset = stewart(200)
    few = ConeDescent(Task(sf.initialize.balanced(100, 2, seed=0), dataset, SquareLoss(), 1e-3))
    wide = ConeDescent(Task(sf.initialize.balanced(20_000, 2, seed=0), dataset, SquareLoss(), 1e-3))
    assert few.log(10**6) is None
    assert wide.log(10) is None
    assert wide.log(200) is not None
