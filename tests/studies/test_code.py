from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shallowflow.dynamics import flow
from shallowflow.experiments.early_alignment.stages import run_fig2
from shallowflow.studies import study

LEAF = "def leaf():\n    return 1\n"


def digest(directory: Path) -> str:
    """The version of `task` as a fresh process sees it."""
    line = "from shallowflow.studies.study import code_version; import sweep; print(code_version(sweep.task))"
    result = subprocess.run(
        [sys.executable, "-c", line], cwd=directory, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A module with its neighbours: it imports one of them inside a function, through a package."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "inner.py").write_text("from .leaf import leaf\n")
    (tmp_path / "package" / "leaf.py").write_text(LEAF)
    (tmp_path / "package" / "other.py").write_text(LEAF)
    (tmp_path / "sweep.py").write_text("def task(p, s):\n    from package import inner\n    return {}\n")
    return tmp_path


def test_an_edit_changes_the_version_where_it_can_change_the_result(project: Path) -> None:
    first = digest(project)
    assert digest(project) == first
    (project / "package" / "other.py").write_text(LEAF.replace("1", "2"))
    assert digest(project) == first
    (project / "package" / "leaf.py").write_text(LEAF.replace("1", "2"))
    assert digest(project) != first


def test_the_files_of_an_experiment_are_those_it_computes_with() -> None:
    names = set(study._sources(run_fig2.__module__))
    assert {run_fig2.__module__, "shallowflow.dynamics.descent", "shallowflow.kernels.cones.descent"} <= names
    assert "shallowflow.models.networks" in names
    assert "shallowflow.estimators.anls" in study._sources("shallowflow")
    assert not any(name.startswith(("shallowflow.reporting", "shallowflow.cli", "numpy")) for name in names)
    assert not any(name.startswith("shallowflow.experiments.plateau") for name in names)
    for name in names:
        assert name in sys.modules or study._file(name) is not None


def test_versions_are_those_of_what_computes() -> None:
    assert study.versions()["numpy"] == np.__version__
    assert study.version("no-such-package") == "unknown"
    assert study.code_version(flow.gradient_flow).startswith(study.version("shallowflow") + "+")
