"""Durations as people say them, and short formulas in running text: t_n, D_max, 10^−6, λ^(2ε).

Formulas become subscripts and superscripts. Only what surely is one is set: a subscript of a single letter
that is no part of a word, so that file names and parameter names (`label_seed`) stay as they are, and powers
of a letter, number or bracket.
"""

from __future__ import annotations

import re
from html import escape

_FORMULA = re.compile(
    r"(?<![\w.\\-])(?P<base>[^\W\d_])_(?P<below>[A-Za-z0-9∞*]{1,5})(?!\w|\.\w)"
    r"|(?<=[\w)\]])\^(?:\((?P<inside>[^()\s]*)\)|(?P<power>[−-]?\w+))"
)


def seconds_text(seconds: float) -> str:
    """Return a duration as people say it: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min.

    Examples
    --------
    >>> seconds_text(0.42), seconds_text(200.0), seconds_text(7500)
    ('0.4 s', '3 min 20 s', '2 h 5 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def for_matplotlib(text: str) -> str:
    """Return text with its formulas as mathtext; everything else, dollar signs too, stands as it is.

    Examples
    --------
    >>> print(for_matplotlib("t / t_n for n = 10^100"))
    t / t$_{\\mathdefault{n}}$ for n = 10$^{{\\mathdefault{100}}}$
    """

    def replaced(found: re.Match[str]) -> str:
        if found["base"]:
            return rf"{found['base']}$_{{\mathdefault{{{found['below']}}}}}$"
        # mathtext opens no formula inside a formula.
        parts = re.split(r"_(\w+)", _power(found))
        words = [rf"{'_' * (i % 2)}{{\mathdefault{{{part}}}}}" for i, part in enumerate(parts) if part]
        return f"$^{{{''.join(words)}}}$"

    return _FORMULA.sub(replaced, text.replace("$", r"\$"))


def for_html(text: str) -> str:
    """Return escaped text with its formulas as <sub> and <sup>.

    Examples
    --------
    >>> for_html("w_j < 10^-3")
    'w<sub>j</sub> &lt; 10<sup>−3</sup>'
    """

    def replaced(found: re.Match[str]) -> str:
        if found["base"]:
            return f"{found['base']}<sub>{found['below']}</sub>"
        return f"<sup>{_FORMULA.sub(replaced, _power(found))}</sup>"

    return _FORMULA.sub(replaced, escape(text))


def _power(found: re.Match[str]) -> str:
    power = found["power"] if found["inside"] is None else found["inside"]
    return power.replace("-", "−")
