"""`Claim`: a published statement, what was measured, and whether it holds, fails or is open.

The statistics of claims are here and nowhere else: an `Interval` says how well a number is known, and
`Claim.that` compares it with the tolerance that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Self

import numpy as np

from shallowflow.arrays import Floats, flag

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
