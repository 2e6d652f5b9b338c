"""`Experiment`: one figure or table of a paper as data. `Reproduction`: what came out. `Claim`: does it hold?

**Claims.** A `Claim` is a published statement, what was measured, and whether it holds, fails or is open. The
statistics of claims are here and nowhere else: an `Interval` says how well a number is known, and
`Claim.that` compares it with the tolerance that decides.

**Findings** are kept as one JSON text, every array in them as an array of its own beside it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, FrozenArrays, flag, one_of
from shallowflow.errors import FileFormatError, ShallowflowError
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.studies import Executor, Result, Store, Study, Tally, run

LEVEL = 0.95
"""Of intervals."""
WORDS = {True: "holds", False: "fails", None: "open"}


@dataclass(frozen=True)
class Interval:
    """A measured number with the 95 % interval in which it is known to lie."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Self:
        """Return a number without an error of sampling: computed, not estimated."""
        return cls(float(value), float(value), float(value))

    @classmethod
    def of_share(cls, successes: int, trials: int) -> Self:
        """Return a share with its interval of Clopper and Pearson.

        Examples
        --------
        >>> print(Interval.of_share(9, 10))
        0.9 [0.555, 0.997]
        """
        from scipy.stats import beta

        tail = (1 - LEVEL) / 2
        low = beta.ppf(tail, successes, trials - successes + 1) if successes > 0 else 0.0
        high = beta.ppf(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
        return cls(successes / trials, float(low), float(high))

    @classmethod
    def of_mean(cls, values: Sequence[float] | Floats) -> Self:
        """Return a mean with Student's interval; from one value nothing is known but the value."""
        from scipy.stats import t

        found = np.asarray(values, dtype=float)
        if len(found) < 2:
            return cls(float(found.mean()), -inf, inf)
        reach = t.ppf((1 + LEVEL) / 2, len(found) - 1) * found.std(ddof=1) / sqrt(len(found))
        return cls(float(found.mean()), float(found.mean() - reach), float(found.mean() + reach))

    @classmethod
    def of_median(cls, values: Sequence[float] | Floats) -> Self:
        """Return a median with the interval of order statistics, whatever the law; six values at least.

        Examples
        --------
        >>> print(Interval.of_median(range(1, 21)))
        10.5 [6, 15]
        """
        from scipy.stats import binom

        found = np.sort(np.asarray(values, dtype=float))
        # The k-th smallest and the k-th largest: the median lies outside with a probability of 2 P(B < k).
        k = int(binom.ppf((1 - LEVEL) / 2, len(found), 0.5))
        if k < 1:
            return cls(float(np.median(found)), -inf, inf)
        return cls(float(np.median(found)), float(found[k - 1]), float(found[-k]))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.value:.3g}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def within(self, least: float = -inf, most: float = inf) -> bool | None:
        """Return whether least ≤ number ≤ most: None where the interval contains both answers."""
        if self.low >= least and self.high <= most:
            return True
        return False if self.high < least or self.low > most or self.low != self.low else None


