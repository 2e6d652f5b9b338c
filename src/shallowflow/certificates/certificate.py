"""`Certificate`: does a theorem apply to these data and this network, with what margin, and to what end?

`Verdict`: what a paper says about a data set, in plain words, with the numbers and certificates behind it. It
comes from the paper's function `verdict(question)`; `certificates.VERDICTS` lists them by the paper's word.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from shallowflow.arrays import flag, numbers
from shallowflow.data.dataset import Dataset
from shallowflow.models.loss import Loss

RELATIONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True)
class Hypothesis:
    """One assumption of a theorem: its words, whether it holds, the number found, the number it needs.

    holds: None where what was given cannot decide it. value, bound: None where there is no number.
    """

    name: str
    holds: bool | None
    value: float | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        _make_plain(self, answer="holds", numbers=("value", "bound"))

    @classmethod
    def that(cls, name: str, value: float | None, relation: str, bound: float | None) -> Self:
        """Return the hypothesis that "value relation bound", such as 0.1 <= 0.5; undecided without both."""
        return cls(name, _decided(value, relation, bound), value, bound)

    def __str__(self) -> str:
        word = {True: "holds", False: "fails", None: "undecided"}[self.holds]
        return f"[{word}] {self.name}{_figures(('found', self.value), ('needed', self.bound))}"


@dataclass(frozen=True)
class Promise:
    """One conclusion: its words, the number promised, the number observed, whether the promise was kept.

    kept: None where nothing was observed that decides.
    """

    statement: str
    bound: float | None = None
    observed: float | None = None
    kept: bool | None = None

    def __post_init__(self) -> None:
        _make_plain(self, answer="kept", numbers=("bound", "observed"))

    @classmethod
    def that(cls, statement: str, observed: float | None, relation: str, bound: float | None) -> Self:
        """Return the promise that "observed relation bound"; open without both."""
        return cls(statement, bound, observed, _decided(observed, relation, bound))

    def __str__(self) -> str:
        word = {True: "kept", False: "broken", None: "not observed"}[self.kept]
        return f"[{word}] {self.statement}{_figures(('promised', self.bound), ('observed', self.observed))}"


@dataclass(frozen=True)
class Certificate:
    """What a theorem says about given data, network and (maybe) trajectory.

    theorem: its name in `CERTIFICATES`. Promises are listed whether or not the hypotheses hold: a promise
    may be kept by luck, but only `holds` makes it the theorem's. reason: why the theorem is about something
    else altogether ("" if it is not); then there are neither hypotheses nor promises.

    Examples
    --------
    >>> small = Hypothesis("the step is small enough", True, 0.1, 0.5)
    >>> print(Certificate("a/lemma-1", (small,), (Promise("the loss falls"),)))
    a/lemma-1: applies.
      Hypotheses
        [holds] the step is small enough (found 0.1, needed 0.5)
      Promises
        [not observed] the loss falls
    """

    theorem: str
    hypotheses: tuple[Hypothesis, ...]
    promises: tuple[Promise, ...]
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether every hypothesis is known to hold."""
        return not self.reason and all(hypothesis.holds is True for hypothesis in self.hypotheses)

    @property
    def kept(self) -> bool | None:
        """Whether all promises were kept: False if one was broken, None if some were not observed."""
        outcomes = [promise.kept for promise in self.promises]
        if False in outcomes:
            return False
        return None if None in outcomes or self.reason else True

    def __str__(self) -> str:
        lines = [f"{self.theorem}: {self._verdict()}"]
        for title, entries in (("Hypotheses", self.hypotheses), ("Promises", self.promises)):
            if entries:
                lines += [f"  {title}", *(f"    {entry}" for entry in entries)]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.reason:
            return f"does not apply because {self.reason}."
        if self.holds:
            return "applies."
        if any(hypothesis.holds is False for hypothesis in self.hypotheses):
            return "does not apply."
        return "cannot be decided from what was given."


def _make_plain(entry: Hypothesis | Promise, answer: str, numbers: tuple[str, ...]) -> None:
    """Turn NumPy's scalars into Python's: `is True` knows only Python's bool, and readers expect floats."""
    for name in (answer, *numbers):
        given = getattr(entry, name)
        if given is not None:
            plain = flag(given, name) if name == answer else _number(given, name)
            object.__setattr__(entry, name, plain)


def _number(value: object, name: str) -> float:
    """Return a float that may be NaN or infinite: what was found is shown as it is."""
    return float(numbers(value, name, 0, finite=False))  # type: ignore[arg-type]


def _decided(value: float | None, relation: str, bound: float | None) -> bool | None:
    return None if value is None or bound is None else bool(RELATIONS[relation](value, bound))


def _figures(*named: tuple[str, float | None]) -> str:
    shown = [f"{name} {number:.6g}" for name, number in named if number is not None]
    return f" ({', '.join(shown)})" if shown else ""


@dataclass(frozen=True)
class Question:
    """A data set, and the planned initialisation of a network on it.

    Every paper builds the start of its own kind from width, init_scale and seed; `init` is the user's choice
    of initialisation where there is one. own_start: whether a paper whose networks start otherwise may keep
    its own initialisation (False: init and init_scale were asked for). loss: ½·mean of squares by default;
    slope: of the leaky ReLU. progress: called with the share done during a long search.
    """

    dataset: Dataset
    width: int = 100
    init_scale: float = 1e-3
    seed: int = 0
    init: str = "balanced"
    progress: Callable[[float], None] | None = None
    loss: Loss | None = None
    slope: float = 0.0
    own_start: bool = True


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
