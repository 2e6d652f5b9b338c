"""The architecture, checked by machine: layers, lazy imports, file sizes, names, no machine's paths."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "shallowflow"
MODULES = sorted(PACKAGE.rglob("*.py"))
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = {contract["id"]: contract for contract in CONFIGURATION["tool"]["importlinter"]["contracts"]}

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

FORBIDDEN = {
    "layers": ("models/loss.py", "import shallowflow.dynamics.flow"),
    "certificates": ("certificates/__init__.py", "import shallowflow.dynamics.descent"),
    "numba": ("data/dataset.py", "import numba"),
    "scikit-learn": ("landscape/geometry/least_squares.py", "import sklearn"),
    "drawing": ("experiments/figure.py", "import matplotlib"),
    "dask": ("experiments/figure.py", "import distributed"),
}
"""For every contract one import that breaks it: (file, line)."""

HEAVY = (
    *("torch", "dask", "distributed", "plotly", "matplotlib"),
    *("sklearn", "numba", "xarray", "scipy.integrate"),
)
MAX_LINES = 400
NOT_OURS = {".git", ".coverage"}
"""Files that tools write: Git in a second work tree, `make coverage`."""
EMPTY_NAMES = {"utils", "misc", "common", "helpers"}


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contract of `directory`/pyproject.toml on the package in `directory`/src."""
    environment = {**os.environ, "PYTHONPATH": str(directory / "src"), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package and its configuration that a test may spoil."""
    shutil.copytree(PACKAGE, tmp_path / "src" / "shallowflow", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_import_contract_holds() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_every_contract_has_a_counterexample() -> None:
    assert set(FORBIDDEN) == set(CONTRACTS)


@pytest.mark.parametrize("contract", FORBIDDEN)
def test_a_forbidden_import_breaks_its_contract(contract: str, copied: Path) -> None:
    file, line = FORBIDDEN[contract]
    module = copied / "src" / "shallowflow" / file
    module.write_text(module.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    result = lint_imports(copied)
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(re.escape(CONTRACTS[contract]["name"]) + r"\s+BROKEN", result.stdout), result.stdout


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, shallowflow; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_small_and_their_names_say_something(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{module.name} has {lines} lines"
    assert EMPTY_NAMES.isdisjoint(module.relative_to(PACKAGE).with_suffix("").parts)


def imported(module: Path) -> set[str]:
    """Return the top-level packages that a module imports, anywhere in it but for type checkers alone."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for block in ast.walk(tree):
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            block.body = []
    nodes = list(ast.walk(tree))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


def test_every_package_that_is_imported_is_declared() -> None:
    project = CONFIGURATION["project"]
    extras = project["optional-dependencies"]
    declared = {
        re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0].lower()
        for line in [*project["dependencies"], *extras["dask"], *extras["parquet"]]
    }
    foreign = set().union(*map(imported, MODULES)) - set(sys.stdlib_module_names) - {"shallowflow"}
    assert {"numpy", "PIL"} <= foreign
    providers = packages_distributions()
    missing = [
        name
        for name in sorted(foreign)
        if declared.isdisjoint(found.lower() for found in providers.get(name, [name]))
    ]
    assert missing == []


def test_the_package_tells_type_checkers_that_it_is_typed() -> None:
    assert "Typing :: Typed" in CONFIGURATION["project"]["classifiers"]
    assert (PACKAGE / "py.typed").is_file()


def text_files() -> list[Path]:
    """Every text file of the project that belongs to the repository."""
    folders = [
        ROOT / name for name in ("src", "tests", "docs", "benchmarks", ".ci") if (ROOT / name).is_dir()
    ]
    inside = [path for folder in folders for path in folder.rglob("*") if "_build" not in path.parts]
    suffixes = {".py", ".md", ".toml", ".bib", ".txt", ".csv", ".json", ".html", ".yml", ""}
    files = (p for p in (*ROOT.glob("*"), *inside) if p.is_file() and p.suffix in suffixes)
    return sorted(p for p in files if p.name not in NOT_OURS)


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    # The group keeps this file from matching itself.
    machine = re.compile(r"/(?:home|root|work|tmp|Users|var|opt|mnt)/|\b[A-Z]:\\")
    files = text_files()
    assert Path(__file__) in files
    assert ROOT / "README.md" in files
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if machine.search(line)
    ]
    assert found == []


def test_the_hooks_run_the_quick_checks_and_fetch_nothing() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"repo: (.*)", hooks) == ["local"]
    assert set(re.findall(r"language: (.*)", hooks)) == {"system"}
    entries = [entry.split(" --force-exclude")[0] for entry in re.findall(r"entry: (.*)", hooks)]
    targets = re.findall(r"^(?:lint|types|contract): venv\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    checks = [line.strip() for lines in targets for line in lines.splitlines()]
    assert entries == [check.replace("$(BIN)", ".venv/bin").removesuffix(" .") for check in checks]
