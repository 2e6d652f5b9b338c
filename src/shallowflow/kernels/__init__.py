"""Arithmetic: compiled functions, arrays in and arrays out, no classes and no checks.

Modules here import Numba and are therefore imported lazily, inside the functions that need them.
Every kernel has a plain NumPy twin in the tests and agrees with it.
"""

from shallowflow.kernels.compilation import announce_compilation

announce_compilation()
