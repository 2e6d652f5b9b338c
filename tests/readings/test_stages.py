"""Stages of made trajectories with known passages, and of the reference flow of `tests.landscape`."""

from itertools import pairwise

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import Polynomials, Snapshots, lobatto_nodes
from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.plateau.levels import plateau_level, rate_bounds
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork
from shallowflow.readings.stages import recorded_loss, stages
from tests.landscape.frozen_flow import Piece, flow_pieces
from tests.landscape.plateau.test_levels import random_problem

NODES = 6
DATA = Dataset([[0.0], [1.0], [2.0], [3.0], [4.0]], [0.5, 1.0, -1.0, 2.0, 0.3])


def loss_of(network: KnotNetwork, dataset: Dataset, loss: SquareLoss) -> float:
    return loss.value(network.predict(dataset.inputs), dataset.targets)


def dense(times: Floats, thetas: Floats, dataset: Dataset, loss: SquareLoss) -> Trajectory:
    """A trajectory of polynomials from θ at the Lobatto nodes of each step, (s, q, P)."""
    width = thetas.shape[2] // 2
    template = KnotNetwork(np.zeros(width), np.zeros(width))
    first = KnotNetwork(thetas[0, 0, :width], thetas[0, 0, width:])
    path = Polynomials(template, times, thetas)
    losses = np.array([loss_of(first, dataset, loss)])
    return Trajectory(times[:1], losses, path, (), Outcome("completed", "made"))


def made(knots_at: list[Floats], dataset: Dataset = DATA) -> Trajectory:
    """Straight lines between given knots at times 0, 1, 2, …, all coefficients 1."""
    corners = np.array(knots_at)
    share = lobatto_nodes(NODES)[:, None]
    steps = [(1 - share) * a + share * b for a, b in pairwise(corners)]
    thetas = np.array([np.hstack([step, np.ones_like(step)]) for step in steps])
    return dense(np.arange(len(corners), dtype=np.float64), thetas, dataset, SquareLoss("sum"))


def test_passages_of_a_moving_knot_are_located() -> None:
    found = stages(made([np.array([0.5, 3.5]), np.array([2.75, 3.5])]), DATA, rates=False)
    # b_1 = 0.5 + 2.25 t passes 1 at t = 2/9 and 2 at t = 6/9.
    assert [stage.start for stage in found] == pytest.approx([0.0, 2 / 9, 6 / 9], rel=1e-10)
    assert [stage.end for stage in found] == pytest.approx([2 / 9, 6 / 9, 1.0], rel=1e-10)
    assert [list(stage.blocks.counts) for stage in found] == [[1, 3, 1], [2, 2, 1], [3, 1, 1]]
    assert all(stage.sliding == () for stage in found)
    for stage, knot in zip(found, (0.7, 1.5, 2.5), strict=True):
        network = KnotNetwork([knot, 3.5], [1.0, 1.0])
        assert stage.level == pytest.approx(plateau_level(network, DATA, SquareLoss("sum")))
        assert np.isnan(stage.r_min).all()
    assert found[1].length == pytest.approx(4 / 9)


def test_a_slide_is_a_stage_of_its_own_and_a_touch_is_none() -> None:
    down = [np.array([1.5]), np.array([1.0]), np.array([1.0]), np.array([0.5])]
    found = stages(made(down), DATA, rates=False)
    assert [stage.start for stage in found] == pytest.approx([0.0, 1.0, 2.0], rel=1e-9)
    assert [stage.sliding for stage in found] == [(), (0,), ()]
    # While it slides on x = 1, that point is not active: ReLU'(0) = 0.
    assert [list(stage.blocks.counts) for stage in found] == [[2, 3], [2, 3], [1, 4]]
    straight = stages(made([np.array([1.5]), np.array([1.0]), np.array([0.5])]), DATA, rates=False)
    assert [stage.start for stage in straight] == pytest.approx([0.0, 1.0], rel=1e-9)
    assert [stage.sliding for stage in straight] == [(), ()]


def test_a_tiny_step_beside_a_point_is_no_slide() -> None:
    times = np.array([0.0, 1.0, 1.0 + 1e-9, 2.0])
    corners = np.array([1.5, 1.0, 1.0 - 1e-13, 0.5])
    knots = corners[:-1, None] + np.diff(corners)[:, None] * lobatto_nodes(NODES)
    thetas = np.stack([knots, np.ones_like(knots)], axis=2)
    found = stages(dense(times, thetas, DATA, SquareLoss("sum")), DATA, rates=False)
    assert [stage.start for stage in found] == pytest.approx([0.0, 1.0], rel=1e-8)
    assert [stage.sliding for stage in found] == [(), ()]


def test_neurons_that_pass_each_other_stay_in_the_stage() -> None:
    found = stages(made([np.array([1.2, 1.6]), np.array([1.8, 1.4])]), DATA, rates=False)
    assert len(found) == 1


def test_two_knots_may_pass_in_one_step() -> None:
    found = stages(made([np.array([0.5, 1.4]), np.array([1.5, 2.4])]), DATA, rates=False)
    assert [stage.start for stage in found] == pytest.approx([0.0, 0.5, 0.6], rel=1e-9)


