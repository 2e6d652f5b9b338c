"""The loop with engines made for the occasion: stops, overflow, memory, records, progress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.anls import Moves
from shallowflow.dynamics.clock.loop import Meter, Progress, run
from shallowflow.dynamics.clock.paths import Polynomials
from shallowflow.dynamics.clock.protocol import Path, Piece, Rows, Statistics, Stop, Ticking, flatten
from shallowflow.dynamics.clock.trajectory import Setting

START = sf.KnotNetwork([0.5], [1.0])
SETTING = Setting("a test")


def place(network: Any) -> float:
    """Return the one parameter that moves."""
    return float(network.knots[0])


class Clockwork(Ticking):
    """Counts: after k steps the knot is at k, and the loss losses[k], or 1/(1 + k)."""

    name = "clockwork"
    made_at: ClassVar = list[int]()
    """Per engine that was made, how many networks it built."""

    def __init__(
        self, tick: float = 0.5, overflow: float = math.inf, losses: Sequence[float] | None = None
    ) -> None:
        super().__init__(tick)
        self._overflow, self._losses, self.cuts = overflow, losses, list[int]()
        Clockwork.made_at.append(0)

    def _steps(self, count: int) -> int:
        self.cuts.append(count)
        return int(min(count, self._overflow - self.made))

    def loss(self) -> float:
        return 1.0 / (1.0 + self.made) if self._losses is None else self._losses[self.made]

    def network(self) -> sf.KnotNetwork:
        Clockwork.made_at[-1] += 1
        return START.moved({"knots": np.array([float(self.made)])})

    def statistics(self) -> Statistics:
        return {"made by it": self.made}


@pytest.fixture(autouse=True)
def _forget() -> None:
    Clockwork.made_at = []


def ticked(
    record: sf.Record,
    steps: int = 20,
    *,
    progress: Progress | None = None,
    stop_below: float = 0.0,
    **options: Any,
) -> sf.Trajectory[sf.KnotNetwork]:
    tick = options.get("tick", 0.5)
    return run(
        lambda: Clockwork(**options),
        record,
        steps * tick,
        setting=SETTING,
        progress=progress,
        stop_below=stop_below,
    )


class Drift:
    """The knot follows the square of the time, in steps of given lengths, several to a piece."""

    name = "drift"
    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(
        self,
        lengths: Sequence[float] = (0.25,) * 100,
        at_once: int = 1,
        stop: tuple[float, Stop] | None = None,
        *,
        known: bool = True,
        losses: dict[float, float] | None = None,
    ) -> None:
        self._lengths, self._at_once, self._stop, self._known = list(lengths), at_once, stop, known
        self._time, self._losses, self.asked = 0.0, losses or {}, list[tuple[float, bool]]()

    def _loss(self, time: float) -> float:
        return self._losses.get(time, math.exp(-time))

    def advance(self, until: float, rows: bool) -> Piece:
        self.asked.append((until, rows))
        times = [self._time]
        for _ in range(self._at_once):
            if times[-1] < until:
                times.append(min(times[-1] + self._lengths.pop(0), until))
        ends = np.array(times)
        inside = np.linspace(0.0, 1.0, 3)  # the nodes of a parabola
        nodes = ends[:-1, None] + np.diff(ends)[:, None] * inside
        values = np.stack([nodes**2, np.ones_like(nodes)], axis=2)
        self._time = times[-1]
        due = self._stop is not None and self._time >= self._stop[0]
        return Piece(
            ends,
            np.array([self._loss(time) for time in times]) if self._known else None,
            rows={"values": values} if rows else {},
            events=lambda most: [sf.Event(time, "on", 0, 0) for time in times[1:]][:most],
            stop=self._stop[1] if due and self._stop is not None else None,
        )

    def loss(self) -> float:
        return self._loss(self._time)

    def network(self) -> sf.KnotNetwork:
        return START.moved({"knots": np.array([self._time**2])})

    def path(self, times: Floats, rows: Rows) -> Polynomials[sf.KnotNetwork]:
        return Polynomials(START.moved({"knots": np.zeros(1)}), times, rows["values"])

    def statistics(self) -> Statistics:
        return {}


def measured(network: Any) -> float:
    """The loss of `Drift`, from its network."""
    return math.exp(-math.sqrt(place(network)))


def drifted(
    record: sf.Record, until: float = 3.0, *, engine: Drift | None = None, **options: Any
) -> sf.Trajectory[sf.KnotNetwork]:
    own = Drift() if engine is None else engine
    return run(lambda: own, record, until, setting=SETTING, measure=measured, **options)


# --- engines that tick


@pytest.mark.parametrize(
    ("record", "numbers"),
    [
        (sf.Record.every(7), [0, 7, 14, 20]),
        (sf.Record.every(1), list(range(21))),
        (sf.Record.every(50), [0, 20]),
        (sf.Record.at([0.0, 1.1, 3.74, 10.0]), [0, 2, 7, 20]),
        (sf.Record.geometric(3), [0, 1, 4, 20]),
    ],
)
@pytest.mark.parametrize("networks", [True, False])
def test_steps_are_recorded_as_asked(record: sf.Record, numbers: list[int], networks: bool) -> None:
    trajectory = ticked(replace(record, networks=networks))
    assert trajectory.times.tolist() == [0.5 * number for number in numbers]
    assert trajectory.losses.tolist() == [1 / (1 + number) for number in numbers]
    kept = numbers if networks else [0, 20]
    assert trajectory.path.times.tolist() == [0.5 * number for number in kept]
    assert [place(trajectory(0.5 * number)) for number in kept] == kept
    assert Clockwork.made_at == [len(kept)]
    assert trajectory.outcome == sf.Outcome("completed", "20 steps, loss 0.047619.")
    assert trajectory.statistics == {"engine": "clockwork", "steps": 20, "made by it": 20}
    assert trajectory.setting == Setting("a test", "clockwork")


def test_times_are_the_same_to_the_last_bit_however_a_run_is_cut() -> None:
    """0.1 × 3 is not 0.1 + 0.1 + 0.1."""
    whole = ticked(sf.Record.every(1), 1000, tick=0.1)
    seen = list[float]()
    cut = ticked(sf.Record.every(10), 1000, tick=0.1, progress=seen.append)
    assert whole.times.tolist() == (0.1 * np.arange(1001)).tolist()
    assert cut.times.tolist() == whole.times[::10].tolist()
    assert len(seen) > 20


def test_a_stop_below_a_loss_comes_at_a_record() -> None:
    """1/(1 + k) < 0.2 from k = 5 on; recorded is every third step."""
    trajectory = ticked(sf.Record.every(3), stop_below=0.2)
    assert trajectory.times.tolist() == [0.0, 1.5, 3.0]
    assert trajectory.outcome.status == "converged"
    assert trajectory.outcome.message == "loss 0.142857 is below 0.2 after 6 steps."
    assert trajectory.statistics["steps"] == 6
    at_once = ticked(sf.Record.every(3), stop_below=2.0)
    assert at_once.times.tolist() == [0.0]
    assert at_once.outcome.message == "loss 1 is below 2 after 0 steps."
    assert place(at_once.final) == 0


@pytest.mark.parametrize("networks", [True, False])
@pytest.mark.parametrize("watched", [True, False])
def test_overflow_goes_back_to_the_last_record(networks: bool, watched: bool) -> None:
    """The tenth step cannot be made; recorded were 0, 4, 8. Only if no network was kept it is made again."""
    seen = list[float]()
    record = sf.Record.every(4, networks=networks)
    trajectory = ticked(record, overflow=9, progress=seen.append if watched else None)
    assert trajectory.times.tolist() == [0.0, 2.0, 4.0]
    assert trajectory.path.times.tolist() == ([0.0, 2.0, 4.0] if networks else [0.0, 4.0])
    assert place(trajectory.final) == 8
    assert trajectory.losses[-1] == 1 / 9
    assert trajectory.outcome.status == "diverged"
    assert trajectory.outcome.message == "a parameter or the loss overflowed after step 8 of 20."
    assert trajectory.statistics["steps"] == 8
    assert trajectory.statistics["made by it"] == 9
    assert Clockwork.made_at == ([3] if networks else [1, 1])
    assert seen[-1:] == ([1.0] if watched else [])


@pytest.mark.parametrize("networks", [True, False])
@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_a_loss_that_is_not_finite_is_an_overflow(networks: bool, loss: float) -> None:
    losses = [1.0] * 8 + [loss] * 20
    trajectory = ticked(sf.Record.every(4, networks=networks), losses=losses)
    assert trajectory.times.tolist() == [0.0, 2.0]
    assert (place(trajectory.final), trajectory.outcome.status) == (4, "diverged")
    assert "after step 4 of 20" in trajectory.outcome.message


@pytest.mark.parametrize("networks", [True, False])
def test_overflow_before_the_first_record_leaves_the_start(networks: bool) -> None:
    trajectory = ticked(sf.Record.every(4, networks=networks), overflow=2)
    assert trajectory.times.tolist() == trajectory.path.times.tolist() == [0.0]
    assert trajectory.final == trajectory.initial
    assert trajectory.outcome.message == "a parameter or the loss overflowed after step 0 of 20."
    none = ticked(sf.Record.every(4, networks=networks), losses=[math.inf] * 30)
    assert none.times.tolist() == [0.0]
    assert none.outcome == sf.Outcome("diverged", "the loss overflowed at the start.", "rescale the data.")


def test_where_the_loss_went_is_judged() -> None:
    rising = ticked(sf.Record.every(1), 2, losses=[1.0, 0.5, 1.1])
    assert rising.outcome == sf.Outcome("unstable", "the loss rose from 1 to 1.1.", "a smaller step.")
    blown = ticked(sf.Record.every(1), 2, losses=[1.0, 200.0, 0.9])
    assert blown.outcome.status == "unstable"
    assert blown.outcome.message == "on the way the loss rose from 1 to 200."
    unseen = ticked(sf.Record.every(2), 2, losses=[1.0, 200.0, 0.9])
    assert unseen.outcome.ok


def test_a_record_that_does_not_fit_is_refused_before_anything_is_done() -> None:
    with pytest.raises(sf.InvalidInputError, match=r"^record: keeping 21 networks of 2 numbers needs"):
        ticked(sf.Record.every(1, max_bytes=300))
    assert ticked(sf.Record.every(1, max_bytes=336)).outcome.ok
    assert ticked(sf.Record.every(1, max_bytes=0, networks=False)).outcome.ok


# --- engines that choose their steps


def test_moments_inside_steps_are_read_and_change_no_step() -> None:
    engine = Drift(at_once=3)
    moments = [0.1, 0.11, 0.25, 1.3, 2.0]
    trajectory = drifted(sf.Record.at(moments), engine=engine)
    assert trajectory.times.tolist() == [0.0, *moments, 3.0]
    assert trajectory.path.kind == "snapshots"
    for time in trajectory.times:
        assert place(trajectory(float(time))) == pytest.approx(time**2, abs=1e-14)
    np.testing.assert_allclose(trajectory.losses, np.exp(-trajectory.times), rtol=1e-12)
    assert engine.asked == [(3.0, True)] * 4
    assert len(trajectory.events) == 12
    assert trajectory.outcome == sf.Outcome("completed", "reached t = 3, loss 0.0497871.")


def test_moments_stop_an_engine_whose_path_cannot_be_read_piece_by_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Polynomials, "alone", False)
    engine = Drift((0.4,) * 50)
    trajectory = drifted(sf.Record.at([0.1, 1.3]), engine=engine)
    assert trajectory.times.tolist() == [0.0, 0.1, 1.3, 3.0]
    assert [place(trajectory(time)) for time in (0.1, 1.3, 3.0)] == [0.1**2, 1.3**2, 9.0]
    assert {until for until, _ in engine.asked} == {0.1, 1.3, 3.0}
    assert not any(rows for _, rows in engine.asked)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("interval", [1, 5])
def test_own_steps_are_kept_and_every_kth_loss(known: bool, at_once: int, interval: int) -> None:
    """The losses may come with the pieces, or be asked for."""
    trajectory = drifted(sf.Record.every(interval), engine=Drift(at_once=at_once, known=known))
    chosen = sorted({*range(0, 13, interval), 12})
    assert trajectory.times.tolist() == [0.25 * number for number in chosen]
    np.testing.assert_allclose(trajectory.losses, np.exp(-trajectory.times), rtol=1e-12)
    assert trajectory.path.times.tolist() == [0.25 * number for number in range(13)]
    for time in (0.0, 0.3, 1.0, 2.999, 3.0):
        assert place(trajectory(time)) == pytest.approx(time**2, abs=1e-14)


def test_losses_inside_steps_are_noted_at_every_step_only() -> None:
    class Between(Drift):
        def advance(self, until: float, rows: bool) -> Piece:
            piece = super().advance(until, rows)
            middle = 0.5 * (piece.times[:-1] + piece.times[1:])
            return replace(piece, between=(middle, np.exp(-middle)))

    every = drifted(sf.Record.every(1), engine=Between(at_once=2))
    assert every.times.tolist() == [0.125 * number for number in range(25)]
    np.testing.assert_allclose(every.losses, np.exp(-every.times), rtol=1e-12)
    some = drifted(sf.Record.every(4), engine=Between(at_once=2))
    assert some.times.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_without_networks_no_rows_are_asked_for() -> None:
    engine = Drift(at_once=2)
    trajectory = drifted(sf.Record.every(1, networks=False), engine=engine)
    assert not any(rows for _, rows in engine.asked)
    assert trajectory.path.times.tolist() == [0.0, 3.0]
    assert (place(trajectory.initial), place(trajectory.final)) == (0.0, 9.0)
    assert len(trajectory.losses) == 13


@pytest.mark.parametrize("record", [sf.Record.every(1), sf.Record.at([1.0, 2.0]), sf.Record.every(9)])
@pytest.mark.parametrize("networks", [True, False])
def test_a_stop_is_where_the_engine_stands(record: sf.Record, networks: bool) -> None:
    """In the middle of everything that was to be recorded: the end is recorded, too."""
    stop = Stop("small gradient", {"norm": 1e-3, "time": 1.5})
    trajectory = drifted(replace(record, networks=networks), engine=Drift(stop=(1.3, stop)))
    assert trajectory.outcome == sf.Outcome("converged", "the gradient fell to 0.001 at t = 1.5.")
    assert trajectory.times[-1] == trajectory.path.times[-1] == 1.5
    assert place(trajectory.final) == pytest.approx(2.25, abs=1e-14)
    assert trajectory.losses[-1] == pytest.approx(math.exp(-1.5), rel=1e-12)


def test_a_piece_without_a_step_is_not_recorded() -> None:
    """Stationary at once: the path is one snapshot."""

    class Still(Drift):
        def advance(self, until: float, rows: bool) -> Piece:
            return Piece(
                np.zeros(1), np.ones(1), rows={"values": np.zeros((0, 3, 2))}, stop=Stop("stationary")
            )

    for record in (sf.Record.every(1), sf.Record.at([1.0]), sf.Record.every(1, networks=False)):
        trajectory = drifted(record, engine=Still())
        assert trajectory.times.tolist() == trajectory.path.times.tolist() == [0.0]
        assert trajectory.outcome.status == "converged"
        assert "at t = 0." in trajectory.outcome.message


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("networks", [True, False])
def test_a_loss_that_leaves_the_numbers_on_the_way_ends_the_flow(networks: bool) -> None:
    class Squares(Drift):
        def _loss(self, time: float) -> float:
            return float(np.float64(1e200) ** time)

    record = sf.Record.every(1, networks=networks)
    trajectory = drifted(record, 8.0, engine=Squares((0.5,) * 100))
    assert trajectory.outcome == sf.Outcome("diverged", "the loss overflowed at t = 2.", "rescale the data.")
    assert np.isinf(trajectory.losses[-1])
    assert np.isfinite(trajectory.losses[:-1]).all()


def test_a_flow_stops_below_a_loss_and_says_when() -> None:
    trajectory = drifted(sf.Record.every(1), stop_below=0.1)
    assert trajectory.times[-1] == 2.5
    assert trajectory.outcome == sf.Outcome("converged", "loss 0.082085 is below 0.1 at t = 2.5.")


def test_a_full_memory_ends_the_run_with_all_that_it_kept() -> None:
    """A step's polynomial takes 48 bytes: the third goes beyond 100."""
    trajectory = drifted(sf.Record.every(1, max_bytes=100))
    assert trajectory.path.times.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert trajectory.outcome.status == "memory"
    assert trajectory.outcome.message == "the record reached its limit of 1e-07 GB at t = 0.75."
    assert "max_bytes" in trajectory.outcome.advice
    assert place(trajectory(0.6)) == pytest.approx(0.36)


