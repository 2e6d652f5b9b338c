"""Draw the pictures of the README and the docs anew: `.venv/bin/python docs/images/draw.py`."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

import shallowflow as sf
from shallowflow.experiments import Figure
from shallowflow.reporting.figures.renderer import render

HERE = Path(__file__).parent


def write(figure: Figure, name: str) -> None:
    # 64 colours are plenty for a plot, and make the file a third as large.
    picture = Image.open(io.BytesIO(render(figure, "png"))).convert("RGB").quantize(64)
    picture.save(HERE / f"{name}.png", optimize=True)


def early_alignment() -> Figure:
    """Figure 2 with its four times side by side: functions above, neurons below."""
    figure = sf.reproduce("early_alignment/fig2").figures[0]
    functions, neurons = figure.panels[0::2], figure.panels[1::2]
    return replace(figure, title="", panels=(*functions, *neurons), columns=4)


def plateau() -> Figure:
    """Figure 2: gradient descent beside ANLS."""
    return sf.reproduce("plateau/fig2").figures[0]


def story() -> Figure:
    """A run that aligns, jumps, waits on a plateau and leaves it: chapters, floors, neurons."""
    start = sf.initialize.balanced(60, 2, init_scale=1e-2, seed=0)
    run = sf.gradient_flow(start, sf.data.GENERATORS["stewart"](), until=400.0)
    figure: Figure = sf.story(run).figure()
    return figure


def kinks() -> None:
    """The fits of the page "Find the kinks in your data", by its own code."""
    page = (HERE.parent / "concepts" / "kinks.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(code, names)
    for name, draw in {
        "kinks": names["model"].plot,
        "kinks_path": names["model"].plot_path,
        "kinks_jump": names["river"].plot,
    }.items():
        draw(path=HERE / f"{name}.png")
        Image.open(HERE / f"{name}.png").convert("RGB").quantize(64).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    kinks()
    write(early_alignment(), "early_alignment")
    write(plateau(), "plateau")
    write(story(), "story")
