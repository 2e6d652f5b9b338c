"""The experiments of [incremental] at small sizes: claims are judged by what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.experiments import EXPERIMENTS, Claim
from shallowflow.experiments.incremental.norms import identity, labels, small_start
from shallowflow.experiments.incremental.staircase import LN10, SEPARATED
from shallowflow.landscape.incremental import SHARED_RATIO, min_squared_norm, squared_norm

SMALL: Mapping[str, Mapping[str, Any]] = {
    "incremental/fig1": {"points": 120},
    "incremental/fig3": {"points": 60},
    "incremental/fig5": {
        "sizes": (32, 64, 256, 1024, 16384),
        "descent_up_to": 1024,
        "crossing_sizes": (32, 64),
        "digits": (4,),
        "limit_seeds": 3,
        "seeds": 2,
        "flow_digits": (30, 100, 1000, 3000),
    },
    "incremental/fig6": {
        "widths": (32, 128, 512, 8192),
        "small_up_to": 512,
        "he_up_to": 128,
        "seeds": 2,
        "he_epochs": 10_000,
    },
    "incremental/theorem2": {"digits": (30, 300, 1000, 1500, 10000)},
    "incremental/starts": {"starts": 8, "turned": 2, "digits": (30, 3000)},
    "incremental/phases": {"scales": (300, 3000), "starts": 4, "few": 12},
    "incremental/halving": {"points": 4000, "starts": 8, "sizes": (100, 1000)},
    "incremental/near_orthogonal": {"correlations": (0.0, 1e-9, 1e-5, 1e-2), "seeds": 2},
}
NOT_HELD = {
    "incremental/fig5": [None, False, None, None, True, True, True],
    "incremental/fig6": [None, None, None, None, False],
    "incremental/starts": [None, None, True, True, None, True],
    "incremental/phases": [True, True, True, None, True],
    "incremental/halving": [True, None, None, None],
}
"""What does not come out, or is open with so few starts: how each claim ends."""


def claims_of(name: str, **changes: Any) -> list[Claim]:
    experiment = EXPERIMENTS[name]
    parameters = {**experiment.parameters["quick"], **SMALL.get(name, {}), **changes}

    def progress(fraction: float, doing: str) -> None:
        assert 0 <= fraction <= 1
        assert doing

    findings = experiment.run(parameters, progress)
    assert findings.figures
    assert all(panel.series for figure in findings.figures for panel in figure.panels)
    return list(findings.claims)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("incremental/")])
def test_claims_end_as_they_should_and_say_what_would_make_them_fail(name: str) -> None:
    found = claims_of(name)
    assert [claim.holds for claim in found] == NOT_HELD.get(name, [True] * len(found)), found
    for claim in found:
        assert claim.fails_if
        assert claim.holds is not False or claim.reason


def test_figures_1_and_3_have_teeth() -> None:
    """From α = 10⁻³ jumps overlap: plateaus and slopes are not those of the limit."""
    assert [claim.holds for claim in claims_of("incremental/fig1", digits=3)].count(False) >= 4
    assert claims_of("incremental/fig3", digits=3)[0].holds is False


def apart(limit: sf.SaddleToSaddle, acceleration: float) -> bool:
    """Whether Algorithm 1 interpolates by jumps that α = e^{−acceleration} tells apart.

    Both the gap of a jump, |ρ| of the next neuron that shares a point, and the growth of ρ until the next
    jump, times ln(1/α), are at least `SEPARATED`.
    """
    if not limit.interpolates:  # perhaps without any jump
        return False
    least = min(float(limit.process.gaps.min()), float(limit.process.settling.min()))
    return least * acceleration >= SEPARATED


def test_starts_without_a_jump_are_refused() -> None:
    data = sf.data.GENERATORS["orthonormal"](4, labels="positive", seed=0)
    idle = sf.LogScaledNetwork(np.ones((1, 4)), -np.ones(1), np.zeros(1))
    assert not apart(sf.saddle_to_saddle(idle, data), 1e6)


def first_seed(name: str, scale: str) -> int:
    """The first seed that the rule of `starts` accepts for an experiment's data, width and smallest start."""
    asked = EXPERIMENTS[name].parameters[scale]
    one_sign = name == "incremental/fig1"
    data = sf.data.GENERATORS["orthonormal"](
        asked["size"], labels="positive" if one_sign else "bounded", seed=asked["data_seed"]
    )
    acceleration = float(np.max(asked["digits"])) * LN10
    for seed in range(1000):
        network = sf.initialize.log_scaled(asked["width"], asked["size"], log_scale=-acceleration, seed=seed)
        if one_sign and np.any(network.outer < 0):
            continue
        if apart(sf.saddle_to_saddle(network, data), acceleration):
            return seed
    raise AssertionError("no start is accepted")


@pytest.mark.parametrize("name", ["incremental/fig1", "incremental/theorem2"])
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_starts_are_those_of_the_rule(name: str, scale: str) -> None:
    assert EXPERIMENTS[name].parameters[scale]["seed"] == first_seed(name, scale)


def test_neurons_that_grow_together_have_the_shared_norm() -> None:
    """‖θ‖² is 1/√p times the minimum, p the part of Σy² on which neurons are active, by their shares."""
    size = 512
    targets = labels(size, 1000)
    start = small_start(500, size, 2, 0).to_relu()
    record = sf.Record.every(1000, networks=False)
    run = sf.gradient_descent(start, identity(targets), step=0.5, steps=4000, record=record)
    final = run.final
    assert isinstance(final, sf.ReLUNetwork)
    parts, weights = [], []
    for sign in (1.0, -1.0):
        mine, theirs = sign * start.outer > 0, sign * targets > 0
        active = (start.inner[np.ix_(mine, theirs)] > 0) @ targets[theirs] ** 2
        shares = final.outer[mine] ** 2 / np.sum(final.outer[mine] ** 2)
        parts.append(shares @ active / np.sum(targets[theirs] ** 2))
        weights.append(np.linalg.norm(targets[theirs]))
    assert run.losses[-1] < 1e-9
    ratio = squared_norm(final) / min_squared_norm(targets)
    assert ratio == pytest.approx(np.average(1 / np.sqrt(parts), weights=weights), rel=0.02)
    assert ratio == pytest.approx(SHARED_RATIO, rel=0.1)