def test_events_are_listed_up_to_their_limit() -> None:
    for most in (0, 1, 5, 12, 100):
        trajectory = drifted(sf.Record.every(1, max_events=most), engine=Drift(at_once=5))
        assert [event.time for event in trajectory.events] == [0.25 * k for k in range(1, min(most, 12) + 1)]


# --- a clock that ticks without an end


class Hops:
    """Moves its knot to 1, 2, … in pieces of three; stops after so many."""

    name = "hops"
    tick = 1.0
    reads: ClassVar[type[Path[Any]] | None] = Moves

    def __init__(self, total: int = 40) -> None:
        self._total, self._made = total, 0

    def advance(self, until: float, rows: bool) -> Piece:
        start = self._made
        self._made = int(min(start + 3, until, self._total))
        numbers = np.arange(start, self._made + 1, dtype=float)
        moved = {"neurons": np.zeros(len(numbers) - 1, np.int64), "positions": numbers[1:]}
        stop = Stop("no move") if self._made == self._total else None
        return Piece(numbers, 1 / (1 + numbers), rows=moved, stop=stop, share=self._made / 100)

    def loss(self) -> float:
        return 1.0 / (1.0 + self._made)

    def network(self) -> sf.KnotNetwork:
        return START.moved({"knots": np.array([float(self._made)]), "outer": np.zeros(1)})

    def path(self, times: Floats, rows: Rows) -> Moves:
        x, start = np.array([-2.0, -1.0]), START.moved({"knots": np.zeros(1)})
        return Moves(start, times, rows["neurons"], rows["positions"], np.zeros(1, np.int64), x, x, -x)

    def statistics(self) -> Statistics:
        return {"iterations": self._made}


