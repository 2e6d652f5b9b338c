"""Jump processes on disk: the data, the mask and what the start adds to it, as files of plain arrays.

The jumps themselves are not kept: reading runs Algorithm 1 again on the mask, so that no file can
contradict it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shallowflow.arrays import vector
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.array_file import Arrays, FileKind, Header, check_shape
from shallowflow.dynamics.limits.jump_process import jump_process
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle
from shallowflow.errors import FileFormatError
from shallowflow.landscape.geometry.orthonormal import check_labels, check_orthonormal

NAMES = ("inputs", "targets", "mask", "signs", "shares", "corrections")
JUMP_PROCESS = FileKind(
    "shallowflow.saddle_to_saddle", 1, "jump process", lambda header: (NAMES, frozenset({"mask"}))
)


def save(limit: SaddleToSaddle, path: Path) -> None:
    """Write a jump process and its data to `path` atomically."""
    arrays: Arrays = {
        "inputs": limit.dataset.inputs,
        "targets": limit.dataset.targets,
        "mask": limit.mask.astype(np.int64),
        "signs": limit.signs,
        "shares": limit.shares,
        "corrections": limit.corrections,
    }
    JUMP_PROCESS.write(path, {"name": limit.dataset.name}, arrays)


def load(path: Path) -> SaddleToSaddle:
    """Read a jump process; raise `FileFormatError` unless the whole file is sound."""
    return JUMP_PROCESS.read(path, _assemble)


def _assemble(header: Header, arrays: Arrays) -> SaddleToSaddle:
    dataset = Dataset(arrays["inputs"], arrays["targets"], name=str(header["name"]))
    check_orthonormal(dataset, "a jump process")
    check_labels(dataset)
    signs = vector(arrays["signs"], "signs")
    check_shape("mask", arrays["mask"], (dataset.size, len(signs)))
    mask = arrays["mask"].astype(np.bool_)
    # A mask is one where neuron and label agree in sign, at most: only zeros and ones, signs of length one.
    if np.any(arrays["mask"] != mask) or np.any(mask & (np.outer(dataset.targets, signs) <= 0)):
        raise FileFormatError("mask holds more than the points whose label has the neuron's sign")
    if np.any(np.abs(signs) != 1):
        raise FileFormatError("signs holds other numbers than −1 and 1")
    process = jump_process(mask, dataset.targets)
    shares, corrections = vector(arrays["shares"], "shares"), arrays["corrections"]
    check_shape("shares", shares, signs.shape)
    check_shape("corrections", corrections, process.jump_times.shape)
    if np.any(shares < 0) or np.any(shares > 1) or not np.isfinite(corrections).all():
        raise FileFormatError("shares must lie in [0, 1] and corrections be finite")
    return SaddleToSaddle(process, dataset, signs, mask, shares, corrections)
