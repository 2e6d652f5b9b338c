"""`Study`: a task, parameters, repeats and a root seed. `Run`: one of its runs. `Result`: what came out.

A run's random stream and its identity are functions of what it is, not of when or where it is computed:

    key(run)  = SHA-256 of (task, parameters, repeat)
    seed(run) = SeedSequence(entropy = root seed, spawn_key = key(run))
    identity  = SHA-256 of (task, parameters, repeat, root seed, version of the code)

A study's results are a list, or a table in CSV or Parquet. Columns: identity, repeat, status,
`parameters.NAME`…, `metrics.NAME`…, seconds, cpu_seconds, started, worker, attempts, error. A parameter that
is no number and no text is its JSON text.

**The version of the code** is a digest of the task's module and of everything it imports. It follows
the import statements of the task's module through shallowflow and every other module that is not installed (a
script and its neighbours), and hashes the files it meets. A text "module:name" is one too, if it names a
module of the file's own package: a table of engines. What an edit cannot reach keeps its results: drawing,
the command line, another paper's experiments. Installed packages are not read; their versions are recorded
with each run.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import itertools
import json
import math
import platform
import re
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import count, shown
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.files import write_atomically

OWN = __name__.split(".")[0]
PACKAGES = (OWN, "numpy", "scipy", "numba")
MAIN = ("__main__", "__mp_main__")
PLACE = re.compile(r"\w+(\.\w+)*:\w+")


def task_name(function: Callable[..., Any]) -> str:
    """Return the name of a module-level function: "module:function"."""
    module = MAIN[0] if function.__module__ in MAIN else function.__module__
    return f"{module}:{function.__qualname__}"


def code_version(function: Callable[..., Any]) -> str:
    """Return the version of shallowflow and a digest of the code behind a module-level function."""
    return _code_version(function.__module__)


@cache
def version(package: str) -> str:
    """Return the version of an installed package; "unknown" for a source tree that is not installed."""
    from importlib import metadata  # slow to import

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


@cache
def _code_version(module: str) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(_sources(module).items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{version(OWN)}+{digest.hexdigest()[:16]}"


def _sources(module: str) -> dict[str, bytes]:
    """Return the files of a module and of the modules it imports, directly or not, by module name."""
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = None if name in found else _file(name)
        if path is None:
            continue
        found[name] = path.read_bytes()
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        waiting += _imported(found[name], package)
    return found


def _imported(content: bytes, package: str) -> Iterator[str]:
    """Yield the names that a file's import statements and tables, wherever they stand, may load."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        # A program need not be a text: what started this process may be anything.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PLACE.fullmatch(node.value):
            yield f"{package}.{node.value.partition(':')[0]}"


def _file(module: str) -> Path | None:
    """Return the file of a module that is ours or not installed; nothing is imported to find it."""
    if module in MAIN:
        file = getattr(sys.modules.get(module), "__file__", None)
        return Path(file) if file and Path(file).is_file() else None
    top, *rest = module.split(".")
    root = _top(top)
    if root is None or not rest:
        return root if root is not None and root.is_file() else None
    if root.name != "__init__.py":
        return None
    stem = root.parent.joinpath(*rest)
    return next((p for p in (stem.with_suffix(".py"), stem / "__init__.py") if p.is_file()), None)


@cache
def _top(name: str) -> Path | None:
    """Return the file of a top-level module, unless it belongs to Python or to an installed package."""
    if name in sys.builtin_module_names or name in sys.stdlib_module_names:
        return None
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.origin is None or not spec.origin.endswith(".py"):
        # A folder without __init__.py is a package too; it has no file of its own but may have modules.
        places = list(spec.submodule_search_locations or [])
        return Path(places[0]) / "__init__.py" if places and not _installed(Path(places[0])) else None
    file = Path(spec.origin)
    return None if name != OWN and _installed(file) else file


