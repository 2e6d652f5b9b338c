"""Names are imported on first use: what that loads, and that it finds what importing everything found."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shallowflow as sf
from shallowflow import lazy

LAZY = ("shallowflow", "shallowflow.landscape")
MOST_MODULES = 15
HEAVY = ("numpy", "scipy", "numba", "matplotlib", "sklearn", "xarray", "sqlite3")

DESCENT = """
import shallowflow as sf
data = sf.data.GENERATORS["three_points"]()
sf.gradient_descent(sf.initialize.balanced(2, 2), data, step=0.1, steps=2, engine="dense")
"""
FIRST = """
import pkgutil, shallowflow
from importlib import import_module
for module in pkgutil.walk_packages(shallowflow.__path__, "shallowflow."):
    if not module.name.startswith("shallowflow.kernels"):
        import_module(module.name)
"""
COMPARE = """
import sys
for name in %r:
    package = sys.modules[name]
    for public, place in package._NAMES.items():
        assert getattr(package, public) is getattr(sys.modules[place], public), (name, public)
    for public, place in getattr(package, "_MODULES", {}).items():
        assert getattr(package, public) is sys.modules[place], (name, public)
"""


def output(code: str) -> str:
    """Return what a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def loaded(code: str) -> set[str]:
    """Return the modules that are loaded after some code has run in a process of its own."""
    return set(output(f"{code}\nimport sys; print(*sys.modules)").split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    modules = loaded("import shallowflow")
    ours = sorted(name for name in modules if name.partition(".")[0] == "shallowflow")
    assert "shallowflow.lazy" in ours
    assert len(ours) <= MOST_MODULES, ours
    assert modules.isdisjoint(HEAVY)


def test_a_descent_loads_what_it_needs() -> None:
    modules = loaded(DESCENT)
    assert "shallowflow.dynamics.descent" in modules
    foreign = ("experiments", "reporting", "studies", "certificates", "estimators", "commands")
    assert modules.isdisjoint(f"shallowflow.{name}" for name in foreign)
    assert modules.isdisjoint({"sqlite3", "matplotlib", "sklearn", "xarray"})


def test_an_experiment_loads_its_own_paper() -> None:
    modules = loaded(
        "from shallowflow.experiments import EXPERIMENTS\n"
        "assert 'incremental/fig1' in EXPERIMENTS and len(EXPERIMENTS) > 30\n"
        "assert EXPERIMENTS['plateau/fig3'].paper == 'plateau'"
    )
    papers = ("two_timescale", "early_alignment", "incremental", "weak_interaction")
    assert "shallowflow.experiments.plateau.full_training" in modules
    assert modules.isdisjoint(f"shallowflow.experiments.{paper}" for paper in papers)


def test_names_stay_names_if_modules_of_that_name_were_imported_first() -> None:
    output(FIRST + COMPARE % (LAZY,))


def test_names_stay_names_if_modules_of_that_name_are_imported_later() -> None:
    ask = "".join(
        f"import {package}; [getattr({package}, n) for n in {package}._NAMES]\n" for package in LAZY
    )
    output(ask + FIRST + COMPARE % (LAZY,))


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_what_is_imported_on_first_use(package: str) -> None:
    module = import_module(package)
    (branch,) = [
        node
        for node in ast.parse(source(module)).body
        if isinstance(node, ast.If) and branches_on_typing(node)
    ]
    seen = {
        alias.name: node.module
        for node in ast.walk(branch)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = getattr(module, "_MODULES", {})
    assert seen == module._NAMES | {name: path.rpartition(".")[0] for name, path in modules.items()}
    public = {name for name in seen if not name.startswith("_")}
    assert public == set(module.__all__)
    assert public <= set(dir(module))
    assert len(module.__all__) == len(public)


def source(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text(encoding="utf-8")


def branches_on_typing(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gradient_decsent", "; did you mean gradient_descent?"),
        ("relunetwork", "; did you mean ReLUNetwork?"),
        ("nonsense", ""),
        ("__versoin__", ""),
    ],
)
def test_an_unknown_name_is_an_attribute_error_that_may_know_better(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(sf, name)
    assert str(caught.value) == f"module 'shallowflow' has no attribute {name!r}{hint}"
    assert not hasattr(sf.landscape, name)


def test_what_is_not_public_can_be_imported_all_the_same() -> None:
    from shallowflow import dynamics

    assert dynamics.__name__ == "shallowflow.dynamics"
    with pytest.raises(ImportError, match="nonsense"):
        exec("from shallowflow import nonsense")


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = sf
    first = package.phases
    monkeypatch.setattr("shallowflow.lazy.import_module", None)
    assert package.phases is first


def test_a_function_is_found_by_its_place() -> None:
    from shallowflow.files import as_path

    assert lazy.function("shallowflow.files:as_path") is as_path
    with pytest.raises(AttributeError, match="nothing"):
        lazy.function("shallowflow.files:nothing")
