"""The house style of figures: readable from the back of a lecture hall and by colour-blind eyes.

Colours are those of Okabe and Ito (2008, "Color Universal Design"), which stay apart under the three common
kinds of colour blindness; black and yellow are replaced by an ink and a muted grey. The font is the one that
matplotlib ships with, so that a figure looks the same on every machine.
"""

from __future__ import annotations

from typing import Any

INK = "#1f2933"
MUTED = "#7b8794"
FAINT = "#e4e7eb"
PAPER = "#ffffff"

COLOURS: dict[str, str] = {
    "ink": INK,
    "muted": MUTED,
    "blue": "#0072b2",
    "orange": "#e69f00",
    "green": "#009e73",
    "pink": "#cc79a7",
    "sky": "#56b4e9",
    "red": "#d55e00",
}
"""The colour of every tone that a `Series` may name, "auto" excepted."""

CYCLE = ("blue", "red", "green", "pink", "orange", "sky")
"""The order in which "auto" takes tones: neighbours differ in lightness as well as in hue."""

LINE_WIDTH = 2.0
SMALL_TEXT = 9.5
TITLE_PAD = 9.0

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.use_mathtext": True,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11.5,
    "axes.linewidth": 0.9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": TITLE_PAD,
    "axes.titlesize": 12,
    "axes.xmargin": 0.02,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.hspace": 0.05,
    "figure.constrained_layout.wspace": 0.05,
    "figure.facecolor": PAPER,
    "figure.titlesize": 14.5,
    "figure.titleweight": "bold",
    "font.family": ["DejaVu Sans"],
    "font.size": 11,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "legend.borderaxespad": 0.4,
    "legend.borderpad": 0.7,
    "legend.edgecolor": "none",
    "legend.facecolor": PAPER,
    "legend.fontsize": 10.5,
    "legend.framealpha": 1.0,
    "legend.handlelength": 1.6,
    "legend.labelcolor": INK,
    "lines.dash_capstyle": "round",
    "lines.dashed_pattern": (3.2, 2.2),
    "lines.linewidth": LINE_WIDTH,
    "lines.solid_capstyle": "round",
    "mathtext.fontset": "dejavusans",
    "path.simplify": True,
    "savefig.facecolor": PAPER,
    # Text as outlines: a picture needs no font where it is looked at. Fixed salt: equal figures, equal bytes.
    "svg.fonttype": "path",
    "svg.hashsalt": "shallowflow",
    "text.color": INK,
    "text.usetex": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 10.5,
    "xtick.major.size": 4.0,
    "xtick.minor.size": 2.0,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 10.5,
    "ytick.major.size": 4.0,
    "ytick.minor.size": 2.0,
}
"""What is set, for the time of drawing only, on top of matplotlib's own defaults."""
