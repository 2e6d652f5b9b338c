"""A way into kernels that only compiled functions call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function that calls an internal one and can be called from Python."""

    def call(*arguments: Any) -> Any:
        return function(*arguments)

    compiled: Callable[..., Any] = njit(cache=False)(call)
    return compiled
