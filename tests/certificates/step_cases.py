"""Targets and starts for the certificates of the two-timescale paper."""

from __future__ import annotations

import numpy as np

import shallowflow as sf
from shallowflow.models.networks import StepNetwork

TARGET = sf.PiecewiseConstant([0.2, 0.35, 0.5, 0.65, 0.8], [1.0, 4.0, 1.0, 2.0, 1.0, 4.0])
ONE = sf.PiecewiseConstant([0.5], [0.0, 1.0])


def evenly(width: int, sharpness: float) -> StepNetwork:
    """Return positions that are far from each other and not symmetric about ½."""
    u = (np.arange(width) + 0.3) / width
    return StepNetwork(u, np.zeros(width), 0.0, sharpness)