@pytest.mark.parametrize(
    ("record", "numbers"),
    [
        (sf.Record.every(1), list(range(41))),
        (sf.Record.every(15), [0, 15, 30, 40]),
        (sf.Record.at([3, 12.4, 1e6]), [0, 3, 12, 40]),
        (sf.Record.geometric(3), [0, 1, 6, 40]),
    ],
)
def test_what_is_kept_of_moves_is_chosen_at_the_end(record: sf.Record, numbers: list[int]) -> None:
    """The number of moves is not known before; every one can be read, whatever the record."""
    trajectory = run(Hops, record, math.inf, setting=SETTING)
    assert trajectory.times.tolist() == numbers
    assert trajectory.losses.tolist() == [1 / (1 + number) for number in numbers]
    assert trajectory.path.times.tolist() == list(range(41))
    assert [place(trajectory(number)) for number in range(41)] == list(range(41))
    assert place(trajectory(7.9)) == 7
    assert trajectory.outcome == sf.Outcome("converged", "no move lowers the loss after 40, loss 0.0243902.")
    assert trajectory.statistics == {"engine": "hops", "iterations": 40}


def test_moves_up_to_a_number() -> None:
    trajectory = run(Hops, sf.Record.every(1), 10.0, setting=SETTING)
    assert trajectory.times.tolist() == list(range(11))
    assert trajectory.outcome == sf.Outcome("completed", "10 moves made, loss 0.0909091.")
    none = run(Hops, sf.Record.every(1), 0.0, setting=SETTING)
    assert none.times.tolist() == [0.0]
    assert none.outcome.message == "0 moves made, loss 1."
    bare = run(Hops, sf.Record.every(4, networks=False), 10.0, setting=SETTING)
    assert bare.times.tolist() == [0, 4, 8, 10]
    assert bare.path.times.tolist() == [0, 10]


