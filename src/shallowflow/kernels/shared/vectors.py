"""What the kernels of several systems compute with: vector registers by name, aligned arrays, two losses.

**Registers.** Left to itself LLVM takes registers of half the width here, and does not keep a tile of sums in
them. In its own language both can be said; on a machine with narrower registers the same text makes narrower
code.

**Losses** of the descents of a `ReLUNetwork`, and the record of a problem. All arrays of a problem have one
type, float64 or float32; the constants come in an array of that type, because an integer or double constant
would promote the arithmetic. Samples of zeros that pad a block have the target 0: they count for nothing,
whatever the loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.registry import cpu_target

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

_MACHINE, _, _FEATURES = cpu_target.target_context.codegen().magic_tuple()
_WIDE = "+avx512f" in _FEATURES.split(",")
BYTES = 64 if _WIDE else 32 if "+avx" in _FEATURES.split(",") else 16
"""Bytes of a register of the machine that Numba compiles for."""
REGISTERS = 32 if _WIDE or _MACHINE.startswith(("aarch64", "arm64")) else 16


@njit(cache=True)
def aligned(count: int, like: Floats) -> Floats:
    """Return `count` zeros typed as `like`, the first at a multiple of BYTES: no load straddles two lines."""
    space = np.zeros(count + BYTES, like.dtype)
    first = -space.ctypes.data % BYTES // space.itemsize
    return space[first : first + count]


class Lanes:
    """Instructions on registers full of one type, float32 or float64, put where `builder` stands.

    count: how many numbers a vector has, by default those that fill a register.
    """

    def __init__(self, context: Any, builder: Any, element: Any, count: int | None = None) -> None:
        single = element == types.float32
        self._context, self._builder = context, builder
        self._bytes = 4 if single else 8
        self.count = count or BYTES // self._bytes
        self.type = ir.VectorType(ir.FloatType() if single else ir.DoubleType(), self.count)
        self._product = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(self.type, [self.type] * 3),
            f"llvm.fmuladd.v{self.count}f{8 * self._bytes}",
        )

    def views(self, signature: Any, arguments: Any) -> list[Any]:
        """Return the fields (`data`, `shape`, `strides`) of the arrays among the arguments; else None."""
        return [
            self._context.make_array(kind)(self._context, self._builder, value)
            if isinstance(kind, types.Array)
            else None
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

    def length(self, view: Any) -> Any:
        """Return the length of an array's first axis."""
        return self._builder.extract_value(view.shape, 0)

    def variable(self, value: Any) -> Any:
        """Return a variable that holds a register."""
        return cgutils.alloca_once_value(self._builder, value)  # type: ignore[no-untyped-call]

    def zeros(self) -> Any:
        """Return a register of zeros."""
        return ir.Constant(self.type, [0.0] * self.count)

    def places(self, registers: int) -> range:
        """Return where the registers of a row begin; `stop` is the length of the row."""
        return range(0, registers * self.count, self.count)

    def at(self, start: Any, index: Any, items: int = 1) -> Any:
        """Return the pointer index·items items behind `start`."""
        if not isinstance(index, ir.Value):
            index = ir.IntType(64)(index)
        return self._builder.gep(start, [self._builder.mul(index, index.type(items))])

    def load(self, start: Any, offset: Any = 0, kind: Any = None) -> Any:
        """Return the register (or `kind`) that lies `offset` items behind `start`."""
        place = self._builder.bitcast(self.at(start, offset), (kind or self.type).as_pointer())
        return self._builder.load(place, align=self._bytes)

    def store(self, value: Any, start: Any, offset: Any = 0) -> None:
        """Write a register `offset` items behind `start`."""
        place = self._builder.bitcast(self.at(start, offset), value.type.as_pointer())
        self._builder.store(value, place, align=self._bytes)

    def spread(self, number: Any) -> Any:
        """Return a register full of one number."""
        empty = ir.Constant(self.type, ir.Undefined)
        first = self._builder.insert_element(empty, number, ir.IntType(32)(0))
        return self._shuffle(first, first, [0] * self.count)

    def multiply_add(self, left: Any, right: Any, summand: Any) -> Any:
        """Return left·right + summand."""
        return self._builder.call(self._product, [left, right, summand])

    def gated(self, sign: Any, value: Any, slope: Any) -> Any:
        """Return value where sign > 0, slope·value elsewhere."""
        positive = self._builder.fcmp_ordered(">", sign, self.zeros())
        return self._builder.select(positive, value, self._builder.fmul(slope, value))

    def totals(self, registers: list[Any]) -> Any:
        """Return the sum over each of 2, 4, … `count` registers, in one vector: neighbours add in pairs."""
        wanted = len(registers)
        while len(registers) > 1:
            halves = zip(registers[::2], registers[1::2], strict=True)
            registers = [self._pairs(left, right, self.count) for left, right in halves]
        total = registers[0]
        while total.type.count > wanted:
            total = self._pairs(total, total, total.type.count // 2)
        return total

    def _pairs(self, left: Any, right: Any, length: int) -> Any:
        """Return the first `length` sums of neighbours, in `left` and then in `right`."""
        even, odd = (self._shuffle(left, right, list(range(first, 2 * length, 2))) for first in (0, 1))
        return self._builder.fadd(even, odd)

    def _shuffle(self, left: Any, right: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
        return self._builder.shuffle_vector(left, right, mask)


def aligned_copy(values: Floats) -> Floats:
    """Return a copy that begins at a cache line: no vector of it straddles two."""
    space = np.empty(values.size + 8)
    first = -space.ctypes.data % 64 // 8
    copy = space[first : first + values.size].reshape(values.shape)
    copy[...] = values
    return copy


@njit(cache=True, **INTERNAL)
def sort_order(values: Floats, order: Ints) -> None:
    """Make `order` (n,) sort the values (n,), in place; fast if it nearly does."""
    for p in range(1, order.size):
        moving = order[p]
        q = p
        while q > 0 and values[order[q - 1]] > values[moving]:
            order[q] = order[q - 1]
            q -= 1
        order[q] = moving


SQUARE, LOGISTIC = 0, 1
"""The losses ½ Σ (h_i − y_i)² and Σ ln(1 + exp(−h_i y_i))."""
ZERO, SLOPE, ONE, SCALE, INNER_RATE, OUTER_RATE = range(6)
"""Places in the constants: the leaky slope, the output factor s, and ρ = step·s·(1/n or 1) of both layers."""


class Problem(NamedTuple):
    """Inputs and targets as the kernel reads them, constants by their places, `SQUARE` or `LOGISTIC`."""

    inputs: Floats
    targets: Floats
    constants: Floats
    loss: int


@njit(cache=True, **LEAN)
def settle(outputs: Floats, targets: Floats, scale: float, loss: int) -> float:
    """Replace the outputs Σ_j a_j σ(z_ji) = h_i/scale by r_i = −∂L/∂h_i, in place; return the loss."""
    total = 0.0
    for i in range(len(targets)):
        target, prediction = targets[i], scale * outputs[i]
        if loss == SQUARE:
            outputs[i] = target - prediction
            total += 0.5 * outputs[i] * outputs[i]
        elif target != 0:
            # With e^{−|yh|} nothing overflows.
            margin = prediction * target
            small = np.exp(-abs(margin))
            outputs[i] = target * (small if margin > 0 else 1.0) / (1.0 + small)
            total += max(-margin, 0.0) + np.log1p(small)
    return total
