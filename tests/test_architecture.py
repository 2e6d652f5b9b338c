"""The house rules, checked by machine: layers, lazy imports, sizes, names, words, no machine's paths."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

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
    "systems": ("kernels/knots/descent.py", "import shallowflow.kernels.cones.descent"),
    "readings": ("readings/stages.py", "import shallowflow.dynamics.flow"),
    "numba": ("data/dataset.py", "import numba"),
    "scikit-learn": ("landscape/geometry/floors.py", "import sklearn"),
    "drawing": ("experiments/figure.py", "import matplotlib"),
    "dask": ("experiments/figure.py", "import distributed"),
    "torch": ("experiments/figure.py", "import torch"),
}
"""For every contract one import that breaks it: (file, line)."""

HEAVY = (
    *("torch", "dask", "distributed", "plotly", "matplotlib"),
    *("sklearn", "numba", "xarray", "scipy.integrate"),
)
MAX_LINES = 600
MAX_MODULES, MAX_CODE_LINES, MAX_PARAMETERS = 15, 60, 8
"""Of a folder, of a function (docstring, comments and blank lines not counted), and of a function."""
CONTRACTED = (
    *("dynamics/flow.py: population_flow", "dynamics/descent.py: gradient_descent"),
    *(
        "dynamics/descent.py: stochastic_descent",
        "dynamics/flow.py: gradient_flow",
        "dynamics/baselines.py: adam",
    ),
    *("estimators/anls.py: ANLSRegressor.__init__", "estimators/trained.py: StepRegressor.__init__"),
    "certificates/alignment_phase.py: theorem_1",
    "experiments/experiment.py: Claim.that",
)
"""Public functions whose parameters are a contract: more of them than one would choose today."""
WORDS = re.compile(
    r"\b(dear|hair|told|somebody|nobody|spells?|lonely|to and fro|again and again|at all costs)\b",
    re.IGNORECASE,
)
"""Words that say in a strange way what plain ones say: expensive, tolerance, shown, interval, repeatedly."""
PUBLIC_WORDS = ("lonely_points",)
"""Names of version 0.1 that have such a word and stay."""
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


def compiled(module: Path) -> list[ast.FunctionDef]:
    """Return the functions of a module that Numba compiles."""
    functions = [
        node for node in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)
    ]
    return [each for each in functions if any("njit" in ast.unparse(d) for d in each.decorator_list)]


def is_slice(target: ast.expr) -> bool:
    """Return whether an assignment to `target` writes a whole stretch of an array."""
    if isinstance(target, ast.Tuple):
        return any(map(is_slice, target.elts))
    return isinstance(target, ast.Subscript) and any(isinstance(n, ast.Slice) for n in ast.walk(target.slice))


def test_compiled_code_copies_arrays_in_loops() -> None:
    """`a[:] = b` brings in Numba's strings, for the message of a shape that does not fit: 2 to 4 seconds."""
    found = [
        f"{module.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for module in sorted((PACKAGE / "kernels").rglob("*.py"))
        for function in compiled(module)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(map(is_slice, node.targets))
        and not isinstance(node.value, ast.Constant)
    ]
    assert found == []


def test_python_calls_no_kernel_that_is_compiled_anew_in_every_process() -> None:
    """Functions without `cache=True` are parts of compiled ones: from Python they would compile each time."""
    modules = sorted((PACKAGE / "kernels").rglob("*.py"))
    parts = {
        (module, each.name)
        for module in modules
        for each in compiled(module)
        if not any("cache=True" in ast.unparse(one) for one in each.decorator_list)
    }
    assert len(parts) > 20
    found = []
    for module in modules:
        tree = ast.parse(module.read_text("utf-8"))
        places = dict.fromkeys((each.name for each in compiled(module)), module)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shallowflow.kernels."):
                place = PACKAGE.parent.joinpath(*str(node.module).split(".")).with_suffix(".py")
                places |= {alias.asname or alias.name: place for alias in node.names}
        inside = {
            line for each in compiled(module) for line in range(each.lineno, (each.end_lineno or 0) + 1)
        }
        found += [
            f"{module.relative_to(PACKAGE)}:{node.lineno}: {node.func.id}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.lineno not in inside
            if (places.get(node.func.id), node.func.id) in parts
        ]
    assert found == []


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
        for line in [
            *project["dependencies"],
            *(line for name in ("dask", "parquet", "torch", "explorer") for line in extras[name]),
        ]
    }
    # Every type checker knows typing_extensions, and no run imports it.
    ours = {"shallowflow", "typing_extensions"}
    foreign = set().union(*map(imported, MODULES)) - set(sys.stdlib_module_names) - ours
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


