"""Defects of reliability (R1 to R9): for each the test that would see it again.

`WHERE` says which; those that had no test of their own are below.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow import landscape
from shallowflow.certificates import CERTIFICATES
from shallowflow.dynamics.clock.protocol import flatten

ROOT = Path(__file__).parents[1]
FLOWS, STORE = "dynamics/engines/test_reported_flows.py", "studies/test_store.py"
WHERE = {
    "R1, an input at the origin": f"{FLOWS}::test_events_are_on_time_beside_an_input_at_the_origin",
    "R1, a neuron at zero": f"{FLOWS}::test_events_are_on_time_beside_a_zero_neuron",
    "R1, what must change nothing": "dynamics/engines/test_degenerate_flow.py::"
    "test_what_must_change_nothing_changes_nothing",
    "R2": f"{FLOWS}::test_width_does_not_decide_whether_a_neuron_leaves_zero",
    "R3, in the plane": f"{FLOWS}::test_the_sign_of_a_sliding_neuron_is_an_event_in_the_plane",
    "R3, in space": f"{FLOWS}::test_the_sign_of_a_sliding_neuron_is_an_event_in_space",
    "R4, knots": "dynamics/clock/test_loop.py::test_moves_that_cannot_be_measured_are_no_completed_run",
    "R5, a path as an identity": f"{STORE}::test_nothing_outside_the_store_is_read_or_deleted",
    "R5, arrays lost": f"{STORE}::test_a_run_whose_arrays_are_gone_is_damaged_and_is_computed_again",
    "R5, sizes": f"{STORE}::test_sizes_are_believed_only_if_the_file_allows_them",
    "R6, streams without an end": "data/test_dataset.py::"
    "test_a_line_without_end_is_refused_before_it_fills_the_memory",
    "R6, devices": "data/test_dataset.py::test_a_device_is_no_table",
    "R6, many lines": "data/test_dataset.py::test_many_lines_are_read_in_little_memory",
    "R7, imports and compilation": "test_main.py::test_a_signal_while_the_program_is_imported_or_works",
    "R7, reproduce": "commands/test_reproduce.py::test_ctrl_c_ends_the_workers_and_keeps_the_store",
    "R8, a damaged store": f"{STORE}::test_a_damaged_row_is_one_clear_error",
    "R9, records": "dynamics/clock/test_record.py::test_borders",
}
PLANE = sf.Dataset([[1.0, 0.5], [-0.5, 1.0]], [1.0, -1.0])
PAIR, ZERO = (
    sf.ReLUNetwork([[1.0, 0.5], [-0.3, 1.0]], [1.0, -0.5]),
    sf.ReLUNetwork(np.zeros((3, 2)), np.zeros(3)),
)
KNOTS, LINE = sf.KnotNetwork([-0.8, 0.2], [1.0, 0.2]), sf.Dataset([[0.0], [1.0]], [1.0, -1.0])
SOFT, STEP = sf.StepNetwork([0.2, 0.5], [0.5, -0.5], 0.2, 0.1), sf.PiecewiseConstant([0.5], [0.0, 1.0])


def huge(number: float) -> sf.Dataset:
    return sf.Dataset([[0.0], [1.0]], [number, -number])


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "R4, targets": (lambda: sf.active_neuron_least_squares(KNOTS, huge(1e308)), "^dataset: targets must"),
    "R4, weights": (
        lambda: sf.saddle_to_saddle(
            sf.ReLUNetwork([[1e160, 0.0], [0.0, -1e160]], [1e160] * 2), sf.Dataset(np.eye(2), [1.0, -1.0])
        ),
        "cannot be computed in double precision",
    ),
    "R4, labels": (
        lambda: sf.saddle_to_saddle(PAIR, sf.Dataset(np.eye(2), [1e160, -1e160])),
        "^saddle_to_saddle: cannot be computed in double precision",
    ),
    "R8, overflow": (
        lambda: sf.least_squares_outer(
            sf.ReLUNetwork([[1e300, 1e300]], [1.0]), sf.Dataset([[1e300, 1.0], [1.0, 2.0]], [1.0, 2.0])
        ),
        "^least_squares_outer: cannot be computed in double precision",
    ),
    "R8, tiny inputs": (
        lambda: sf.least_squares_outer(
            sf.KnotNetwork([0.0, 0.2], [1.0, 0.2]), sf.Dataset([[0.0], [1e-320]], [1.0, 2.0])
        ),
        "^dataset: the outer weights of least squares overflow",
    ),
    "R8, dimensions": (
        lambda: landscape.neuron_alignment(sf.ReLUNetwork(np.ones((2, 4)), np.ones(2)), PLANE),
        "^dataset: inputs must have the network's dimension 4, got 2",
    ),
    "R8, no data": (lambda: CERTIFICATES["plateau/theorem-3.2"](PAIR, None), "^dataset: must be a Dataset"),
    "R8, no sequence": (lambda: sf.Additive(5), "^components: must be a sequence"),  # type: ignore[arg-type]
    "R8, no record": (
        lambda: sf.active_neuron_least_squares(KNOTS, LINE, record=1),  # type: ignore[arg-type]
        "^record: must be a Record",
    ),
    "R8, no start": (lambda: CERTIFICATES["early_alignment/theorem-1"](ZERO, PLANE), "double precision"),
    "R9, masked": (
        lambda: sf.Dataset(np.eye(2), np.ma.array([1.0, 99.0], mask=[False, True])),
        "^targets: must not be a masked array",
    ),
    "R9, cells": (lambda: landscape.cell_bound(3, 10**30), "^rank: must be <= 10000"),
    "R9, epsilon": (
        lambda: sf.population_flow(SOFT, STEP, until=1.0, epsilon=1e30),
        "^until: speed x until must be <= ",
    ),
    "R9, a layer too fast": (
        lambda: sf.gradient_flow(PAIR, PLANE, until=5.0, epsilon=1e20, engine="walls"),
        "^epsilon: must be between 1e-16 and 1e[+]16 .* got 1e[+]20; epsilon=0 is the limit",
    ),
    "R9, a layer too slow": (
        lambda: sf.gradient_flow(PAIR, PLANE, until=5.0, epsilon=1e-20, engine="cones"),
        "^epsilon: must be between",
    ),
    "R8, a matrix for a word": (lambda: sf.Event(0.0, np.eye(3)), "^kind: must be one of"),  # type: ignore[arg-type]
}
ENDING: dict[str, tuple[Callable[[], sf.Trajectory], str]] = {
    "R6, at rest": (lambda: sf.gradient_flow(PAIR, PLANE, until=1e12, engine="walls"), "completed"),
    "R8, scale": (
        lambda: sf.gradient_descent(
            sf.ReLUNetwork([[1.0, 1.0]], [1.0], 0.0, 1e308), PLANE, step=0.1, steps=3
        ),
        "diverged",
    ),
    "R8, tiny scale": (
        lambda: sf.gradient_flow(
            sf.ReLUNetwork([[1.0, 0.5], [0.2, -1.0]], [1.0, 0.3], 0.0, 1e-300),
            PLANE,
            until=5.0,
            engine="cones",
        ),
        "completed",
    ),
    "R9, fast": (
        lambda: sf.gradient_flow(PAIR, PLANE, until=5.0, speed=1e308, engine="walls"),
        "stalled",
    ),
    "R9, tolerance": (
        lambda: sf.gradient_flow(PAIR, PLANE, until=5.0, tolerance=1e-300, engine="walls"),
        "completed",
    ),
    "R9, a start beyond stability": (
        lambda: sf.gradient_descent(
            sf.initialize.gaussian(20, 2, init_scale=10.0, seed=0), PLANE, step=0.1, steps=300
        ),
        "unstable",
    ),
}


@pytest.mark.parametrize("defect", WHERE)
def test_every_defect_has_its_test(defect: str) -> None:
    file, test = WHERE[defect].split("::")
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("defect", REFUSED)
def test_it_is_refused_in_words(defect: str) -> None:
    call, words = REFUSED[defect]
    with pytest.raises(sf.InvalidInputError, match=words):
        call()


@pytest.mark.parametrize("defect", ENDING)
def test_it_ends_in_an_outcome(defect: str) -> None:
    call, status = ENDING[defect]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trajectory = call()
    assert trajectory.outcome.status == status
    assert np.all(np.isfinite(trajectory.losses)) or not trajectory.outcome.ok


def test_inputs_at_the_origin_leave_a_certificate_without_nan() -> None:
    one = sf.ReLUNetwork([[1.0, 0.5]], [1.0])
    dataset = sf.Dataset([[0.0, 0.0], [1.0, 1.0]], [1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = CERTIFICATES["weak_interaction/theorem-1"](one, dataset)
    assert certificate.holds is False
    assert "nan" not in str(certificate)


def test_activations_take_lists() -> None:
    lists: Any = [-1.0, 0.02]
    for activation in (sf.CubicStep(0.1), sf.LeakyReLU(0.1)):
        assert activation(lists).tolist() == activation(np.array(lists)).tolist()
        assert activation.derivative(lists).tolist() == activation.derivative(np.array(lists)).tolist()


@pytest.mark.parametrize("engine", ["walls", "cones"])
def test_a_flow_that_has_ended_costs_nothing_more_though_its_data_still_pull(engine: str) -> None:
    data = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(40, 2, init_scale=1e-3, seed=0)
    short = sf.gradient_flow(network, data, until=3e3, engine=engine)
    run = sf.gradient_flow(network, data, until=1e12, engine=engine)
    assert run.outcome.status == "completed"
    assert run.losses[-1] > 0.08  # the least-squares line, not a fit
    assert int(run.statistics["segments"]) <= int(short.statistics["segments"]) + 2
    for time in (2.5e3, 1e7, 1e12):
        assert np.abs(flatten(run(time)) - flatten(short.final)).max() <= 1e-8


@pytest.mark.parametrize("seed", range(6))
def test_a_flow_in_any_dimension_ends_whether_it_fits_its_data_or_not(seed: int) -> None:
    # Three dimensions and a few samples are fitted, two and ten are not.
    rng = np.random.default_rng(seed)
    size, dimension = ((8, 3), (10, 2))[seed % 2]
    data = sf.Dataset(rng.standard_normal((size, dimension)), rng.standard_normal(size))
    network = sf.ReLUNetwork(0.3 * rng.standard_normal((12, dimension)), 0.3 * rng.standard_normal(12))
    short, run = (sf.gradient_flow(network, data, until=until, engine="walls") for until in (1e7, 1e300))
    assert run.outcome.status == "completed"
    assert int(run.statistics["segments"]) == int(short.statistics["segments"])
    assert np.array_equal(flatten(run.final), flatten(short.final))
    # Plain descent from there finds nothing more to do.
    after = sf.gradient_descent(run.final, data, step=1e-2, steps=2000, engine="dense")
    assert after.losses[-1] >= run.losses[-1] * (1.0 - 1e-9) - 1e-20


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("weak", [1e-3, 1e-4, 1e-5])
def test_a_weak_sample_is_followed_for_as_long_as_it_pulls(weak: float, tolerance: float) -> None:
    # The coordinate of a sample (0, s) with label s moves s² times as fast as that of (1, 0).
    network = sf.initialize.balanced(6, 2, init_scale=1, seed=3)

    def slow(strength: float, **options: Any) -> tuple[float, int]:
        data = sf.Dataset([[1.0, 0.0], [0.0, strength]], [1.0, strength])
        run = sf.gradient_flow(network, data, until=3.0 / strength**2, **options)
        return float(run.losses[-1]) / strength**2, int(run.statistics["segments"])

    loss, segments = slow(weak, engine="walls", tolerance=tolerance)
    assert loss == pytest.approx(slow(1e-2, engine="cones")[0], rel=10.0 * tolerance + 1e-7)
    assert segments < 400


def test_a_sample_too_weak_for_the_tangent_kernel_is_not_taken_for_rest() -> None:
    # Labels of 1 at (0, s): neurons that see it grow like e^{st/2} as long as they predict little, 6e-4 here.
    network = sf.ReLUNetwork([[1.0, 0.0], [0.3, 0.5]], [1.0, 0.6])
    ends = []
    for weak in (1e-7, 1e-9):
        data = sf.Dataset([[1.0, 0.0], [0.0, weak]], [1.0, 1.0])
        end: Any = sf.gradient_flow(network, data, until=10.0 / weak, engine="walls").final
        ends.append(end.inner[1, 1])
    assert ends[1] > 50.0
    assert ends[1] == pytest.approx(ends[0], rel=1e-3)


def test_a_logistic_flow_never_ends() -> None:
    data = sf.Dataset([[1.0, 0.3], [-0.4, 1.0]], [1.0, -1.0])
    network, loss = sf.initialize.balanced(8, 2, init_scale=0.5, seed=1), sf.LogisticLoss()
    for until in (1e6, 1e12, 1e20):
        losses = [
            float(sf.gradient_flow(network, data, until=until, loss=loss, engine=engine).losses[-1])
            for engine in ("walls", "cones")
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
        assert 0.01 < losses[0] * until < 0.1


@pytest.mark.parametrize("engine", ["walls", "cones"])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-12, 1e-16])
def test_the_faster_layer_is_as_accurate_as_the_slower_one(engine: str, epsilon: float) -> None:
    # With the inner layer frozen the outer one follows a linear equation.
    features = np.maximum(PLANE.inputs @ PAIR.inner.T, 0.0)
    values, vectors = np.linalg.eigh(features.T @ features / PLANE.size)
    end = np.linalg.solve(features, PLANE.targets)
    outer = end + vectors @ (np.exp(-5.0 * values) * (vectors.T @ (PAIR.outer - end)))
    run = sf.gradient_flow(PAIR, PLANE, until=5.0, epsilon=epsilon, engine=engine)
    assert np.abs(run.final.outer - outer).max() <= 1e-8 + 10.0 * epsilon


@pytest.mark.parametrize("engine", ["walls", "cones"])
@pytest.mark.parametrize("epsilon", [1e8, 1e12, 1e16])
def test_a_fast_inner_layer_fits_while_the_outer_one_stands(engine: str, epsilon: float) -> None:
    # The inputs are orthogonal: along each of them those that see it move in proportion to a, until it fits.
    run = sf.gradient_flow(PAIR, PLANE, until=5.0, epsilon=epsilon, engine=engine)
    inner = PAIR.inner.copy()
    for x, y in zip(PLANE.inputs, PLANE.targets, strict=True):
        heights, outer = inner @ x, np.where(PAIR.inner @ x > 0, PAIR.outer, 0.0)
        inner += (y - outer @ heights) / (outer @ outer * (x @ x)) * np.outer(outer, x)
    end: Any = run.final
    assert np.abs(end.inner - inner).max() <= 1e-7 + 10.0 / epsilon


@pytest.mark.parametrize("engine", ["walls", "cones"])
def test_neurons_far_too_small_to_be_seen_are_not_taken_for_rest(engine: str) -> None:
    # For a long time nothing but neurons of size 1e-12 moves, and the loss stands still to the last digit.
    data = sf.Dataset([[1.0, 0.2], [0.3, 1.0]], [1.0, -0.5])
    network = sf.initialize.balanced(6, 2, init_scale=1e-12, seed=1)
    run = sf.gradient_flow(network, data, until=1e3, engine=engine)
    assert run.losses[-1] < 1e-3 * run.losses[0]