@dataclass(frozen=True)
class Claim:
    """A published statement beside what was measured here.

    holds: True, False, or None, which is *open*: the interval does not decide, or this scale cannot tell.
    reason: in one line why not, or what it hangs on. fails_if: what would make it fail, with the tolerance.
    ours: not in the paper, but asked by us. setting: which reading of the paper it is judged in ("printed",
    "authors", …), where there are several; a report shows claims of one statement side by side.
    """

    statement: str
    published: str
    measured: str
    holds: bool | None
    reason: str = ""
    fails_if: str = ""
    ours: bool = False
    setting: str = ""

    def __post_init__(self) -> None:
        # A comparison of NumPy numbers is not a plain bool, and JSON holds only those.
        object.__setattr__(self, "holds", None if self.holds is None else flag(self.holds, "holds"))

    @classmethod
    def that(
        cls,
        statement: str,
        published: str,
        found: Interval,
        *,
        least: float = -inf,
        most: float = inf,
        words: str = "{}",
        reason: str = "",
        ours: bool = False,
        setting: str = "",
    ) -> Self:
        """Return the claim that least ≤ found ≤ most; `words` says what the number is, {} is its place.

        Examples
        --------
        >>> Claim.that("most starts", "0.9", Interval.of_share(8, 10), least=0.9, words="share {}")
        Claim(open: most starts; measured share 0.8 [0.444, 0.975]; fails below 0.9)
        >>> Claim.that("most starts", "0.9", Interval.of_share(2, 10), least=0.9).word
        'fails'
        """
        bounds = [f"below {least:g}"] * (least > -inf) + [f"above {most:g}"] * (most < inf)
        return cls(
            statement,
            published,
            words.format(found),
            found.within(least, most),
            reason,
            " or ".join(bounds),
            ours,
            setting,
        )

    @property
    def word(self) -> str:
        """Return "holds", "fails" or "open"."""
        return WORDS[self.holds]

    def __repr__(self) -> str:
        ending = f"; fails {self.fails_if}" if self.fails_if else ""
        return f"Claim({self.word}: {self.statement}; measured {self.measured}{ending})"


def apart(claims: Iterable[Claim]) -> tuple[list[Claim], list[Claim]]:
    """Return the papers' claims and ours."""
    listed = list(claims)
    return [one for one in listed if not one.ours], [one for one in listed if one.ours]


def tally(claims: Sequence[Claim]) -> dict[str, int]:
    """Return how many claims hold, fail and are open."""
    counted = {"hold": True, "fail": False, "open": None}
    return {word: sum(claim.holds is answer for claim in claims) for word, answer in counted.items()}


def tally_text(claims: Sequence[Claim]) -> str:
    """Return the count in words.

    Examples
    --------
    >>> tally_text([Claim("a", "", "", True), Claim("b", "", "", None)])
    '1 of 2 claims hold, 1 is open'
    """
    found = tally(claims)
    parts = [f"{found['hold']} of {len(claims)} claims hold"]
    for word, one, many in (("fail", "fails", "fail"), ("open", "is open", "are open")):
        if found[word]:
            parts.append(f"{found[word]} {one if found[word] == 1 else many}")
    return ", ".join(parts)


PAPERS = ("two_timescale", "early_alignment", "incremental", "weak_interaction", "plateau")
SCALES = ("quick", "paper")

Progress = Callable[[float, str], None]
"""Called with the fraction done and what is being done."""
Sweep = Callable[[Study], list[Result]]
"""Runs a study wherever the caller wants it run, and returns a result with metrics for every run."""
Values = Mapping[str, Any]
"""What an experiment runs with at one scale, by name."""


def scales(shared: Values, *, quick: Values | None = None, paper: Values | None = None) -> dict[str, Values]:
    """Return the parameters by scale: what both scales share, and what only one of them has."""
    return {"quick": {**shared, **(quick or {})}, "paper": {**shared, **(paper or {})}}


def part(progress: Progress, number: int, total: int, doing: str) -> Callable[[float], None]:
    """Return the function that shows how far one of several equal parts is."""
    return lambda fraction: progress((number + fraction) / total, doing)


