"""Which code computed a result: a digest of the task's module and of everything it imports, and versions.

The digest follows the import statements of the task's module through shallowflow and every other module that
is not installed (a script and its neighbours), and hashes the files it meets. What an edit cannot reach
keeps its results: drawing, the command line, another paper's experiments. Installed packages are not read;
their versions are recorded with each run.
"""

from __future__ import annotations

import ast
import hashlib
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OWN = __name__.split(".")[0]
PACKAGES = (OWN, "numpy", "scipy", "numba")
MAIN = ("__main__", "__mp_main__")


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
    """Yield the names that a file's import statements, wherever they stand, may load."""
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