def functions(module: Path) -> dict[str, ast.FunctionDef]:
    """Return the functions of a module by "file: Class.name", those inside of functions too."""
    found: dict[str, ast.FunctionDef] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = f"{name}.{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else name
            if isinstance(child, ast.FunctionDef):
                found[f"{module.relative_to(PACKAGE)}: {inner[1:]}"] = child
            visit(child, inner)

    visit(ast.parse(module.read_text(encoding="utf-8")), "")
    return found


def code_lines(module: Path, function: ast.FunctionDef) -> int:
    """Return the number of lines of a function that are neither docstring, comment nor blank."""
    documented: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = module.read_text(encoding="utf-8").splitlines()
    inside = range(function.lineno, (function.end_lineno or 0) + 1)
    texts = [lines[number - 1].strip() for number in inside if number not in documented]
    return sum(bool(text) and not text.startswith("#") for text in texts)


def parameters(function: ast.FunctionDef) -> int:
    """Return the number of parameters, self and cls not counted."""
    taken = function.args
    named = [one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len([name for name in named if name not in ("self", "cls")]) + sum(
        one is not None for one in (taken.vararg, taken.kwarg)
    )


def test_functions_are_short() -> None:
    long = {
        name
        for module in MODULES
        for name, function in functions(module).items()
        if code_lines(module, function) > MAX_CODE_LINES
    }
    assert long == set()


def test_functions_take_few_parameters() -> None:
    # A command has as many as it has options.
    many = {
        name
        for module in MODULES
        if module.relative_to(PACKAGE).parts[0] not in ("cli.py", "commands")
        for name, function in functions(module).items()
        if parameters(function) > MAX_PARAMETERS
    }
    assert many == set(CONTRACTED)


def test_the_measures_see_what_they_should(tmp_path: Path) -> None:
    text = '''
def f(self, a, /, b, *c, d, **e):
    """Two
    lines."""
    # a comment

    def g():
        """Another."""
        return 1
    return g
'''
    module = tmp_path / "module.py"
    module.write_text(text, encoding="utf-8")
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert parameters(function) == 5
    assert code_lines(module, function) == 4
    assert WORDS.search("Nobody is told.")
    assert not WORDS.search("A fold of hairline width")


def test_words_are_plain() -> None:
    found = [
        f"{module.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for module in MODULES
        for number, line in enumerate(module.read_text(encoding="utf-8").splitlines(), start=1)
        if WORDS.search(re.sub("|".join(PUBLIC_WORDS), "", line).replace("_", " "))
    ]
    assert found == []


FOLDERS = sorted({module.parent for module in MODULES})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_folder_is_a_room(folder: Path) -> None:
    modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MAX_MODULES
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_tests_have_the_same_tree(folder: Path) -> None:
    place = folder.relative_to(PACKAGE)
    if place.parts[:1] == ("experiments",):  # one test file for each paper
        place = Path("experiments")
    assert any((ROOT / "tests" / place).glob("**/test_*.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_name_of_a_package_hides_its_module(folder: Path) -> None:
    name = ".".join(("shallowflow", *folder.relative_to(PACKAGE).parts))
    package = importlib.import_module(name)
    for path in folder.glob("*.py"):
        if path.stem != "__init__" and path.stem in dir(package):
            assert isinstance(getattr(package, path.stem), ModuleType), path.stem
