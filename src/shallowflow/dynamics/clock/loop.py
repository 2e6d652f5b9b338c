"""The loop: the only one. An engine advances from record to record; a recorder keeps what was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Protocol

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.clock.paths import Snapshots, Table
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.protocol import Engine, Event, N, Path, Piece, Rows, Stop, flatten, unflatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory, end_of_steps, in_words
from shallowflow.errors import InvalidInputError

Progress = Callable[[float], None]
SHORTEST = 1e-150
"""The shortest flow: steps of shorter ones would vanish in rounding."""
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
    A `progress` that has a method `look` is called there, too, with a function that makes the run so far.
    """
    look = getattr(progress, "look", None)
    # Trouble shows in the values: it becomes an outcome.
    with np.errstate(over="ignore", invalid="ignore"):
        engine = make()
        if engine.tick is None and until < SHORTEST:
            raise InvalidInputError(f"until: must be >= {SHORTEST:g}, got {until:g}")
        if engine.tick is not None and engine.reads is None and not np.isfinite(until):
            raise InvalidInputError(f"step, steps: the time step × steps must be finite, got {until:g}")
        recorder, meter = Recorder(engine, record, until, measure), Meter(progress, until, engine.tick)
        stop = recorder.reason(stop_below)
        while stop is None and recorder.time < until:
            piece = engine.advance(min(recorder.target, meter.horizon(recorder.time)), recorder.wants_rows)
            recorder.add(piece)
            meter.show(piece)
            if look is not None:
                look(lambda: _so_far(recorder, engine, setting))
            stop = piece.stop or recorder.reason(stop_below)
        meter.finish()
        statistics, steps = engine.statistics(), recorder.steps
        if recorder.lost:
            recorder.go_back(make())
        times, losses, path, events = recorder.finish()
    counted = {"steps": steps} if engine.tick is not None and engine.reads is None else {}
    if stop is None or stop.code == "overflow":
        ended = "time reached" if engine.tick is None else "moves made"
        stop = Stop(ended if np.isfinite(losses[-1]) else "loss overflow")
        if counted:
            stop = end_of_steps(losses, steps, round(until / (engine.tick or 1.0)))
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


