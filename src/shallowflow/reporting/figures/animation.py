"""`Animation` data as a film: a page with a scrubber (one file, nothing to load), or a GIF.

The frames are drawn on one canvas whose layout is settled on the first of them, so that nothing jumps.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image

from shallowflow.arrays import one_of
from shallowflow.experiments.figure import Animation
from shallowflow.files import write_atomically
from shallowflow.reporting.figures.renderer import redrawn
from shallowflow.reporting.figures.style import COLOURS, FAINT, PAPER

ENDINGS = (".html", ".gif")
DOTS_PER_INCH = 90
SHADES = 24
"""Between the paper and each colour of the house style: frames share this palette, and no colour wanders."""
FRAME_MILLISECONDS = 140
LAST_MILLISECONDS = 2_500
MARGIN = 120
"""Room for the caption and the slider around the frames, in pixels."""

Progress = Callable[[float], None]


def write_animation(animation: Animation, *paths: Path, progress: Progress | None = None) -> None:
    """Draw an animation once and write it to .html and .gif files, each whole or not at all."""
    for path in paths:
        one_of(path.suffix.lower(), "ending", ENDINGS)
    film = Film(animation, progress)
    for path in paths:
        write_atomically(path, film.page() if path.suffix.lower() == ".html" else film.gif())


class Film:
    """The frames of an animation, drawn once; a notebook shows it as the page that `page` returns."""

    def __init__(self, animation: Animation, progress: Progress | None = None) -> None:
        self.animation = animation
        self.pictures = list(frames(animation, progress))

    def page(self) -> bytes:
        """Return one HTML file with the frames inside, a play button and a slider."""
        encoded = [f"data:image/png;base64,{base64.b64encode(_png(one)).decode()}" for one in self.pictures]
        width, height = self.pictures[0].size
        template = files("shallowflow.reporting").joinpath("player.html").read_text(encoding="utf-8")
        fields: dict[str, Any] = {
            "title": escape(self.animation.title),
            "caption": escape(self.animation.caption),
            "first": encoded[0],
            "width": width,
            "height": height,
            "last": len(encoded) - 1,
            "milliseconds": FRAME_MILLISECONDS,
            # "<" inside a script could end it.
            "frames": json.dumps(encoded),
            "labels": json.dumps(self.animation.labels, ensure_ascii=True).replace("<", "\\u003c"),
        }
        return Template(template).substitute(fields).encode()

    def gif(self) -> bytes:
        """Return a GIF that runs for ever and rests on its last frame."""
        buffer = io.BytesIO()
        durations = [FRAME_MILLISECONDS] * (len(self.pictures) - 1) + [LAST_MILLISECONDS]
        first, rest = self.pictures[0], self.pictures[1:]
        first.save(buffer, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        width, height = (side + MARGIN for side in self.pictures[0].size)
        page = escape(self.page().decode())
        return f'<iframe srcdoc="{page}" width="{width}" height="{height}" frameborder="0"></iframe>'


def frames(animation: Animation, progress: Progress | None = None) -> Iterator[Image.Image]:
    """Yield the frames as pictures of one size and one palette."""
    palette = _palette()
    for number, canvas in enumerate(redrawn(animation.frames, DOTS_PER_INCH), start=1):
        agg: Any = canvas.canvas
        agg.draw()  # savefig would lay everything out twice
        picture = Image.frombytes("RGBA", agg.get_width_height(), bytes(agg.buffer_rgba())).convert("RGB")
        if progress:
            progress(number / len(animation.frames))
        yield picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _palette() -> Image.Image:
    """Return a picture with the palette of all frames: every colour of the style, faded towards the paper."""
    shares = np.linspace(0.1, 1.0, SHADES)[:, None]
    paper = np.array(to_rgb(PAPER))
    fading = [paper + shares * (np.array(to_rgb(colour)) - paper) for colour in (*COLOURS.values(), FAINT)]
    levels = np.rint(255 * np.concatenate([paper[None], *fading])).astype(int)
    holder = Image.new("P", (1, 1))
    holder.putpalette(levels.ravel().tolist())
    return holder


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
