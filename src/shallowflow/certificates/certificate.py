"""`Certificate`: does a theorem apply to these data and this network, with what margin, and to what end?

`Verdict`: what a paper says about a data set, in plain words, with the numbers and certificates behind it. It
comes from the paper's function `verdict(question)`; `certificates.VERDICTS` lists them by the paper's word.

`Answers`: every theorem at once, asked about whatever is at hand. A theorem that is about something else than
what was given does not apply, because …: that is an answer too.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from numpy.linalg import LinAlgError

from shallowflow.arrays import flag, members, numbers, shown
from shallowflow.data.dataset import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import Loss
from shallowflow.models.networks import (
    BaseNetwork,
    KnotNetwork,
    LogScaledNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)

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


TARGETS = (PiecewiseConstant, PiecewiseAffine, Additive)
SUBJECTS: dict[str, tuple[type, ...]] = {
    "plateau": (KnotNetwork,),
    "early_alignment": (ReLUNetwork,),
    "weak_interaction": (ReLUNetwork,),
    "incremental": (ReLUNetwork, LogScaledNetwork),
    "two_timescale": (StepNetwork,),
}
"""The networks that each paper is about."""


class Answers(dict[str, Certificate]):
    """Certificates by the names of their theorems; printed, a line for each."""

    def __init__(self, certificates: Mapping[str, Certificate]) -> None:
        if not isinstance(certificates, Mapping):
            raise InvalidInputError(f"certificates: must be by name, a mapping, got {shown(certificates)}")
        members(certificates.values(), "certificates", "certificates by name", Certificate)
        super().__init__(certificates)

    def __str__(self) -> str:
        return "\n".join(map(_line, self.values()))

    @property
    def applying(self) -> list[Certificate]:
        """The certificates whose hypotheses all hold."""
        return [certificate for certificate in self.values() if certificate.holds]


def _line(certificate: Certificate) -> str:
    """Return a certificate in a line, with what fails or is undecided."""
    first = str(certificate).splitlines()[0]
    missing = failures(certificate)
    return f"{first.removesuffix('.')}: {missing}." if missing else first


class Given(NamedTuple):
    """What the theorems are asked about; None: not given."""

    network: Network | None = None
    data: Any = None
    trajectory: Trajectory | None = None


def sort_out(given: Iterable[object]) -> Given:
    """Return what was given by its kind; a run gives its network at the start and its data."""
    found: dict[str, Any] = {}
    for thing in given:
        kind = (
            "trajectory"
            if isinstance(thing, Trajectory)
            else "data"
            if isinstance(thing, (Dataset, *TARGETS))
            else "network"
        )
        if kind == "network" and not isinstance(thing, BaseNetwork):
            raise InvalidInputError(
                f"given: must be a network, a data set or target, and a trajectory, got {shown(thing)}"
            )
        if kind in found:
            raise InvalidInputError(f"given: must be one {kind} at most, got two")
        found[kind] = thing
    return _with_run(Given(**found))


def _with_run(given: Given) -> Given:
    """Return what a run adds: its network at the start and its data; others beside them are refused.

    A limit of tiny starts has no start of its own.
    """
    run = given.trajectory
    if run is None:
        return given
    own = None if isinstance(run, SaddleToSaddle) else run.initial
    if own is not None and given.network is not None and _shape(own) != _shape(given.network):
        raise InvalidInputError(
            f"given: the network must be that of the run, {shown(own)}, got {shown(given.network)}"
        )
    data = run.setting.data
    if data is not None and given.data is not None and _shape(data) != _shape(given.data):
        raise InvalidInputError(
            f"given: the data must be those of the run, {shown(data)}, got {shown(given.data)}"
        )
    return Given(
        own if given.network is None else given.network, data if given.data is None else given.data, run
    )


def _shape(thing: Any) -> object:
    """Return the kind and the size of a network or of data."""
    if isinstance(thing, BaseNetwork):
        return type(thing), {name: array.shape for name, array in thing.parameters.items()}
    return (Dataset, thing.inputs.shape) if isinstance(thing, Dataset) else type(thing)


def answer(theorem: str, check: Callable[..., Certificate], given: Given) -> Certificate:
    """Return the certificate of a theorem, or why it does not apply."""
    reason = _mismatch(theorem, check, given)
    if not reason:
        try:
            return check(*_arguments(check, given), **_limit(check, given))
        except InvalidInputError as error:
            reason = str(error)
        except (ArithmeticError, LinAlgError) as error:
            reason = f"its constants are not finite here ({error})"
    return Certificate(theorem, (), (), reason)


def _mismatch(theorem: str, check: Callable[..., Certificate], given: Given) -> str:
    """Return in words what a theorem is about, if that was not given; "" if it was."""
    paper = theorem.partition("/")[0]
    subjects = SUBJECTS[paper]
    names = " or a ".join(subject.__name__ for subject in subjects)
    parameters = inspect.signature(check).parameters
    if isinstance(given.trajectory, SaddleToSaddle) and paper != "incremental":
        return "it is about a run from a start, not about the limit of tiny starts"
    if given.network is not None and not isinstance(given.network, subjects):
        return f"it is about a {names}, not about a {type(given.network).__name__}"
    if given.network is None and "None" not in str(parameters["network"].annotation):
        return f"it is about a given {names}"
    if "target" in parameters and not isinstance(given.data, PiecewiseConstant):
        return f"it is about a piecewise constant target on [0, 1]{_instead(given)}"
    if "dataset" in parameters and not isinstance(given.data, Dataset):
        return f"it is about a data set{_instead(given)}"
    return ""


def _instead(given: Given) -> str:
    if given.data is None:
        return ", and none was given"
    return ", not about samples" if isinstance(given.data, Dataset) else f", not about {shown(given.data)}"


def _arguments(check: Callable[..., Certificate], given: Given) -> list[Any]:
    """Return what a theorem takes by position: the network, the data, and a run that it knows how to read."""
    takes_run = len({"trajectory", "trajectories"} & set(inspect.signature(check).parameters)) > 0
    readable = takes_run and not isinstance(given.trajectory, SaddleToSaddle)
    return [given.network, given.data, *([given.trajectory] if readable else [])]


def _limit(check: Callable[..., Certificate], given: Given) -> dict[str, Any]:
    """Return the limit of tiny starts as the argument that takes it."""
    takes = "limit" in inspect.signature(check).parameters
    return {"limit": given.trajectory} if takes and isinstance(given.trajectory, SaddleToSaddle) else {}
