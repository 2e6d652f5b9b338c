"""The verdict of [two_timescale] on a data set: its theorems are about targets, not samples."""

from __future__ import annotations

from shallowflow.certificates.verdict import Question, Verdict

WORDS = (
    "Does not apply: it is about piecewise constant functions on [0, 1], not about samples. "
    "`certify('two_timescale/theorem-1', …)` takes a `PiecewiseConstant` target; "
    "`StepRegressor` fits steps to samples."
)


def verdict(question: Question) -> Verdict:
    """Return that the paper says nothing about samples, and what to use instead."""
    return Verdict("two_timescale", None, (WORDS,))
