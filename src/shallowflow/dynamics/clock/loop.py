"""The loop: the only one. An engine advances from record to record; what it passed through is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shallowflow.dynamics.clock.outcomes import end_of_steps, in_words
from shallowflow.dynamics.clock.paths import N, Snapshots, flatten
from shallowflow.dynamics.clock.protocol import Engine, Piece, Stop
from shallowflow.dynamics.clock.record import Record
from shallowflow.dynamics.clock.recorder import Recorder
from shallowflow.dynamics.clock.setting import Setting
from shallowflow.dynamics.clock.trajectory import Trajectory

Progress = Callable[[float], None]
PROGRESS_SECONDS = 0.2


def run(
    make: Callable[[], Engine[N]],
    record: Record,
    until: float,
    *,
    setting: Setting,
    measure: Callable[[N], float] | None = None,
    progress: Progress | None = None,
    stop_below: float = 0.0,
) -> Trajectory[N]:
    """Run an engine to the time `until`, or until it or the record stops.

    measure: network → loss, for paths that are read inside their steps. The run ends early, converged, at the
    first recorded loss below `stop_below`. `make` is called again only if a run overflowed and its last
    finite network was not kept: runs are deterministic, so it is found by making the run again up to there.
    """
    # Trouble shows in the values: it becomes an outcome.
    with np.errstate(over="ignore", invalid="ignore"):
        engine = make()
        recorder, meter = Recorder(engine, record, until, measure), Meter(progress, until, engine.tick)
        stop = recorder.reason(stop_below)
        while stop is None and recorder.time < until:
            piece = engine.advance(min(recorder.target, meter.horizon(recorder.time)), recorder.wants_rows)
            recorder.add(piece)
            meter.show(piece)
            stop = piece.stop or recorder.reason(stop_below)
        meter.finish()
        statistics, steps = engine.statistics(), recorder.steps
        if recorder.lost:
            recorder.go_back(make())
        times, losses, path, events = recorder.finish()
    counted = {"steps": steps} if engine.tick is not None and engine.reads is None else {}
    if stop is None or stop.code == "overflow":
        if counted:
            stop = end_of_steps(losses, steps, round(until / (engine.tick or 1.0)))
        else:
            stop = Stop("time reached" if engine.tick is None else "moves made")
    known = {"time": float(path.times[-1]), "loss": float(losses[-1]), "until": until, "made": steps}
    return Trajectory(
        times,
        losses,
        path,
        events,
        in_words(Stop(stop.code, {**known, **stop.numbers})),
        {"engine": engine.name, **counted, **statistics},
        replace(setting, engine=engine.name),
    )


def not_begun(network: N, loss: float, setting: Setting) -> Trajectory[N]:
    """Return the trajectory of a flow whose loss overflows at the start."""
    path = Snapshots(network, np.zeros(1), flatten(network)[None])
    outcome = in_words(Stop("loss overflow", {"time": 0.0}))
    return Trajectory(np.zeros(1), np.array([loss]), path, (), outcome, {"engine": "none"}, setting)


class Meter:
    """Shows progress: cuts a run that ticks into chunks of a fraction of a second."""

    def __init__(self, progress: Progress | None, until: float, tick: float | None) -> None:
        self._progress, self._until, self._tick = progress, until, tick
        self._chunk, self._shown, self._begun = 1, 0.0, 0.0

    def horizon(self, now: float) -> float:
        """Return the time at which the next piece must end at the latest, so that progress can be shown."""
        if self._progress is None or self._tick is None:
            return np.inf
        self._begun = time.perf_counter()
        return (round(now / self._tick) + self._chunk) * self._tick

    def show(self, piece: Piece) -> None:
        """Report a piece that is done."""
        if self._progress is None:
            return
        seconds = time.perf_counter() - self._begun
        if seconds < PROGRESS_SECONDS / 2:
            self._chunk *= 2
        elif seconds > 2 * PROGRESS_SECONDS:
            self._chunk = max(self._chunk // 2, 1)
        share = float(piece.times[-1]) / self._until if piece.share is None else piece.share
        self._shown = max(self._shown, min(share, 1.0))
        self._progress(self._shown)

    def finish(self) -> None:
        """Report the end."""
        if self._progress is not None and self._shown < 1.0:
            self._progress(1.0)
