"""Ask the processor to bring an entry of an array into its first cache before it is needed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

READ, KEEP, DATA = 0, 3, 1


def _lowered(typing_context: Any, array: Any, index: Any) -> Any:
    """Return signature and code generator; any index will do, as nothing is read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), byte)
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0i8"
        )
        builder.call(function, [address, word(READ), word(KEEP), word(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Any = intrinsic(_lowered)
"""prefetch(array, index) for one dimension, in a kernel."""
