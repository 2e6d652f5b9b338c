from __future__ import annotations

import runpy
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

import shallowflow as sf
from shallowflow import version
from shallowflow.cli import main


def test_the_version_is_that_of_the_installed_package() -> None:
    assert sf.__version__ == metadata.version("shallowflow")
    assert "__version__" in dir(sf)


def test_the_program_tells_its_version() -> None:
    result = CliRunner().invoke(main, ["--version"], prog_name="shallowflow")
    assert (result.exit_code, result.stdout) == (0, f"shallowflow {sf.__version__}\n")


def test_a_source_tree_that_is_not_installed_has_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert runpy.run_path(str(Path(version.__file__)))["__version__"] == "0+unknown"
