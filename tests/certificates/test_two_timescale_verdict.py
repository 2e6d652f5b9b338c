"""[two_timescale] is about targets: of samples its verdict says only what to use instead."""

from __future__ import annotations

import numpy as np

import shallowflow as sf
from shallowflow.certificates import CERTIFICATES, Question
from shallowflow.certificates.two_timescale import verdict


def test_it_does_not_apply_to_samples_whatever_they_are() -> None:
    for data in (sf.Dataset([[0.1], [0.9]], [0.0, 1.0]), sf.Dataset(np.eye(3), np.zeros(3))):
        told = verdict(Question(data))
        assert (told.paper, told.applies) == ("two_timescale", None)
        assert not told.certificates
        assert not told.tables


def test_what_it_points_to_exists() -> None:
    (words,) = verdict(Question(sf.Dataset([[0.5]], [1.0]))).words
    assert "two_timescale/theorem-1" in words
    assert "two_timescale/theorem-1" in CERTIFICATES
    for name in ("PiecewiseConstant", "StepRegressor"):
        assert name in words
        assert hasattr(sf, name) or hasattr(sf.estimators, name)
