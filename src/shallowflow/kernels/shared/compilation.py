"""How kernels compile: options of the compiler, and a line on the terminal, so that the first use does not
look as if it hung.

Numba compiles a kernel when it is first called and keeps the machine code on disk for the next process. It
calls listeners when it compiles (only then, not when it reads from disk). One listener serves all kernels.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from typing import Any

import numpy as np
from numba.core import event

MESSAGE = "shallowflow: compiling for the first use (once, up to half a minute) …"
ANNOUNCED = "SHALLOWFLOW_ANNOUNCE"
"""Environment variable that the command line sets (for its processes, too): print it on any stderr."""
PATIENCE = 0.5
"""Seconds of compiling before the message."""
RARELY = 100_000
"""New objects after which garbage is collected while kernels compile: by default it would take a fifteenth of
the time."""

# Options of functions that allocate nothing: they need not count references to arrays, and compile faster.
LEAN: Any = {"no_cfunc_wrapper": True, "_nrt": False, "error_model": "numpy"}
# The same for functions that only compiled ones call: without an entry from Python, in half the time.
INTERNAL: Any = {"no_cpython_wrapper": True, **LEAN}
# The same for sums that may be made in any order: vector registers can then make them.
SUMS: Any = {"fastmath": {"reassoc", "contract"}, **INTERNAL}
# For functions with one caller: compiled as a part of it. (From Python they can be called by themselves.)
ONCE: Any = {"inline": "always", **LEAN}
# LEAN and INTERNAL for functions that make arrays.
MAKING: Any = {"no_cfunc_wrapper": True, "error_model": "numpy"}
MAKING_WITHIN: Any = {"no_cpython_wrapper": True, **MAKING}
# To a type checker the same as an integer; to Numba one type for all indices, however they are stored.
Signed: Any = np.int64


class CompilationListener(event.Listener):
    """Logs once that our kernels compile, and prints it on a terminal or for the command line."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._said, self._depth = False, 0
        self._thresholds: tuple[int, int, int] | None = None

    def on_start(self, event: Any) -> None:
        """Note the beginning, or print the line if it was long ago (a kernel compiles what it calls, too)."""
        if self._depth == 0 and _ours(event) and 0 < gc.get_threshold()[0] < RARELY:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(RARELY, *self._thresholds[1:])
        self._depth += 1
        if self._said or not _ours(event):
            return
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since >= PATIENCE:
            self._said = True
            logging.getLogger("shallowflow").info(MESSAGE)
            if sys.stderr is not None and (sys.stderr.isatty() or ANNOUNCED in os.environ):
                print(MESSAGE, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Collect garbage as before at the end of the outermost."""
        self._depth -= 1
        if self._depth == 0 and self._thresholds is not None:
            gc.set_threshold(*self._thresholds)
            self._thresholds = None


def _ours(event: Any) -> bool:
    """Return whether a kernel of this package compiles; code made by `exec` may have no module at all."""
    return str(event.data["dispatcher"].py_func.__module__).startswith("shallowflow.")


def announce_compilation() -> None:
    """Install the listener; called once, when the first kernel is imported."""
    event.register("numba:compile", CompilationListener())  # type: ignore[no-untyped-call]
