"""A-posteriori certificates: what they prove is what runs do, at the proved rate; their conditions by brute
force."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import along, certify
from shallowflow.certificates.weak_interaction_rates import standing
from shallowflow.errors import InvalidInputError

G = sf.data.GENERATORS


def independent(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """Six random inputs in R⁸: they interact far more than Assumption 2 allows."""
    rng = np.random.default_rng(seed)
    data = sf.Dataset(rng.standard_normal((6, 8)), rng.uniform(0.5, 1.5, 6) * rng.choice([-1.0, 1.0], 6))
    return sf.initialize.asymmetric(30, 8, seed=seed), data


@pytest.mark.parametrize("seed", range(4))
def test_independent_inputs_are_proved_from_some_time_on(seed: int) -> None:
    network, data = independent(seed)
    run = sf.gradient_flow(network, data, until=1500.0)
    assert not certify("weak_interaction/theorem-1", network, data).holds
    found = along(run)
    start = found.proved_from
    assert start is not None
    k = int(np.flatnonzero(found.times == start)[0])
    # From then on the loss keeps below what was proved, at every later moment.
    later = run.times[run.times >= start]
    losses = run.losses[run.times >= start]
    bound = losses[0] * np.exp(-found.rates[k].max() * (later - later[0]))
    assert np.all(losses <= bound * (1 + 1e-6))
    # And every sample stays active, no residual reaches its label.
    for time in later[:: max(1, len(later) // 20)].tolist():
        now = run(time)
        assert isinstance(now, sf.ReLUNetwork)
        assert np.all(np.any(now.inner @ data.inputs.T > 0, axis=0))
        assert np.all(np.abs(now(data.inputs) - data.targets) < np.abs(data.targets))


def test_the_rate_of_independent_inputs_is_the_formula() -> None:
    network, data = independent(0)
    run = sf.gradient_flow(network, data, until=1500.0)
    now = run.final
    assert isinstance(now, sf.ReLUNetwork)
    found = standing(now, data, speed=2.0)
    residual = np.linalg.norm(now(data.inputs) - data.targets)
    least = np.linalg.eigvalsh(data.inputs @ data.inputs.T)[0]
    share = np.min((np.abs(data.targets) - residual) / np.linalg.norm(data.inputs, axis=1))
    assert found.rates[0] == pytest.approx(2 * 2.0 * now.scale / 6 * least * share, rel=1e-12)
    start = standing(network, data)
    kernel = network.tangent_kernel(data.inputs) / 6
    assert start.weakest == pytest.approx(np.linalg.eigvalsh(kernel)[0], rel=1e-9)
    # The curvature of this moment is not below either of the proved rates.
    last = float(run.times[-1])
    curvature = sf.landscape.local_pl(now, data, speed=2.0, resting=run.resting(last))
    assert max(found.rates) <= curvature * (1 + 1e-9)


def test_more_samples_than_dimensions_are_proved_by_a_pattern_that_stands() -> None:
    rng = np.random.default_rng(5)
    data = sf.Dataset(rng.standard_normal((7, 3)), rng.standard_normal(7))
    run = sf.gradient_flow(sf.initialize.gaussian(60, 3, init_scale=1.0, seed=1), data, until=3000.0)
    found = along(run)
    assert found.independence == 0.0
    assert found.proved_from is not None
    k = int(np.flatnonzero(found.times == found.proved_from)[0])
    assert found.rates[k, 0] == 0.0
    later = run.times >= found.proved_from
    times, losses = run.times[later], run.losses[later]
    allowed = losses[0] * np.exp(-found.rates[k, 1] * (times - times[0]))
    assert np.all(losses <= allowed * (1 + 1e-6) + 1e-28)


def test_a_pattern_that_is_proved_to_stand_stands() -> None:
    # One neuron on two points of the plane, nearly fitted: everything can be written down.
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
    network = sf.ReLUNetwork([[1.0, 0.5 + 1e-4]], [1.0])
    found = standing(network, data)
    residual, sizes = 1e-4, 1.0 + np.linalg.norm(network.inner)
    jacobian = np.column_stack([np.eye(2), network.inner[0]])
    square = np.linalg.svd(jacobian, compute_uv=False)[-1] ** 2
    growth = np.expm1(4 * residual / square)
    nearest, halved = (0.5 + 1e-4) / sizes, 0.5 * np.sqrt(square) / sizes
    assert found.room == pytest.approx(min(nearest, halved) / growth, rel=1e-6)
    assert found.rates[1] == pytest.approx(square / 4, rel=1e-9)
    far = sf.ReLUNetwork([[1.0, 0.1]], [3.0])
    assert standing(far, data).rates[1] == 0.0


def test_what_is_left_to_prove_is_said() -> None:
    data = G["three_points"]()
    run = sf.gradient_flow(sf.initialize.balanced(50, 2, init_scale=1e-3, seed=0), data, until=100.0)
    found = along(run)
    assert found.proved_from is None
    text = str(found)
    assert "At no recorded moment is the rest of the run proved" in text
    assert "the tangent kernel is singular" in text
    assert "n > d" in text


def test_the_certificate_of_a_state_and_the_run_from_it() -> None:
    network, data = independent(1)
    assert not certify("weak_interaction/from-now", network, data).holds
    late = sf.gradient_flow(network, data, until=1500.0).final
    run = sf.gradient_flow(late, data, until=50.0)
    found = certify("weak_interaction/from-now", late, data, run)
    assert found.holds
    assert found.promises[0].kept


def test_bad_input_is_refused() -> None:
    data = G["orthonormal"](4)
    bare = sf.Trajectory.from_snapshots([0.0, 1.0], [sf.initialize.balanced(3, 4, seed=0)] * 2, data)
    with pytest.raises(InvalidInputError, match="speed"):
        along(bare, speed=-1.0)
    with pytest.raises(InvalidInputError, match="at most 2000 samples"):
        standing(sf.initialize.balanced(2, 1, seed=0), sf.Dataset(np.ones((2001, 1)), np.ones(2001)))


def test_runs_that_the_proof_is_not_about_are_refused() -> None:
    data = sf.data.GENERATORS["orthonormal"](4, labels="bounded")
    signs = sf.Dataset(data.inputs, np.sign(data.targets))
    start = sf.initialize.asymmetric(6, 4, seed=0)
    with pytest.raises(sf.InvalidInputError, match=r"trajectory: must be of the loss SquareLoss\(\)"):
        sf.certificates.along(sf.gradient_flow(start, signs, until=1.0, loss=sf.LogisticLoss()))
    with pytest.raises(sf.InvalidInputError, match="trajectory: must be a flow"):
        sf.certificates.along(sf.gradient_descent(start, data, step=0.5, steps=3))
    with pytest.raises(sf.InvalidInputError, match="data: the trajectory was made with"):
        sf.certificates.along(sf.gradient_flow(start, data, until=1.0), signs)


def test_certificates_travel_between_processes() -> None:
    for check in (*sf.certificates.CERTIFICATES.values(), *sf.certificates.VERDICTS.values()):
        assert pickle.loads(pickle.dumps(check)) is check
