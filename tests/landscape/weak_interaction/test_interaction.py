"""ν and Assumption 2 against plain linear algebra; Lemma 3's number against random data."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import gaussian_dimension, interaction


@pytest.mark.parametrize(("size", "dimension"), [(1, 3), (30, 7), (900, 40)])
def test_the_norm_is_that_of_the_gram_matrix_off_its_diagonal(size: int, dimension: int) -> None:
    """Below and above the size from which Lanczos is used."""
    dataset = sphere(size, dimension, seed=2)
    gram = dataset.inputs @ dataset.inputs.T
    np.fill_diagonal(gram, 0.0)
    found = interaction(dataset)
    assert found.norm == pytest.approx(np.linalg.norm(gram, 2), rel=1e-7)
    lengths, labels = np.linalg.norm(dataset.inputs, axis=1), np.abs(dataset.targets)
    expected = lengths.min() ** 2 * labels.min() / np.sqrt(size) / labels.max()
    assert found.bound == pytest.approx(expected)
    assert found.margin == pytest.approx(expected - found.norm)
    assert found.holds == (found.norm < expected)


def test_antipodal_inputs_do_not_interact() -> None:
    """2d points in dimension d: a basis and its antipodes, of other lengths."""
    rows = np.array(orthogonal(6, 6, seed=1).inputs)
    dataset = sf.Dataset(np.concatenate([rows, -1.3 * rows]), np.linspace(1.0, 2.0, 12))
    assert not interaction(dataset).holds
    found = interaction(dataset, antipodal=True)
    assert found.pairs == 6
    assert found.norm < 1e-12
    assert found.holds


def test_antipodal_pairs_are_left_out_of_large_problems_too() -> None:
    small = sphere(430, 30, seed=3)
    dataset = sf.Dataset(np.concatenate([small.inputs, -small.inputs]), np.tile(small.targets, 2))
    gram = dataset.inputs @ dataset.inputs.T
    np.fill_diagonal(gram, 0.0)
    for i in range(430):
        gram[i, i + 430] = gram[i + 430, i] = 0.0
    found = interaction(dataset, antipodal=True)
    assert found.pairs == 430
    assert found.norm == pytest.approx(np.linalg.norm(gram, 2), rel=1e-7)


def test_a_zero_label_leaves_no_room() -> None:
    found = interaction(sf.Dataset(np.eye(3), [1.0, 0.0, 2.0]))
    assert not found.holds
    assert found.share == np.inf


def test_gaussian_data_of_the_stated_dimension_satisfy_the_assumption() -> None:
    """The bound is for 95 %; with d a hundredth of it the assumption fails."""
    size, ratio = 12, 1.5
    dimension = gaussian_dimension(size, ratio, 0.05)
    labels = np.linspace(1.0, ratio, size)
    rng = np.random.default_rng(0)

    def share(d: int) -> float:
        draws = [sf.Dataset(rng.standard_normal((size, d)) / np.sqrt(d), labels) for _ in range(20)]
        return float(np.mean([interaction(draw).holds for draw in draws]))

    assert share(dimension) >= 0.95
    assert share(dimension // 100) <= 0.05
    assert 3.8 < gaussian_dimension(4000) / gaussian_dimension(2000) < 4.0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidInputError, match="label_ratio"):
        gaussian_dimension(5, 0.5)
    with pytest.raises(InvalidInputError, match="epsilon"):
        gaussian_dimension(5, 1.0, 1.5)


@pytest.mark.parametrize("ratio", [1e3, 1e8, 1e16, 1e40, 1e300])
def test_labels_of_any_size_have_a_dimension(ratio: float) -> None:
    """√(1 + u) − 1 is u/2 to first order: the dimension is that with 50 digits, however small u is."""
    with localcontext() as context:
        context.prec = 700
        allowed = 1 / (1 + 2 * Decimal(10).sqrt() * Decimal(ratio))
        reach = Decimal(10).sqrt() + (2 * (2 / Decimal("0.05")).ln()).sqrt()
        expected = (reach / ((1 + allowed).sqrt() - 1)) ** 2
    assert float(gaussian_dimension(10, ratio) / int(expected)) == pytest.approx(1.0, rel=1e-9)


def test_labels_that_differ_beyond_a_float_have_no_ratio() -> None:
    assert interaction(sf.Dataset(np.eye(2), [1e-310, 1.0])).label_ratio == np.inf
    assert interaction(sf.Dataset(np.eye(2), [0.0, 0.0])).label_ratio == np.inf
    assert interaction(sf.Dataset(np.eye(2), [-0.5, 2.0])).label_ratio == 4.0


def test_inputs_at_a_tiny_angle_are_not_antipodal() -> None:
    """An angle of 10⁻⁷ is far above rounding, though its cosine differs from −1 by 5·10⁻¹⁵ only."""
    for angle, pairs in ((1e-3, 0), (1e-6, 0), (1e-7, 0), (1e-12, 0), (0.0, 1)):
        turned = [-np.cos(angle), -np.sin(angle)]
        found = interaction(sf.Dataset([[1.0, 0.0], turned], [1.0, 1.0]), antipodal=True)
        assert found.pairs == pairs
        assert found.norm == pytest.approx(0.0 if pairs else 1.0, abs=1e-5)


def test_antipodes_of_any_length_are_found() -> None:
    rows = np.random.default_rng(4).standard_normal((40, 300))
    lengths = np.linspace(0.01, 37.0, 40)[:, None]
    dataset = sf.Dataset(np.concatenate([rows, -lengths * rows]), np.ones(80))
    assert interaction(dataset, antipodal=True).pairs == 40
