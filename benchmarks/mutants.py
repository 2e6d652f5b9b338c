"""How many small mistakes do the tests find? Mutants of the modules that everything else trusts, one by one.

A mutant is the source with one place changed: a comparison swapped or moved by its boundary, + for −, a
constant off by one, `and` for `or`, a `not` dropped, None returned, a raise removed. It is killed when the
tests of its module fail; tests that take too long are no kill and are counted apart. A seeded sample per
module; sources and tests are copied first, and only the copy is changed.
`python -m benchmarks.mutants arrays 60`: sixty of one module; without a name all.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CLOCK = "tests/dynamics/clock/test_"
TESTS = {
    "arrays": "tests/test_arrays.py tests/test_border_functions.py",
    "files": "tests/test_files.py",
    "studies/store": "tests/studies/test_store.py",
    "experiments/experiment": "tests/experiments/test_claim.py tests/commands/test_recall.py",
    "dynamics/clock/codec": f"{CLOCK}codec.py {CLOCK}array_file.py",
    "dynamics/clock/loop": f"{CLOCK}loop.py {CLOCK}outcomes.py {CLOCK}record.py {CLOCK}recorder.py",
    "dynamics/clock/paths": f"{CLOCK}paths.py {CLOCK}replayed.py {CLOCK}wall_path.py {CLOCK}group_path.py",
    "dynamics/clock/problem": f"{CLOCK}record.py {CLOCK}loop.py {CLOCK}setting.py",
    "dynamics/clock/protocol": f"{CLOCK}loop.py {CLOCK}paths.py {CLOCK}codec.py {CLOCK}trajectory.py",
    "dynamics/clock/trajectory": f"{CLOCK}trajectory.py {CLOCK}setting.py {CLOCK}outcomes.py",
}
"""The tests that answer for a module, the quickest first."""
SAMPLE, CLOCK_SAMPLE, SEED = 40, 20, 30
"""Mutants of a module, and of each of the clock's."""
FIRST, LEAST, TIMES = 900.0, 20.0, 4.0
"""Seconds of patience with the tests of a module that is not changed, which may compile; then, with each
mutant, this many seconds and this many times what they took when everything was compiled."""
SWAPS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


class Mutant(NamedTuple):
    """One change: the bytes from start to end of the source become `text`."""

    line: int
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Say what is changed, in one line."""
        before = " ".join(source[self.start : self.end].decode().split())
        return f"{self.line}: {before[:90]}  ->  {self.text[:90]}"


def changes(node: ast.AST) -> Iterator[str]:
    """Yield what may stand in the place of a node."""
    match node:
        case ast.Compare(left, ops, comparators):
            for k, op in enumerate(ops):
                for other in SWAPS[type(op)]:
                    changed: list[ast.cmpop] = [*ops[:k], other(), *ops[k + 1 :]]
                    yield f"({ast.unparse(ast.Compare(left, changed, comparators))})"
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            other_sign = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
            yield f"({ast.unparse(ast.BinOp(left, other_sign, right))})"
        case ast.BoolOp(op, values):
            yield f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))})"
        case ast.Constant(bool() as value):
            yield repr(not value)
        case ast.Constant(int() | float() as value):
            yield repr(value + 1)
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"
        case ast.Raise():
            yield "pass"


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node in which a change has a meaning: no annotations, decorators or f-strings."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child


def mutants(source: bytes) -> list[Mutant]:
    """Return every mutant of a source."""
    starts, found, stack = [0], list[Mutant](), list[ast.AST]([ast.parse(source)])
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    while stack:
        node = stack.pop()
        stack.extend(children(node))
        for text in changes(node):
            assert isinstance(node, ast.expr | ast.stmt)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            found.append(Mutant(node.lineno, start, end, text))
    return sorted(found)


def outcome(folder: Path, tests: str, patience: float) -> str:
    """Return whether the tests of that copy of the project "pass", "fail", or are "late"."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, "--no-header", *tests.split()],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return "late"
    return "fail" if done.returncode else "pass"


def tried(folder: Path, name: str, sample: int) -> Counter[str]:
    """Return how the tests of a module end with its mutants, one by one; print those that live."""
    path = folder / "src" / "shallowflow" / f"{name}.py"
    source, ends = path.read_bytes(), Counter[str]()
    for _ in range(2):
        begun = time.monotonic()
        if (first := outcome(folder, TESTS[name], FIRST)) != "pass":
            raise SystemExit(f"{name}: its tests {first} without a mutant (patience: {FIRST:g} s)")
    patience = LEAST + TIMES * (time.monotonic() - begun)
    every = mutants(source)
    for mutant in sorted(random.Random(f"{SEED} {name}").sample(every, min(sample, len(every)))):
        path.write_bytes(mutant.applied(source))
        end = outcome(folder, TESTS[name], patience)
        ends[end] += 1
        if end != "fail":
            print(f"    {end} {name} {mutant.shown(source)}", flush=True)
    path.write_bytes(source)
    return ends


def main(names: list[str] | None = None, sample: int | None = None) -> None:
    """Print of each module how many mutants its tests kill, and those that live."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, folder / part)
        shutil.copy2(ROOT / "pyproject.toml", folder)
        for module in names or TESTS:
            size = sample or (CLOCK_SAMPLE if "clock" in module else SAMPLE)
            ends = tried(folder, module, size)
            words = f"{ends['fail']:4d} killed, {ends['late']:4d} too slow, {ends['pass']:4d} survived"
            print(f"{module:28s} {ends.total():4d} mutants: {words}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    wanted = [word for word in words if not word.isdigit()]
    main(wanted, next((int(word) for word in words if word.isdigit()), None))