def _installed(file: Path) -> bool:
    paths = {
        Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    return any(path in file.resolve().parents for path in paths)


Outputs = Mapping[str, float | NDArray[Any]]
Task = Callable[..., Outputs]
"""task(parameters, seed) → {name: number or array}: a function at the top of a module."""
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]

SEED_WORDS = 4


@dataclass(frozen=True)
class Run:
    """One run of a task: its parameters, which repeat it is, the root seed, the version of its code.

    `subject` is the function whose code is the run's version: the task, unless the study says otherwise.
    """

    task: Task
    parameters: Mapping[str, Any]
    repeat: int
    root_seed: int
    code: str
    subject: Callable[..., Any]

    @property
    def seed(self) -> np.random.SeedSequence:
        """The run's own random stream, new at each call: a sequence remembers what was spawned from it."""
        digest = hashlib.sha256(_text(self._key).encode()).digest()
        words = np.frombuffer(digest, dtype="<u4")[:SEED_WORDS]
        return np.random.SeedSequence(self.root_seed, spawn_key=tuple(int(word) for word in words))

    @cached_property
    def identity(self) -> str:
        """A hash of what determines the run's result, 32 hexadecimal digits."""
        return hashlib.sha256(_text([*self._key, self.root_seed, self.code]).encode()).hexdigest()[:32]

    @property
    def task_name(self) -> str:
        """The task as "module:function"."""
        return task_name(self.task)

    @property
    def _key(self) -> list[Any]:
        return [self.task_name, self.parameters, self.repeat]


@dataclass(frozen=True)
class Study:
    """A task, a grid of parameters, repeats and a root seed.

    `grid` is a mapping {name: values}, of which every combination runs, or a sequence of points
    {name: value}. Parameters are numbers, texts, None, and sequences and mappings of them. `repeats` runs are
    made at every point, each with a random stream of its own. `subject`: see `Run`.
    """

    name: str
    task: Task
    grid: Grid
    repeats: int = 1
    root_seed: int = 0
    subject: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInputError(f"name: must be a text that is not empty, got {shown(self.name)}")
        for name, function in (
            ("task", self.task),
            ("subject", self.task if self.subject is None else self.subject),
        ):
            if not callable(function) or not getattr(function, "__qualname__", "<").isidentifier():
                raise InvalidInputError(
                    f"{name}: must be a function at the top of a module, got {shown(function)}"
                )
        count(self.repeats, "repeats")
        count(self.root_seed, "root_seed", at_least=0, at_most=2**128)
        self.points  # noqa: B018 (checked now, not when the study runs)

    @cached_property
    def points(self) -> tuple[Mapping[str, Any], ...]:
        """The parameters of every point, in order, without duplicates."""
        if isinstance(self.grid, Mapping):
            axes = {name: _axis(values, name) for name, values in self.grid.items()}
            points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        elif not hasattr(self.grid, "__iter__"):
            raise InvalidInputError(
                f"grid: must be {{name: values}} or a sequence of {{name: value}}, got {shown(self.grid)}"
            )
        else:
            points = [dict(point) if isinstance(point, Mapping) else point for point in self.grid]
        plain = [plain_parameters(point, "grid") for point in points]
        if not plain or not all(isinstance(point, dict) for point in plain):
            raise InvalidInputError(
                f"grid: must be parameters {{name: value}}, at least one; got {shown(self.grid)}"
            )
        return tuple({_text(point): point for point in plain}.values())

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs: point after point, repeat after repeat."""
        subject = self.subject or self.task
        code = code_version(subject)
        return tuple(
            Run(self.task, point, repeat, self.root_seed, code, subject)
            for point in self.points
            for repeat in range(self.repeats)
        )


def _axis(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidInputError(f"grid: {name} must have a sequence of values, got {shown(values)}")
    return list(values)


def plain_parameters(value: Any, name: str) -> Any:
    """Return `value` as plain Python: what the task sees is exactly what is hashed and written down."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidInputError(f"{name}: names must be texts, got {shown(value)}")
        return {key: plain_parameters(entry, f"{name}: {key}") for key, entry in value.items()}
    if isinstance(value, list | tuple | range):
        return tuple(plain_parameters(entry, name) for entry in value)
    raise InvalidInputError(
        f"{name}: must be a number, a text, None, or a sequence or mapping of them, got {shown(value)}"
    )


