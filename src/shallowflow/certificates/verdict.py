"""`Verdict`: what a paper says about a data set, in plain words, with the numbers and certificates behind it.

A paper's verdict is a function `verdict(question)`; `certificates.VERDICTS` lists them by the paper's word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shallowflow.certificates.certificate import Certificate
from shallowflow.data.dataset import Dataset


@dataclass(frozen=True)
class Question:
    """A data set, and the start that somebody has in mind for a network on it.

    Every paper builds the start of its own kind from width, init_scale and seed; `init` is the user's choice
    of initialisation where there is one. progress: called with the share done during a long search.
    """

    dataset: Dataset
    width: int = 100
    init_scale: float = 1e-3
    seed: int = 0
    init: str = "balanced"
    progress: Callable[[float], None] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of texts and numbers under headings."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


@dataclass(frozen=True)
class Verdict:
    """What a paper says about the data.

    applies: whether a theorem of the paper says how training ends (None: undecided, or a question that the
    paper does not ask of data alone); words: sentences for people; numbers: constants by name (None: not
    known); tables and certificates: what the words rest on.
    """

    paper: str
    applies: bool | None
    words: tuple[str, ...]
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    certificates: tuple[Certificate, ...] = ()


def failures(certificate: Certificate) -> str:
    """Return in words which hypotheses fail and by how much, and which are undecided ("" if all hold)."""
    failed = [
        f"{one.name} fails{_shortfall(one.value, one.bound)}"
        for one in certificate.hypotheses
        if one.holds is False
    ]
    open_ = [f"{one.name}: undecided" for one in certificate.hypotheses if one.holds is None]
    return "; ".join(failed + open_)


def _shortfall(value: float | None, bound: float | None) -> str:
    if value is None or bound is None:
        return ""
    return f" (found {value:.4g}, needed {bound:.4g}: off by {abs(value - bound):.4g})"
