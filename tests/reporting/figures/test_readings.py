"""Pictures of a story and of a diagnosis: their data, and files that can be opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

import shallowflow as sf
from shallowflow.readings.story import PAPERS
from shallowflow.reporting.figures.runs import BANDS, diagnosis_figure, story_figure

DATA = sf.data.GENERATORS["three_points"]()
RUN = sf.gradient_descent(sf.initialize.balanced(20, 2, init_scale=1e-2, seed=0), DATA, step=0.05, steps=2000)


def test_a_story_shows_its_chapters_as_bands() -> None:
    told = sf.story(RUN)
    figure = story_figure(told)
    bands = [series for series in figure.panels[0].series if series.low is not None]
    assert len(bands) == len(told.chapters)
    for band, chapter in zip(bands, told.chapters, strict=True):
        assert band.x[1] == chapter.end
        assert band.tone == BANDS[chapter.name]
    assert [series.label for series in figure.panels[1].series] == ["awake", "acting as", "dormant", "dead"]
    assert set(BANDS) == set(PAPERS)


def test_a_diagnosis_shows_shares_and_sizes() -> None:
    network = RUN.final
    assert isinstance(network, sf.ReLUNetwork)
    found = sf.diagnose(network, DATA)
    columns, sizes = diagnosis_figure(found).panels
    assert found.anatomy is not None
    heights = [float(series.y[0]) for series in columns.series]
    np.testing.assert_allclose(heights, list(found.anatomy.shares.values()))
    assert sum(len(series.x) for series in sizes.series) == np.sum(~found.census.dead)


def test_files_are_pictures(tmp_path: Path) -> None:
    network = RUN.final
    assert isinstance(network, sf.ReLUNetwork)
    sf.story(RUN).plot(tmp_path / "story.png")
    sf.diagnose(network, DATA).plot(tmp_path / "diagnosis.svg")
    with Image.open(tmp_path / "story.png") as picture:
        assert picture.size[0] > 500
    assert (tmp_path / "diagnosis.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert sf.story(RUN).plot() is not None
