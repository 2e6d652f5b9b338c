"""Arithmetic: compiled functions, one folder (or file) per system; arrays and records in and out, no checks.

Modules here import Numba and are therefore imported lazily, inside the functions that need them.
Every kernel has a plain NumPy twin in the tests and agrees with it.
"""

from shallowflow.kernels.shared.compilation import announce_compilation

announce_compilation()
