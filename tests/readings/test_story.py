"""`story` on runs with known answers, against independent computations."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.errors import InvalidInputError
from shallowflow.experiments import Figure
from shallowflow.readings.story import Chapter

G = sf.data.GENERATORS


def names(trajectory: sf.Trajectory) -> list[str]:
    return [chapter.name for chapter in sf.story(trajectory).chapters]


@pytest.fixture(scope="module")
def three() -> sf.Trajectory:
    start = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    return sf.gradient_flow(start, G["three_points"](), until=200.0, engine="cones")


@pytest.fixture(scope="module")
def stewart() -> sf.Trajectory:
    start = sf.initialize.balanced(60, 2, init_scale=1e-2, seed=0)
    return sf.gradient_flow(start, G["stewart"](), until=400.0, engine="cones")


def part(trajectory: sf.Trajectory, times: np.ndarray) -> sf.Trajectory:
    """The run as a recording at these times, made by somebody else."""
    data = trajectory.setting.data
    assert isinstance(data, sf.Dataset)
    return sf.Trajectory.from_snapshots(times, [trajectory(t) for t in times.tolist()], data)


def test_three_points(three: sf.Trajectory) -> None:
    told = sf.story(three)
    assert [chapter.name for chapter in told.chapters] == ["alignment", "jump", "stuck"]
    jump = told.chapters[1]
    assert jump.start == pytest.approx(7.6, abs=0.5)
    assert jump.end == pytest.approx(11.5, abs=0.5)
    # The level at which it is stuck is that of the least-squares line.
    data = G["three_points"]()
    line = np.linalg.lstsq(data.inputs, data.targets)[0]
    best = 0.5 * np.mean((data.inputs @ line - data.targets) ** 2)
    assert told.chapters[-1].loss_after == pytest.approx(best, rel=1e-9)
    assert told.chapters[-1].effective_width == 1
    assert sum(chapter.events for chapter in told.chapters) == len(three.events)


def test_stewart_waits_and_leaves(stewart: sf.Trajectory) -> None:
    assert names(stewart) == ["alignment", "jump", "plateau", "decay"]
    early = part(stewart, np.concatenate([np.linspace(0, 20, 100), np.linspace(20.5, 100, 60)]))
    assert names(early) == ["alignment", "jump", "waiting"]


def test_a_staircase_of_tiny_neurons() -> None:
    data = G["orthonormal"](6, seed=1)
    run = sf.gradient_flow(sf.initialize.log_scaled(40, 6, log_scale=-60.0), data, until=3000.0)
    told = sf.story(run)
    assert [c.name for c in told.chapters] == ["alignment", "jump", "plateau", "jump", "plateau", "decay"]
    inside = [c for c in told.chapters if c.name == "jump"]
    for time in sf.jumps(run, data).times[:2]:
        assert any(c.start <= time <= c.end for c in inside)


def test_knots_descend_and_decay() -> None:
    run = sf.gradient_flow(sf.initialize.he_knots(40), G["curve"]("sin_5pi", 100), until=2000.0)
    told = sf.story(run)
    assert [chapter.name for chapter in told.chapters] == ["descent", "decay"]
    # Losses at the borders by the formula of the network; the descent is ten times as fast as what follows.
    data = G["curve"]("sin_5pi", 100)
    x, speeds = data.inputs[:, 0], []
    for chapter in told.chapters:
        for time, loss in ((chapter.start, chapter.loss_before), (chapter.end, chapter.loss_after)):
            now = run(time)
            assert isinstance(now, sf.KnotNetwork)
            outputs = np.maximum(x[:, None] - now.knots, 0.0) @ now.outer
            assert loss == pytest.approx(0.5 * np.mean((outputs - data.targets) ** 2), rel=1e-9)
        fall = np.log(chapter.loss_before / chapter.loss_after)
        speeds.append(fall / (chapter.end - chapter.start))
    assert speeds[0] > 10 * speeds[1]


def test_orthogonal_data_decay() -> None:
    run = sf.gradient_descent(
        sf.initialize.balanced(60, 20, init_scale=1.0),
        G["orthonormal"](20),
        step=0.1,
        steps=3000,
        record=sf.Record.geometric(200),
    )
    (only,) = sf.story(run).chapters
    assert only.name == "decay"
    # The same descent by hand.
    data, start = G["orthonormal"](20), sf.initialize.balanced(60, 20, init_scale=1.0)
    w, a = start.inner.copy(), start.outer.copy()
    for _ in range(3000):
        z = w @ data.inputs.T
        slopes = (start.scale * a @ np.maximum(z, 0.0) - data.targets) / 20
        pulls = ((z > 0) * slopes) @ data.inputs
        w, a = (
            w - 0.1 * start.scale * a[:, None] * pulls,
            a - 0.1 * start.scale * (np.maximum(z, 0.0) @ slopes),
        )
    outputs = start.scale * a @ np.maximum(w @ data.inputs.T, 0.0)
    assert only.loss_after == pytest.approx(0.5 * np.mean((outputs - data.targets) ** 2), rel=1e-6)


def test_a_dead_network_is_stuck() -> None:
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    run = sf.gradient_descent(sf.ReLUNetwork([[-1.0, -1.0]], [1.0]), data, step=0.1, steps=100)
    told = sf.story(run)
    assert [chapter.name for chapter in told.chapters] == ["stuck"]
    assert "Every neuron is dead" in told.text()


def test_a_run_at_the_edge_of_stability_says_so() -> None:
    x = np.linspace(-1, 1, 40)
    data = sf.Dataset(x[:, None], np.sin(4 * x)).with_bias()
    start = sf.initialize.gaussian(40, 2, init_scale=2.0, seed=0)
    largest = float(np.linalg.eigvalsh(start.tangent_kernel(data.inputs) / 40)[-1])
    run = sf.gradient_descent(start, data, step=1.9 / largest, steps=4000)
    told = sf.story(run)
    final = run.final
    steep = float(np.linalg.eigvalsh(final.tangent_kernel(data.inputs) / 40)[-1])
    assert f"step × λ_max = {1.9 / largest * steep:.3g}" in told.text()
    assert 1.5 < 1.9 / largest * steep < 2.1
    assert told.chapters[0].start == 0.0
    assert told.chapters[-1].end == run.times[-1]


@pytest.mark.parametrize("which", ["three", "stewart", "knots"])
@pytest.mark.parametrize("even", [True, False])
def test_thinning_from_2000_to_60_keeps_the_names(
    which: str, even: bool, three: sf.Trajectory, stewart: sf.Trajectory
) -> None:
    knots = sf.gradient_flow(sf.initialize.he_knots(40), G["curve"]("sin_5pi", 100), until=200.0)
    run = {"three": three, "stewart": stewart, "knots": knots}[which]
    last = float(run.times[-1])
    found = []
    for count in (2000, 300, 60):
        times = np.linspace(0, last, count) if even else np.geomspace(1e-4 * last, last, count)
        found.append(names(part(run, np.unique(np.concatenate([[0.0], times])))))
    assert found[0] == found[1] == found[2]


def test_chapters_have_no_gaps_and_floors_lie_below(stewart: sf.Trajectory) -> None:
    told = sf.story(stewart)
    assert all(one.end == other.start for one, other in pairwise(told.chapters))
    losses = np.interp(told.moments, stewart.times, stewart.losses)
    below = told.floor_every[np.isfinite(told.floor_every)]
    assert np.all(below <= losses[np.isfinite(told.floor_every)] * (1 + 1e-6))
    assert np.all(told.awake + told.dormant + told.dead == 60)
    assert np.all(told.effective_width <= told.awake)


def test_json_figure_and_text(three: sf.Trajectory) -> None:
    told = sf.story(three)
    content = json.loads(told.to_json())
    assert content["schema"] == "shallowflow/story/1"
    over_time = {"moments", "awake", "dormant", "dead", "effective_width", "floor_awake", "floor_every"}
    assert set(content) == {"schema", "chapters", "end"} | over_time
    assert len({len(content[name]) for name in over_time}) == 1
    assert set(content["chapters"][0]) == {field.name for field in fields(Chapter)}
    assert [chapter["paper"] for chapter in content["chapters"]] == [
        "early_alignment",
        "incremental",
        "early_alignment",
    ]
    assert isinstance(told.figure(), Figure)
    assert told.text().startswith("Alignment, t = 0 to ")
    assert repr(told) == "Story(alignment, jump, stuck)"


def test_runs_without_data_have_chapters_by_loss_alone(three: sf.Trajectory) -> None:
    bare = sf.Trajectory(three.times, three.losses, three.path, (), three.outcome)
    told = sf.story(bare)
    assert [chapter.name for chapter in told.chapters] == ["plateau", "jump", "stuck"]
    assert told.end is None
    assert len(told.moments) == 0
    with_data = sf.story(bare, G["three_points"]())
    assert [chapter.name for chapter in with_data.chapters] == ["alignment", "jump", "stuck"]
    with pytest.raises(InvalidInputError, match="made with other data"):
        sf.story(three, G["stewart"]())


def test_networks_of_steps_have_chapters_too() -> None:
    target = sf.PiecewiseConstant([0.3, 0.7], [0.0, 1.0, 0.4])
    x = np.linspace(0, 1, 40)
    start = sf.initialize.uniform_positions(6, sharpness=0.08, seed=21)
    run = sf.gradient_descent(start, sf.Dataset(x[:, None], target(x)), step=0.05, steps=500)
    told = sf.story(run)
    assert told.end is None
    assert told.chapters[-1].end == run.times[-1]