# --- progress


@pytest.mark.parametrize(
    ("make", "until"), [(Clockwork, 500.0), (Drift, 3.0), (Hops, math.inf), (Hops, 10.0)]
)
def test_progress_rises_and_ends_at_one(make: Any, until: float) -> None:
    seen = list[float]()
    run(make, sf.Record.every(1), until, setting=SETTING, measure=measured, progress=seen.append)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert (seen[-1], seen.count(1.0)) == (1.0, 1)


def test_pieces_grow_until_they_take_a_fraction_of_a_second() -> None:
    """A million steps without a record are cut some twenty times, not a million."""
    engine, seen = Clockwork(), list[float]()
    run(lambda: engine, sf.Record.every(10**6), 5e5, setting=SETTING, progress=seen.append)
    assert engine.cuts == [2**k for k in range(19)] + [10**6 - 2**19 + 1]
    assert len(seen) == 20
    silent = Clockwork()
    run(lambda: silent, sf.Record.every(10**6), 5e5, setting=SETTING)
    assert silent.cuts == [10**6]


def test_pieces_shrink_where_they_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("shallowflow.dynamics.clock.loop.time.perf_counter", lambda: now[0])
    meter, lengths = Meter(lambda share: None, 1000.0, 1.0), list[int]()
    for seconds in (0.0, 0.0, 0.0, 1.0, 0.2, 1.0, 1.0, 1.0, 1.0, 0.0):
        lengths.append(round(meter.horizon(10.0)) - 10)
        now[0] += seconds
        meter.show(Piece(np.array([10.0, 11.0])))
    assert lengths == [1, 2, 4, 8, 4, 4, 2, 1, 1, 1]


