"""Plain gradient descent against hand-written loops and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.models import Loss
from tests.rounding import assert_rounded


def plain_relu_descent(
    inner: Floats, outer: Floats, inputs: Floats, targets: Floats, step: float, steps: int
) -> tuple[Floats, Floats]:
    """Descend on ½ mean r² with explicit sums over neurons and points."""
    inner, outer = inner.copy(), outer.copy()
    for _ in range(steps):
        grad_inner, grad_outer = np.zeros_like(inner), np.zeros_like(outer)
        for x, y in zip(inputs, targets, strict=True):
            residual = sum(a * max(w @ x, 0.0) for w, a in zip(inner, outer, strict=True)) - y
            for j in range(len(outer)):
                if inner[j] @ x > 0:
                    grad_inner[j] += residual * outer[j] * x / len(targets)
                    grad_outer[j] += residual * (inner[j] @ x) / len(targets)
        inner -= step * grad_inner
        outer -= step * grad_outer
    return inner, outer


def test_iterates_equal_a_hand_written_loop() -> None:
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.gaussian(7, 2, init_scale=1.0, seed=3)
    final = sf.gradient_descent(network, dataset, step=0.05, steps=40).final
    inner, outer = plain_relu_descent(network.inner, network.outer, dataset.inputs, dataset.targets, 0.05, 40)
    assert isinstance(final, sf.ReLUNetwork)
    np.testing.assert_allclose(final.inner, inner, rtol=0, atol=1e-13)
    np.testing.assert_allclose(final.outer, outer, rtol=0, atol=1e-13)


def test_one_linear_neuron_has_a_closed_form() -> None:
    """With the inner layer frozen (epsilon tiny) f = a·x, so a_t − y = (1 − step)^t (a_0 − y)."""
    network = sf.KnotNetwork([0.0], [0.0])
    trajectory = sf.gradient_descent(
        network, sf.Dataset([[1.0]], [2.0]), step=0.1, steps=50, epsilon=1e-300, record=sf.Record.every(1)
    )
    expected = 0.5 * (2.0 * 0.9 ** np.arange(51)) ** 2
    np.testing.assert_allclose(trajectory.losses, expected, rtol=1e-12)


def test_epsilon_scales_the_inner_layer_only() -> None:
    dataset = sf.data.GENERATORS["curve"]("sin_pi", 20)
    network = sf.initialize.he_knots(5, seed=1)
    slow = sf.gradient_descent(network, dataset, step=0.1, steps=1, epsilon=0.01).final
    full = sf.gradient_descent(network, dataset, step=0.1, steps=1).final
    assert isinstance(slow, sf.KnotNetwork)
    assert isinstance(full, sf.KnotNetwork)
    assert_rounded(slow.outer, full.outer, 4)
    size = float(np.max(np.abs(network.knots)))
    assert_rounded(slow.knots - network.knots, 0.01 * (full.knots - network.knots), 4, size=size)


@pytest.mark.parametrize("loss", [sf.SquareLoss("mean"), sf.SquareLoss("sum"), sf.LogisticLoss()])
def test_recorded_losses_are_the_losses_of_recorded_networks(loss: Loss) -> None:
    dataset = sf.Dataset([[0.3, 1.0], [-0.7, 1.0], [0.9, 1.0]], [1.0, -1.0, 1.0])
    network = sf.initialize.gaussian(6, 2, init_scale=1.0, seed=0)
    trajectory = sf.gradient_descent(
        network, dataset, step=0.01, steps=30, loss=loss, record=sf.Record.every(7)
    )
    assert list(trajectory.times) == pytest.approx([0.0, 0.07, 0.14, 0.21, 0.28, 0.3])
    for time, value in zip(trajectory.times, trajectory.losses, strict=True):
        assert loss.value(trajectory(time)(dataset.inputs), dataset.targets) == pytest.approx(
            value, rel=1e-14
        )


def test_step_network_learns_a_step() -> None:
    x = np.linspace(0, 1, 41)
    dataset = sf.Dataset(x[:, None], sf.PiecewiseConstant([0.5], [0.0, 1.0])(x))
    network = sf.StepNetwork([0.45], [0.0], 0.0, sharpness=0.2)
    trajectory = sf.gradient_descent(network, dataset, step=0.5, steps=3000, epsilon=0.02)
    final = trajectory.final
    assert isinstance(final, sf.StepNetwork)
    assert final.positions[0] == pytest.approx(0.5, abs=0.02)
    assert final.outer[0] == pytest.approx(1.0, abs=0.05)


def test_divergence_is_an_outcome_with_the_last_finite_network() -> None:
    dataset = sf.data.GENERATORS["curve"]("sin_pi", 50)
    network = sf.ReLUNetwork([[1.0], [-1.0]], [1.0, 1.0])
    trajectory = sf.gradient_descent(network, dataset, step=1e3, steps=500, record=sf.Record.every(1))
    assert trajectory.outcome.status == "diverged"
    assert "smaller" in trajectory.outcome.advice
    assert np.isfinite(trajectory.losses).all()
    assert all(np.isfinite(values).all() for values in trajectory.final.parameters.values())


def test_the_sum_loss_beyond_its_stability_limit_says_so() -> None:
    """[plateau]: the literal ½Σ with rate 10⁻³ is unstable at width 100 and 500 points; the mean is not."""
    dataset = sf.data.GENERATORS["curve"]("sin_5pi", 500)
    network = sf.initialize.he_knots(100, seed=0)
    total = sf.gradient_descent(network, dataset, step=1e-3, steps=20, loss=sf.SquareLoss("sum"))
    assert total.outcome.status == "unstable"
    assert "λ_max" in total.outcome.message
    mean = sf.gradient_descent(network, dataset, step=1e-3, steps=20)
    assert mean.outcome.ok


def test_the_stability_limit_is_the_sharpness_of_the_finite_difference_hessian() -> None:
    """On data that the network fits exactly the Hessian is the Gauss–Newton matrix."""
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((4, 2))
    network = sf.ReLUNetwork(rng.standard_normal((3, 2)), rng.standard_normal(3), slope=0.1, scale=0.5)
    dataset = sf.Dataset(inputs, network(inputs))
    epsilon, h = 0.3, 1e-5

    def gradient(theta: Floats) -> Floats:
        moved = network.moved({"inner": theta[:6].reshape(3, 2), "outer": theta[6:]})
        slopes = sf.SquareLoss().slopes(moved.predict(inputs), dataset.targets)
        parts = moved.pullback(inputs, slopes)
        return np.concatenate([epsilon * parts["inner"].ravel(), parts["outer"]])

    theta = np.concatenate([network.inner.ravel(), network.outer])
    hessian = np.array([(gradient(theta + h * e) - gradient(theta - h * e)) / (2 * h) for e in np.eye(9)])
    largest = float(np.max(np.linalg.eigvals(hessian).real))
    trajectory = sf.gradient_descent(network, dataset, step=0.01, steps=1, epsilon=epsilon)
    assert trajectory.statistics["step × λ_max at the start"] == pytest.approx(0.01 * largest, rel=1e-6)


def test_progress_ends_at_one_and_changes_nothing() -> None:
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(10, 2, init_scale=0.1)
    seen: list[float] = []
    watched = sf.gradient_descent(network, dataset, step=0.01, steps=500, progress=seen.append)
    plain = sf.gradient_descent(network, dataset, step=0.01, steps=500)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    assert watched.final == plain.final


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": -0.1, "steps": 10}, "step: must be > 0, got -0.1"),
        ({"step": float("nan"), "steps": 10}, "step: must be finite, got nan"),
        ({"step": 0.1, "steps": 0}, "steps: must be >= 1, got 0"),
        ({"step": 0.1, "steps": 2.5}, "steps: must be an integer, got 2.5"),
        ({"step": 0.1, "steps": 5, "epsilon": 0.0}, "epsilon: must be > 0, got 0"),
        ({"step": 0.1, "steps": 5, "engine": "magic"}, "engine: must be one of"),
    ],
)
def test_bad_options_are_named(options: dict[str, float], words: str) -> None:
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(3, 2)
    with pytest.raises(sf.InvalidInputError, match=words):
        sf.gradient_descent(network, dataset, **options)  # type: ignore[arg-type]


def test_network_and_data_must_fit() -> None:
    dataset = sf.data.GENERATORS["three_points"]()
    with pytest.raises(sf.InvalidInputError, match="dimension 3, got 2"):
        sf.gradient_descent(sf.initialize.balanced(3, 3), dataset, step=0.1, steps=1)
    flat = sf.Dataset([[0.5]], [1.0])
    with pytest.raises(sf.InvalidInputError, match="sharpness must be > 0"):
        sf.gradient_descent(sf.StepNetwork([0.5], [1.0]), flat, step=0.1, steps=1)
    with pytest.raises(sf.InvalidInputError, match="targets: must be"):
        sf.gradient_descent(sf.initialize.balanced(3, 2), dataset, step=0.1, steps=1, loss=sf.LogisticLoss())


def test_a_record_that_cannot_fit_is_refused_before_the_run() -> None:
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(200_000, 2)
    with pytest.raises(sf.InvalidInputError, match=r"2000001 networks of 600000 numbers needs 9\.6e\+03 GB"):
        sf.gradient_descent(network, dataset, step=1e-3, steps=2_000_000, record=sf.Record.every(1))


def test_a_run_that_blew_up_on_the_way_is_not_called_completed() -> None:
    """One huge step throws all neurons off the data; the loss ends where it began."""
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(5, 2, init_scale=1e-3, seed=0)
    trajectory = sf.gradient_descent(network, dataset, step=1e6, steps=100, record=sf.Record.every(1))
    assert not trajectory.outcome.ok
    assert "smaller" in trajectory.outcome.advice


@pytest.mark.parametrize("name", ["loss", "record"])
def test_options_of_the_wrong_type_are_named(name: str) -> None:
    dataset = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(3, 2)
    with pytest.raises(sf.InvalidInputError, match=f"{name}: must be .*got 'all'"):
        sf.gradient_descent(network, dataset, step=0.1, steps=1, **{name: "all"})  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match=f"{name}: must be .*got 'all'"):
        sf.gradient_flow(network, dataset, until=1.0, **{name: "all"})  # type: ignore[arg-type]


def test_the_last_finite_network_is_kept_without_recorded_networks() -> None:
    dataset = sf.data.GENERATORS["curve"]("sin_pi", 50)
    network = sf.ReLUNetwork([[1.0], [-1.0]], [1.0, 1.0])
    record = sf.Record.every(1, networks=False)
    trajectory = sf.gradient_descent(network, dataset, step=1e3, steps=500, record=record)
    assert trajectory.outcome.status == "diverged"
    assert trajectory.path.times[-1] == trajectory.times[-1] > 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("which", ["inputs", "targets", "both"])
def test_data_beyond_all_squares_end_in_an_outcome(which: str) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((6, 2)) * (1.0 if which == "targets" else 1e200)
    dataset = sf.Dataset(inputs, rng.standard_normal(6) * (1.0 if which == "inputs" else 1e200))
    network = sf.initialize.balanced(5, 2, init_scale=0.1)
    outcome = sf.gradient_descent(network, dataset, step=0.01, steps=10).outcome
    assert (outcome.status, outcome.advice) == ("diverged", "rescale the data.")
