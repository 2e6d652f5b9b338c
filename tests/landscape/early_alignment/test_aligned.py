"""Alignment of neurons with the pull of the data, neuron by neuron."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import stewart, three_points
from shallowflow.landscape import extremal_vectors, minimal_subgradient, neuron_alignment
from shallowflow.landscape.early_alignment.aligned_neurons import NOT_EXTREMAL, STILL
from shallowflow.landscape.early_alignment.extremal import KINDS
from tests.rounding import EPSILON


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_every_neuron_is_compared_with_its_own_pull(slope: float) -> None:
    data = stewart(12, seed=1)
    network = sf.initialize.gaussian(50, 2, init_scale=1.0, slope=slope, seed=2)
    found = neuron_alignment(network, data)
    extremal = {tuple(v.pattern.tolist()): v.kind for v in extremal_vectors(data, slope=slope)}
    for j, (w, a) in enumerate(zip(network.inner, network.outer, strict=True)):
        pulled = minimal_subgradient(w, data, slope=slope)
        assert found.norms[j] == pytest.approx(np.linalg.norm(pulled), abs=10 * EPSILON)
        assert found.alignments[j] == pytest.approx(pulled @ w / a, rel=1e-12, abs=10 * EPSILON)
        if pulled.any():
            cosine = np.sign(a) * pulled @ w / np.linalg.norm(pulled) / np.linalg.norm(w)
            assert found.cosines[j] == pytest.approx(cosine, abs=1e-14)
        kind = extremal.get(tuple(np.sign(data.inputs @ w).astype(int).tolist()))
        expected = STILL if not pulled.any() else NOT_EXTREMAL if kind is None else KINDS.index(kind)
        assert found.states[j] == expected


def test_aligned_opposed_dead_and_zero_neurons() -> None:
    data = three_points()
    (only,) = extremal_vectors(data)
    w = only.direction
    network = sf.ReLUNetwork([w, w, -w, 0 * w, 0.5 * w], [1.0, -1.0, 1.0, 1.0, 1.0])
    found = neuron_alignment(network, data)
    np.testing.assert_allclose(found.misalignments[:3], [0.0, 2 * only.norm, 0.0], atol=1e-15)
    assert found.misalignments[4] == pytest.approx(only.norm / 2)
    assert found.opposed().tolist() == [False, True, False, False, False]
    assert found.of_kind("maximum").tolist() == [True, True, False, False, True]
    assert found.states.tolist()[2:4] == [STILL, STILL]