@dataclass(frozen=True)
class Findings:
    """What the run of an experiment returns: figures, claims, and perhaps animations."""

    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    animations: tuple[Animation, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper: its name "paper/what", parameters per scale, and how to run it.

    `run(parameters, progress)` returns findings; quick scale is a smaller run of the same code. An experiment
    that `sweeps`, that is made of many independent trainings, has `run(parameters, progress, sweep)` instead
    and hands them to `sweep` as a `Study`. `cost` is the measured CPU time in seconds by scale (see `batch`).
    """

    name: str
    title: str
    source: str
    parameters: Mapping[str, Values]
    run: Callable[..., Findings]
    cost: Mapping[str, float] = field(default_factory=dict)
    sweeps: bool = False

    @property
    def paper(self) -> str:
        """The paper's word."""
        return self.name.split("/")[0]

    def reproduce(
        self,
        scale: str = "quick",
        progress: Progress | None = None,
        *,
        executor: Executor | None = None,
        store: Store | None = None,
    ) -> Reproduction:
        """Run the experiment at a scale; its sweeps, if it has any, on an executor and in a store."""
        one_of(scale, "scale", SCALES)
        parameters = self.parameters[scale]
        show = progress or (lambda fraction, doing: None)
        start = time.perf_counter()
        sweep = (_sweep(show, executor, store),) if self.sweeps else ()
        findings = self.run(parameters, show, *sweep)
        seconds = time.perf_counter() - start
        return Reproduction(self, scale, parameters, seconds=seconds, **vars(findings))


@dataclass(frozen=True)
class Reproduction:
    """The result of an experiment: figure data and claims, with the parameters and the time it took.

    An experiment that could not be run to its end has an `error` instead of figures and claims. `versions`
    are those of the packages that computed it, if it was computed earlier.
    """

    experiment: Experiment
    scale: str
    parameters: Values
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    seconds: float
    animations: tuple[Animation, ...] = ()
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        ending = f"error: {self.error.splitlines()[0]}" if self.error else tally_text(self.claims)
        return f"Reproduction({self.experiment.name}, {self.scale}, {ending})"

    @property
    def holds(self) -> bool:
        """Whether every claim came out."""
        return not self.error and all(claim.holds for claim in self.claims)


def _sweep(show: Progress, executor: Executor | None, store: Store | None) -> Sweep:
    """Return the function that runs an experiment's studies and refuses to go on if a run is missing."""

    def sweep(study: Study) -> list[Result]:
        def count(tally: Tally) -> None:
            show(tally.fraction, f"{study.name}: {tally.kept + tally.done} of {tally.total} runs")

        results = run(study, executor, store, count)
        failures = [result for result in results if not result.done]
        if failures:
            first = failures[0].error
            raise ShallowflowError(
                f"{len(failures)} of {len(results)} runs of {study.name} failed; the first: {first}"
            )
        return results

    return sweep


TEXT = "findings"
KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Findings, Claim, Interval, Figure, Panel, Series, Animation)
}
"""What findings are made of, by name."""


def to_outputs(findings: Findings) -> dict[str, float | NDArray[Any]]:
    """Return what a task returns: the numbers of claims, and everything as arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_encoded(findings, arrays))
    arrays[TEXT] = np.frombuffer(text.encode(), dtype=np.uint8)
    found = tally(findings.claims)
    counts = {"claims": float(len(findings.claims)), "claims_that_hold": float(found["hold"])}
    return {**counts, "claims_open": float(found["open"]), **arrays}


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Findings:
    """Return the findings that `to_outputs` wrote."""
    try:
        findings = _decoded(json.loads(arrays[TEXT].tobytes()), arrays)
    except (LookupError, ValueError, TypeError) as error:
        raise FileFormatError(f"the stored findings cannot be read: {error}") from error
    if not isinstance(findings, Findings):
        raise FileFormatError("the stored arrays are not findings")
    return findings


def _encoded(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in KINDS:
        fields = {name: _encoded(entry, arrays) for name, entry in vars(value).items()}
        return {"kind": type(value).__name__, "fields": fields}
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(k, arrays), _encoded(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_encoded(entry, arrays) for entry in value]
    return value


def _decoded(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(entry, arrays) for entry in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "mapping" in value:
        return {_decoded(k, arrays): _decoded(v, arrays) for k, v in value["mapping"]}
    kind = KINDS[value["kind"]]
    made = kind.__new__(kind)
    # The fields were checked when the value was first made; its arrays become read-only again.
    vars(made).update({name: _decoded(entry, arrays) for name, entry in value["fields"].items()})
    if isinstance(made, FrozenArrays):
        FrozenArrays.__post_init__(made)
    return made
