"""The few errors that shallowflow raises; numerical trouble is an `Outcome`, never an exception."""

from __future__ import annotations

from collections.abc import Iterable

ALIKE = 0.7
"""How much a word must resemble another, from 0 to 1, to be offered in its place."""


class ShallowflowError(Exception):
    """Base of every error raised on purpose by shallowflow."""


class InvalidInputError(ShallowflowError, ValueError):
    """An argument breaks its rule; the message names the argument, the rule and the value received."""


class FileFormatError(ShallowflowError, ValueError):
    """A file cannot be read as what it should be; the message names the file and what is wrong."""


class StoreError(ShallowflowError):
    """A store of results cannot be opened, read or written; the message names it and says what to do."""


class UnknownNameError(InvalidInputError, KeyError):
    """A table has no entry of that name; the message lists the names there are."""

    __str__ = Exception.__str__  # KeyError would quote the message


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with what is closest to a mistyped word, or nothing if nothing is close.

    Case may differ, and of a name such as plateau/theorem-3.1 the last part will do.
    """
    from difflib import get_close_matches

    if not isinstance(word, str):
        return ""
    words = tuple(known)
    for part in (str, str.casefold, _last_part):
        parts = [part(one) for one in words]
        close = get_close_matches(part(word), parts, n=1, cutoff=ALIKE)
        if close:
            meant = [one for one, its in zip(words, parts, strict=True) if its == close[0]]
            return f"; did you mean {' or '.join(meant)}?"
    return ""


def _last_part(name: str) -> str:
    return name.casefold().rpartition("/")[2]
