"""`shallowflow diagnose`: a CSV file, a saved run, a generator; text, JSON and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import shallowflow as sf
from shallowflow.cli import main


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.linspace(-1, 1, 60)
    path = tmp_path_factory.mktemp("data") / "wave.csv"
    rows = [f"{a:.6f},{20 + 5 * np.sin(12 * a):.6f}" for a in x]
    path.write_text("x,y\n" + "\n".join(rows), encoding="utf-8")
    return path


def test_a_table_becomes_a_story_with_an_escape(table: Path, tmp_path: Path) -> None:
    options = ["--width", "15", "--steps", "500", "--escape", "--plot", str(tmp_path / "story.png")]
    saved = tmp_path / "run.trajectory"
    result = CliRunner().invoke(main, ["diagnose", str(table), *options, "--save", str(saved)])
    assert result.exit_code == 0, result.output
    assert "At the end:" in result.output
    assert "Escape:" in result.output
    assert (tmp_path / "story.png").stat().st_size > 1000
    run = sf.Trajectory.load(saved)
    assert isinstance(run.setting.data, sf.Dataset)
    assert run.setting.data.targets.std() == pytest.approx(1.0)
    again = CliRunner().invoke(main, ["diagnose", str(saved), "--json"])
    content = json.loads(again.output)
    assert content["schema"] == "shallowflow/story/1"
    assert content["chapters"][-1]["loss_after"] == pytest.approx(float(run.losses.min()))
    assert content["end"]["text"] in result.output


def test_generators_and_labels() -> None:
    result = CliRunner().invoke(main, ["diagnose", "three_points", "--width", "8", "--steps", "200"])
    assert result.exit_code == 0, result.output
    assert "Loss" in result.output


def test_bad_input_is_one_line(table: Path) -> None:
    for arguments in (["--loss", "logistic"], ["--width", "0"], ["--plot", "story.pdf"]):
        result = CliRunner().invoke(main, ["diagnose", str(table), *arguments])
        assert result.exit_code == 2