def _so_far(recorder: Recorder[N], engine: Engine[N], setting: Setting) -> Trajectory[N]:
    """Return what a run that goes on has recorded: a trajectory that ends at the last record."""
    times, losses, path, events = recorder.reached()
    known = {"time": float(times[-1]), "loss": float(losses[-1]), "until": float(times[-1])}
    outcome = in_words(Stop("time reached", known))
    return Trajectory(times, losses, path, events, outcome, {"engine": engine.name}, setting)


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
            self._chunk = min(2 * self._chunk, 2**53)  # more than are ever made: it must stay a float
        elif seconds > 2 * PROGRESS_SECONDS:
            self._chunk = max(self._chunk // 2, 1)
        share = float(piece.times[-1]) / self._until if piece.share is None else piece.share
        self._shown = max(self._shown, min(share, 1.0))
        self._progress(self._shown)

    def finish(self) -> None:
        """Report the end."""
        if self._progress is not None and self._shown < 1.0:
            self._progress(1.0)


RESTS = ("rest_times", "rest_neurons", "rest_points")


class Log(Protocol):
    """What an engine of wide networks may offer instead of rows: `engine.log(records)`, None where it gains
    nothing.
    """

    def add(self) -> None:
        """Keep the present network."""

    def table(self) -> Table:
        """Return the networks kept so far."""
        ...


class Recorder(Generic[N]):
    """Gathers times, losses, networks or rows, and events.

    A record wants something either at chosen moments, or at the engine's own steps. A path that can be read
    inside its steps is read at the moments as the pieces come in; other engines are stopped there.
    """

    def __init__(
        self,
        engine: Engine[N],
        record: Record,
        until: float,
        measure: Callable[[N], float] | None = None,
    ) -> None:
        self._engine, self._record, self._measure = engine, record, measure
        self._template = engine.network()
        theta = flatten(self._template)
        self._moments = _moments(engine, record, until)
        self._values = np.empty((1, theta.size))
        if self._moments is not None:
            record.check_memory(len(self._moments), theta.size)
        self._log = self._new_log()
        if self._moments is not None and record.networks and self._log is None:
            self._values = np.empty((len(self._moments), theta.size))
        self._values[0] = theta
        self._until, self.time, self.loss = until, 0.0, engine.loss()
        self._times, self._losses = [0.0], [self.loss]
        self._pieces = list[tuple[Floats, Rows]]()
        self._events, self._rests = list[Event](), list[Rows]()
        self._bytes, self._steps, self._kept, self._overflowed = 0, 0, 1, False

    def _new_log(self) -> Log | None:
        """Return what keeps the networks of a wide engine that is stopped at the moments, the first in it."""
        make = getattr(self._engine, "log", None)
        if make is None or self._moments is None or self._inside or not self._record.networks:
            return None
        log: Log | None = make(len(self._moments))
        if log is not None:
            log.add()
        return log

    @property
    def _inside(self) -> bool:
        """Whether moments are read inside pieces."""
        return self._moments is not None and self._engine.reads is not None and self._engine.reads.alone

    @property
    def wants_rows(self) -> bool:
        """Whether the engine must hand down the rows of its path."""
        if self._moments is None:
            return self._record.networks
        return self._inside and not hasattr(self._engine, "read")

    @property
    def target(self) -> float:
        """The time at which the engine must stop at the latest."""
        if self._moments is None or self._inside or len(self._times) >= len(self._moments):
            return self._until
        return float(self._moments[len(self._times)])

    @property
    def lost(self) -> bool:
        """Whether the last network is wanted, but went with an overflow."""
        return self._overflowed and not self._record.networks

    @property
    def steps(self) -> int:
        """How many steps were made up to the last record, by an engine that ticks."""
        return round(self._times[-1] / self._engine.tick) if self._engine.tick else self._steps

    def add(self, piece: Piece) -> None:
        """Take what an engine has just passed through."""
        room = self._record.max_events - len(self._events)
        if room > 0:
            self._events += piece.events(room)
        if "rest_times" in piece.rows:
            self._rests.append({name: piece.rows[name] for name in RESTS})
        if piece.stop is not None and piece.stop.code == "overflow":
            self._overflowed = True
        elif self._moments is None:
            self._add_steps(piece)
        elif self._inside:
            self._add_moments(piece, self._moments)
        else:
            self._add_stop(piece, self._moments)
        self.time = float(piece.times[-1])

    def _add_steps(self, piece: Piece) -> None:
        """Keep the rows of all steps, and note every k-th loss."""
        count = len(piece.times) - 1
        if count == 0:
            return
        numbers = self._steps + np.arange(1, count + 1)
        self._steps += count
        if self._record.networks:
            self._pieces.append((piece.times, piece.rows))
            self._bytes += sum(rows.nbytes for rows in piece.rows.values())
        # What an engine that ticks keeps is chosen at the end, when the number of steps is known.
        interval = 1 if self._engine.tick is not None else self._record.interval or 1
        chosen = np.flatnonzero(numbers % interval == 0) + 1
        times, losses = piece.times[chosen], self._losses_at(piece, chosen)
        if piece.between is not None and interval == 1:
            times, losses = (np.concatenate(two) for two in zip(piece.between, (times, losses), strict=True))
            order = np.argsort(times, kind="stable")
            times, losses = times[order], losses[order]
        self._times += times.tolist()
        self._losses += losses.tolist()
        if len(losses):
            self.loss = float(losses[-1])

    def _losses_at(self, piece: Piece, chosen: Ints) -> Floats:
        """Return the losses at the ends of the chosen steps of a piece."""
        if piece.losses is not None:
            return piece.losses[chosen]
        if not chosen.size:
            return np.empty(0)
        if chosen.tolist() == [1] and len(piece.times) == 2:
            return np.array([self._engine.loss()])
        path = self._engine.path(piece.times, piece.rows)
        return np.array(self._measured(path.table(piece.times[chosen])))

    def _add_moments(self, piece: Piece, moments: Floats) -> None:
        """Read the path at the moments inside the piece; some engines read their last piece themselves."""
        first = len(self._times)
        last = int(np.searchsorted(moments, piece.times[-1], side="right"))
        if last > first:
            losses, thetas = self._read(piece, moments[first:last])
            if self._record.networks:
                self._values[first:last] = thetas
                self._kept += last - first
            self._times += moments[first:last].tolist()
            self._losses += losses
            self.loss = losses[-1]
        if piece.losses is not None:
            self.loss = float(piece.losses[-1])

    def _read(self, piece: Piece, times: Floats) -> tuple[list[float], Floats | list[Floats]]:
        """Return the losses, and θ where networks are kept, at times inside a piece."""
        read = getattr(self._engine, "read", None)
        if read is not None:
            losses, thetas = read(times, self._record.networks)
            return losses.tolist(), thetas
        table = self._engine.path(piece.times, piece.rows).table(times)
        return self._measured(table), table

    def _measured(self, thetas: Floats) -> list[float]:
        """Return the losses at θ (k, P); some engines know them without building networks."""
        losses = getattr(self._engine, "losses", None)
        if losses is not None:
            return [float(loss) for loss in losses(thetas)]
        assert self._measure is not None, "a path that is read inside its steps comes with a measure"
        return [self._measure(unflatten(self._template, theta)) for theta in thetas]

    def _add_stop(self, piece: Piece, moments: Floats) -> None:
        """Record where the engine stands, if that is a moment."""
        time = float(piece.times[-1])
        if time < moments[len(self._times)]:
            return
        loss = self._engine.loss() if piece.losses is None else float(piece.losses[-1])
        if self._engine.tick is not None and not np.isfinite(loss):
            self._overflowed = True
        else:
            if self._record.networks:
                self._keep()
            self._note(time, loss)

    def _keep(self) -> None:
        """Keep the present network; wide engines write θ without building it, or log what has changed."""
        write, at = getattr(self._engine, "write", None), len(self._times)
        if self._log is not None:
            self._log.add()
        elif write is None:
            flatten(self._engine.network(), self._values[at])
        else:
            write(self._values[at])
        self._kept += 1

    def _note(self, time: float, loss: float) -> None:
        self.loss = loss
        self._times.append(time)
        self._losses.append(loss)

    def reason(self, stop_below: float) -> Stop | None:
        """Return why the run must end here, whatever the engine says."""
        ticks = self._engine.tick is not None
        if self._overflowed or not np.isfinite(self.loss):
            return Stop("overflow" if ticks else "loss overflow")
        if self.loss < stop_below:
            return Stop(f"loss below, {'after steps' if ticks else 'at time'}", {"bound": stop_below})
        if self._bytes > self._record.max_bytes:
            return Stop("memory", {"gigabytes": self._record.max_bytes / 1e9})
        return None

    def go_back(self, engine: Engine[N]) -> None:
        """Take another engine of the same run, and advance it to the last record."""
        if self._times[-1] > 0:
            engine.advance(self._times[-1], False)
        self._engine, self.time, self._overflowed = engine, self._times[-1], False

    def reached(self) -> tuple[Floats, Floats, Path[N], tuple[Event, ...]]:
        """Return times, losses, the path and the events until now, of a record at moments that goes on."""
        assert self._moments is not None, "needs a record at moments"
        kept = slice(0, self._kept)
        times, losses = np.array(self._times)[kept], np.array(self._losses)[kept]
        values = self._values[kept].copy() if self._log is None else self._log.table()
        return times, losses, Snapshots(self._template, times, values), tuple(self._events)

    def finish(self) -> tuple[Floats, Floats, Path[N], tuple[Event, ...]]:
        """Return times, losses, the path and the events."""
        if self._overflowed:
            self.time = self._times[-1]
        elif self._times[-1] < self.time:
            self._note_end()
        times, losses = np.array(self._times), np.array(self._losses)
        path = self._path()
        if self._moments is None and self._engine.tick is not None:
            chosen = _numbers(self._record, len(times) - 1)
            times, losses = times[chosen], losses[chosen]
        return times, losses, path, tuple(self._events)

    def _note_end(self) -> None:
        """Record the loss, and at moments the network, at the time reached."""
        if self._moments is None or not self._record.networks:
            self._note(self.time, self._engine.loss())
        else:
            if self._log is None and len(self._values) == len(self._times):
                self._values = np.concatenate([self._values, np.empty_like(self._values[:1])])
            self._keep()
            self._note(self.time, self._engine.loss())

    def _path(self) -> Path[N]:
        # Also of pieces without a step, which leave no rows.
        rests: dict[str, Any] = {
            name: np.concatenate([each[name] for each in self._rests]) for name in RESTS if self._rests
        }
        if self._pieces:
            times = _joined([times for times, _ in self._pieces], "knots")
            rows = joined_rows(self._engine.reads, [rows for _, rows in self._pieces])
            return self._engine.path(times, {**rows, **rests})
        if self._moments is not None and self._record.networks:
            kept = np.array(self._times)[: self._kept]
            values = self._values[: self._kept] if self._log is None else self._log.table()
            return Snapshots(self._template, kept, values, **rests)
        if self.time == 0:
            return Snapshots(self._template, np.zeros(1), self._values[:1], **rests)
        values = np.array([self._values[0], flatten(self._engine.network())])
        return Snapshots(self._template, np.array([0.0, self.time]), values, sparse=True, **rests)


def _moments(engine: Engine[Any], record: Record, until: float) -> Floats | None:
    """Return the times at which a record wants something; None: at the engine's own steps."""
    if engine.tick is None:
        return record.moments(until, first=1e-6 * until) if np.isfinite(until) else None
    if engine.reads is None:
        return np.asarray(engine.tick * record.indices(round(until / engine.tick), engine.tick), float)
    return None


def _numbers(record: Record, total: int) -> Ints:
    """Return the recorded step numbers of a run that ended after `total` steps: 0, …, total."""
    if total == 0:
        return np.zeros(1, np.int64)
    if record.times is None:
        return record.indices(total, 1.0)
    reached = np.rint(record.times[record.times <= total]).astype(np.int64)
    return np.unique(np.concatenate([[0], reached, [total]]))


def joined_rows(kind: type[Path[Any]] | None, rows: list[Rows]) -> Rows:
    """Return the rows of all pieces as one array per column, joined as the path class says."""
    assert kind is not None, "an engine that hands down rows names the class of its path"
    columns = kind.columns()
    return {name: _joined([each[name] for each in rows], columns[name].join) for name in rows[0]}


def _joined(parts: list[NDArray[Any]], how: str) -> NDArray[Any]:
    if how == "knots":
        return np.concatenate([parts[0], *(part[1:] for part in parts[1:])])
    whole = np.concatenate(parts)
    return np.concatenate([[0], np.cumsum(whole)]).astype(np.int64) if how == "counts" else whole
