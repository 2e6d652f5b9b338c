"""Animations as files: one frame per figure, everything inside, written whole."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shallowflow.errors import InvalidInputError
from shallowflow.experiments import Animation, Figure, Panel, Series
from shallowflow.reporting.figures.renderer import frames, write_animation


def sample(count: int = 3, title: str = "A <moving> line") -> Animation:
    x = np.linspace(0.0, 1.0, 11)
    made = tuple(
        Figure(
            "f",
            title,
            (Panel((Series(x, (k + 0.5) * x, tone="blue"),), title=f"k = {k}", y_limits=(-0.5, 3.0)),),
        )
        for k in range(count)
    )
    return Animation("f", title, made, tuple(f"k = {k} </script>" for k in range(count)), "A caption & more")


def blue_rows(picture: Image.Image) -> list[int]:
    """The rows of the picture that have pixels of the line's colour."""
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    near = np.abs(pixels - np.array([0x00, 0x72, 0xB2])).sum(axis=2) < 60
    return np.flatnonzero(near.any(axis=1)).tolist()


def test_frames_share_size_and_palette_and_show_their_own_curve() -> None:
    pictures = list(frames(sample()))
    assert len(pictures) == 3
    assert len({picture.size for picture in pictures}) == 1
    assert len({tuple(picture.getpalette() or []) for picture in pictures}) == 1
    spans = [np.ptp(blue_rows(picture)) for picture in pictures]
    assert spans[1] == pytest.approx(3 * spans[0], rel=0.15)
    assert spans[2] == pytest.approx(5 * spans[0], rel=0.15)
    corner = pictures[0].convert("RGB").getpixel((1, 200))
    assert isinstance(corner, tuple)
    assert min(corner) >= 250


def test_the_page_holds_every_frame_and_escapes_texts(tmp_path: Path) -> None:
    path = tmp_path / "film.html"
    seen: list[float] = []
    write_animation(sample(), path, progress=seen.append)
    assert seen == [pytest.approx(share) for share in (1 / 3, 2 / 3, 1.0)]
    page = path.read_text(encoding="utf-8")
    (encoded,) = re.findall(r"^const frames = (.*);$", page, re.MULTILINE)
    pictures = [base64.b64decode(entry.split(",")[1]) for entry in json.loads(encoded)]
    assert [Image.open(io.BytesIO(picture)).format for picture in pictures] == ["PNG"] * 3
    (labels,) = re.findall(r"^const labels = (.*);$", page, re.MULTILINE)
    assert json.loads(labels) == [f"k = {k} </script>" for k in range(3)]
    assert page.count("</script>") == 1
    assert "A &lt;moving&gt; line" in page
    assert "A caption &amp; more" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "$" not in re.sub(r"base64,[^\"]*", "", page)


def test_the_gif_has_every_frame_and_rests_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    write_animation(sample(), path)
    with Image.open(path) as film:
        assert getattr(film, "n_frames", 1) == 3
        durations = []
        for number in range(3):
            film.seek(number)
            durations.append(film.info["duration"])
    assert durations[0] < durations[-1]


def test_bad_animations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"ending: must be one of \.html, \.gif; got '\.avi'"):
        write_animation(sample(), tmp_path / "film.avi")
    assert list(tmp_path.iterdir()) == []
    one = sample(1).frames[0]
    with pytest.raises(InvalidInputError, match="labels: must be one per frame"):
        Animation("f", "t", (one,), ())
    with pytest.raises(InvalidInputError, match="frames: must be figures of one layout, got 2"):
        Animation("f", "t", (one, Figure("f", "t", ())), ("a", "b"))
    with pytest.raises(InvalidInputError, match="got 0 layouts"):
        Animation("f", "t", (), ())