def test_snapshots_resolve_stages_to_their_records() -> None:
    knots = np.array([0.2, 0.4, 1.1, 1.3, 1.7, 2.5])
    values = np.stack([knots, np.ones(6)], axis=1)
    path = Snapshots(KnotNetwork([0.0], [0.0]), np.arange(6.0), values, sparse=True)
    losses = np.array([loss_of(KnotNetwork([0.2], [1.0]), DATA, SquareLoss("mean"))])
    found = stages(Trajectory(np.zeros(1), losses, path, (), Outcome("completed", "made")), DATA)
    assert [(stage.start, stage.end) for stage in found] == [(0.0, 1.0), (2.0, 4.0), (5.0, 5.0)]
    expected = [rate_bounds(KnotNetwork([b], [1.0]), DATA).r_max for b in knots[2:5]]
    np.testing.assert_allclose(found[1].r_max, expected, rtol=1e-12)


def polynomials_of(pieces: list[Piece], loss: SquareLoss, share: float = 1.0) -> Trajectory:
    """The reference flow as a trajectory; time runs 1/share times as fast."""
    times = np.concatenate([[0.0], *(piece.steps[1:] for piece in pieces)])
    thetas = [
        [piece.theta(float(t)) for t in start + (end - start) * lobatto_nodes(NODES)]
        for piece in pieces
        for start, end in zip(piece.steps[:-1], piece.steps[1:], strict=True)
    ]
    return dense(times / share, np.array(thetas), pieces[0].dataset, loss)


@pytest.mark.parametrize("seed", [1, 12, 25, 60])
def test_stages_of_a_flow_are_the_reference_stages(seed: int) -> None:
    network, dataset = random_problem(seed)
    pieces = flow_pieces(network, dataset, until=4.0, most=6)
    found = stages(polynomials_of(pieces, SquareLoss("sum")), dataset, samples=401)
    assert [stage.start for stage in found] == pytest.approx([piece.ends[0] for piece in pieces], abs=1e-9)
    for stage, piece in zip(found, pieces, strict=True):
        assert stage.level == pytest.approx(piece.level(), abs=1e-9)
        losses = [piece.loss(float(np.clip(time, *piece.ends))) for time in stage.times]
        np.testing.assert_allclose(stage.losses, losses, rtol=1e-7)
        rates = np.array([piece.rates(float(np.clip(time, *piece.ends))) for time in stage.times])
        np.testing.assert_allclose(np.stack([stage.r_min, stage.r_max], axis=1), rates, rtol=1e-5, atol=1e-9)
        for decay, exact in zip((stage.decay_min, stage.decay_max), piece.decays, strict=True):
            assert abs(decay.total - exact[-1]) <= 2 * decay.errors[-1] + 1e-8
            assert decay.errors[-1] <= 0.02 * exact[-1] + 1e-12


def test_the_mean_loss_and_the_speed_rescale_the_rates() -> None:
    network, dataset = random_problem(60)
    pieces = flow_pieces(network, dataset, until=4.0, most=3)
    plain = stages(polynomials_of(pieces, SquareLoss("sum")), dataset)
    speed = 2.0  # the flow of the mean at this speed takes size/speed times as long
    slow = polynomials_of(pieces, SquareLoss("mean"), share=speed / dataset.size)
    scaled = stages(slow, dataset, speed=speed)
    assert recorded_loss(slow, dataset) == SquareLoss("mean")
    for one, two in zip(plain, scaled, strict=True):
        assert two.length == pytest.approx(one.length * dataset.size / speed)
        assert two.decay_min.total == pytest.approx(one.decay_min.total, rel=1e-9)
        assert two.level == pytest.approx(one.level / dataset.size)
        np.testing.assert_allclose(two.excess, one.excess / dataset.size, rtol=1e-6, atol=1e-15)


def test_foreign_trajectories_are_refused() -> None:
    trajectory = made([np.array([0.5]), np.array([1.5])])
    other = Dataset(DATA.inputs, 2 * DATA.targets)
    with pytest.raises(InvalidInputError, match=r"trajectory: its first loss .* is not that of"):
        stages(trajectory, other)
    with pytest.raises(InvalidInputError, match="is not that of the first network"):
        stages(trajectory, DATA, loss=SquareLoss("mean"))
    with pytest.raises(InvalidInputError, match="samples: must be >= 5"):
        stages(trajectory, DATA, samples=2)
    relu = ReLUNetwork([[1.0]], [1.0])
    path = Snapshots(relu, np.zeros(1), np.ones((1, 2)))
    foreign = Trajectory(np.zeros(1), np.ones(1), path, (), Outcome("completed", "made"))
    with pytest.raises(InvalidInputError, match="must be of a KnotNetwork, got ReLUNetwork"):
        stages(foreign, DATA)


def test_wrong_types_are_refused() -> None:
    data = sf.data.GENERATORS["curve"](size=9)
    run = sf.gradient_flow(sf.initialize.he_knots(3, seed=0), data, until=0.01)
    with pytest.raises(InvalidInputError, match="trajectory: must be a Trajectory, got 1"):
        stages(1, data)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="dataset: must be a Dataset, got 'data'"):
        stages(run, "data")  # type: ignore[arg-type]
