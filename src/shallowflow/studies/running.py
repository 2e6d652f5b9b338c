"""`run`: compute what a study lacks, keep it, return all of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError
from shallowflow.studies.executors import Executor, RunOutcome, Serial
from shallowflow.studies.store import Store
from shallowflow.studies.study import Result, Run, Study


@dataclass(frozen=True)
class Tally:
    """How far a study is: runs in all, kept from before, computed now, failed now; the last outcome."""

    total: int
    kept: int
    done: int = 0
    failed: int = 0
    last: RunOutcome | None = None

    @property
    def fraction(self) -> float:
        """How much is over, from 0 to 1."""
        return (self.kept + self.done + self.failed) / self.total


Progress = Callable[[Tally], None]


def run(
    study: Study,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a study and return the result of every run, in the order of `study.runs`.

    By default the runs are computed in this process and kept in memory. With a store, runs that have a result
    there are not computed again, and every run that is finished is written down at once; a run that failed is
    tried again. `progress` is called with a `Tally` at the start and after each run.
    """
    (results,) = run_all([study], executor, store, progress)
    return results


def run_all(
    studies: Sequence[Study],
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> list[list[Result]]:
    """Run several studies side by side, as `run` does one."""
    for study in studies:
        if not isinstance(study, Study):
            raise InvalidInputError(f"study: must be a Study, got {shown(study)}")
    if store is not None and not isinstance(store, Store):
        raise InvalidInputError(f"store: must be a Store, got {shown(store)}")
    runs = {one.identity: one for study in studies for one in study.runs}
    if store is not None:
        for study in studies:
            store.plan(study)
    missing = list(runs.values()) if store is None else store.missing(runs.values())
    outcomes = _computed(
        missing, executor or Serial(), store, progress, Tally(len(runs), len(runs) - len(missing))
    )
    if store is not None:
        return [store.results(study.name) for study in studies]
    return [[_in_memory(one, outcomes[one.identity]) for one in study.runs] for study in studies]


def _in_memory(run: Run, outcome: RunOutcome) -> Result:
    return Result(parameters=run.parameters, repeat=run.repeat, attempts=1, **vars(outcome))


def _computed(
    missing: list[Run], executor: Executor, store: Store | None, progress: Progress | None, tally: Tally
) -> dict[str, RunOutcome]:
    """Compute runs, write each down as it is finished, and return the outcomes that no store keeps."""
    show = progress or (lambda tally: None)
    show(tally)
    outcomes: dict[str, RunOutcome] = {}
    if not missing:
        return outcomes
    # Closed at once if writing fails: nothing computes on for a store that takes no more.
    with closing(executor.outcomes(missing)) as finished:
        for outcome in finished:
            if store is None:
                outcomes[outcome.identity] = outcome
            else:
                store.record(outcome)
            done, failed = tally.done + outcome.done, tally.failed + (not outcome.done)
            tally = Tally(tally.total, tally.kept, done, failed, outcome)
            show(tally)
    return outcomes
