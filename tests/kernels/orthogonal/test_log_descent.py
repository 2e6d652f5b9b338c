"""Compiled descent in log-scaled weights, beside plain NumPy on plain weights."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.kernels.orthogonal.descent import LogNeurons, descend, log_loss_now


def test_the_steps_are_those_of_plain_descent() -> None:
    rng = np.random.default_rng(2)
    m, n, steps = 5, 8, 3000
    w, a = 0.01 * rng.standard_normal((m, n)), 0.01 * rng.standard_normal(m)
    targets = rng.standard_normal(n)
    neurons = LogNeurons(w / 0.01, a / 0.01, np.full(m, np.log(0.01)))
    losses, expected = np.empty(steps), []
    assert descend(neurons, targets, (0.02 / n, 0.03 / n), steps, losses) == steps
    for _ in range(steps):
        on = w > 0
        residual = targets - a @ np.where(on, w, 0.0)
        expected.append(0.5 * residual @ residual)
        pull = np.sum(on * w * residual, axis=1)
        w, a = w + 0.02 / n * a[:, None] * on * residual, a + 0.03 / n * pull
    z, outer, log_scales = neurons
    scale = np.exp(log_scales)
    np.testing.assert_allclose(losses, expected, rtol=1e-9)
    residual = targets - a @ np.maximum(w, 0.0)
    assert log_loss_now(neurons, targets) == pytest.approx(0.5 * residual @ residual, rel=1e-9)
    np.testing.assert_allclose(scale[:, None] * z, w, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(scale * outer, a, rtol=1e-9, atol=1e-13)
    assert np.all(np.abs(outer[np.abs(a) > 1e-3]) <= 2.0)


def test_an_overflow_ends_the_descent() -> None:
    """The output e^{800} is beyond floating point."""
    neurons = LogNeurons(np.array([[1.0]]), np.array([1.0]), np.array([400.0]))
    assert descend(neurons, np.array([1.0]), (0.1, 0.1), 1000, np.empty(0)) == 0