def test_thousands_of_short_pieces_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shallowflow.dynamics.clock.loop.time.perf_counter", lambda: 0.0)
    meter = Meter(lambda share: None, 1e7, 0.01)
    for _ in range(3000):
        assert np.isfinite(meter.horizon(5.0))
        meter.show(Piece(np.array([5.0, 5.01])))


def test_the_networks_of_a_run_are_its_own() -> None:
    """Recorded values are copies: an engine goes on writing into its arrays."""
    trajectory = ticked(sf.Record.every(1), 3)
    table = trajectory.path.recorded()
    assert table.tolist() == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    assert flatten(trajectory.final).tolist() == [3.0, 1.0]


def test_a_run_that_goes_on_is_told_as_far_as_it_is_recorded() -> None:
    seen = list[sf.Trajectory]()

    class Watch:
        """A progress that looks at the run so far."""

        def __call__(self, share: float) -> None:
            pass

        def look(self, make: Any) -> None:
            seen.append(make())

    network, dataset = (
        sf.ReLUNetwork([[1.0, 0.5], [-0.3, 1.0]], [1.0, -0.5]),
        sf.Dataset(np.eye(2), [1.0, -1.0]),
    )
    options: dict[str, Any] = {"step": 0.1, "steps": 40, "record": sf.Record.every(10)}
    whole = sf.gradient_descent(network, dataset, progress=Watch(), **options)
    assert seen
    for part in seen:
        count = len(part.times)
        assert part.times.tolist() == whole.times[:count].tolist()
        assert part.losses.tolist() == whole.losses[:count].tolist()
        assert part.outcome.message == f"reached t = {part.times[-1]:g}, loss {part.losses[-1]:g}."


def test_a_flow_that_overflows_before_it_begins_is_its_start_and_an_outcome() -> None:
    network = sf.ReLUNetwork([[1e200, 1.0]], [1e200])
    trajectory = sf.gradient_flow(network, sf.Dataset([[1.0, 0.5]], [1.0]), until=1.0)
    assert trajectory.outcome.status == "diverged"
    assert trajectory.times.tolist() == [0.0]
    assert trajectory.losses.tolist() == [np.inf]
    assert trajectory.final == network


def test_moves_that_cannot_be_measured_are_no_completed_run() -> None:
    network = sf.KnotNetwork([-1e308, 1e308], [1.0, 0.2])
    trajectory = sf.active_neuron_least_squares(network, sf.Dataset([[0.0], [1.0]], [1.0, -1.0]))
    assert not np.isfinite(trajectory.losses[-1])
    assert trajectory.outcome.status == "diverged"
    assert not trajectory.outcome.ok