def _text(value: Any) -> str:
    """Return one text for equal values: JSON with sorted names."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


class StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of one run, read from its file when they are asked for.

    Members are uncompressed and have the bytes that their header says, or they are refused: reading takes no
    more memory than the file has bytes, whoever wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> NDArray[Any]:
        with self._archive() as archive:
            if f"{name}.npy" not in archive.namelist():
                raise KeyError(name)
            member = archive.getinfo(f"{name}.npy")
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > self.path.stat().st_size:
                raise FileFormatError(f"{self.path}: is not a sound file of arrays: {name} is compressed")
            return _array(archive.read(member), name)

    def __iter__(self) -> Iterator[str]:
        with self._archive() as archive:
            return iter([name.removesuffix(".npy") for name in archive.namelist()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise FileFormatError(f"{self.path}: is not a sound file of arrays: {error}") from error


def _array(content: bytes, name: str) -> NDArray[Any]:
    """Return the array in the bytes of an .npy file, if they are as many as its header says."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(stream)
    left = len(content) - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != left:
        raise ValueError(f"{name} has {left} bytes instead of shape {shape} of {dtype}")
    array = np.frombuffer(content, dtype, offset=stream.tell()).copy()
    return array.reshape(shape, order="F" if fortran_order else "C")


@dataclass(frozen=True)
class Result:
    """One run: parameters, repeat, status (planned, done, failed or damaged), metrics, arrays, timings."""

    identity: str
    parameters: Mapping[str, Any]
    repeat: int
    status: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    error: str = ""
    started: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    worker: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 0

    @property
    def done(self) -> bool:
        """Whether the run has a result."""
        return self.status == "done"


FIRST = ("identity", "repeat", "status")
LAST = ("seconds", "cpu_seconds", "started", "worker", "attempts", "error")


def table(results: Sequence[Result]) -> dict[str, list[Any]]:
    """Return the columns of the table; None where a run has no such value."""
    columns: dict[str, list[Any]] = {name: [getattr(r, name) for r in results] for name in FIRST}
    for name in dict.fromkeys(name for result in results for name in result.parameters):
        columns[f"parameters.{name}"] = [_cell(result.parameters.get(name)) for result in results]
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        columns[f"metrics.{name}"] = [result.metrics.get(name) for result in results]
    return columns | {name: [getattr(r, name) for r in results] for name in LAST}


def write_table(results: Sequence[Result], path: Path) -> None:
    """Write the table as CSV or Parquet, by the ending of the file's name, whole or not at all."""
    WRITERS[path.suffix.lower()](table(results), path)


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # repr of a float is the shortest text that reads back as the same number.
    writer.writerows(zip(*columns.values(), strict=True))
    write_atomically(path, text.getvalue().encode())


def _write_parquet(columns: dict[str, list[Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InvalidInputError(
            "path: Parquet needs pyarrow; pip install 'shallowflow[parquet]', or name a .csv file"
        ) from error
    arrow = pyarrow.table({name: _alike(values) for name, values in columns.items()})
    write_atomically(path, lambda file: parquet.write_table(arrow, file))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _alike(values: list[Any]) -> list[Any]:
    """Return a column of one type, as Parquet needs it: numbers as they are, mixtures as texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 or kinds == {int, float}:
        return [float(v) if kinds == {int, float} and v is not None else v for v in values]
    return [None if value is None else str(value) for value in values]


WRITERS: dict[str, Callable[[dict[str, list[Any]], Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
