"""`story`: what happened in a run, chapter by chapter, in plain words.

Chapters come from the loss curve (`readings.curves`); their names from where they are in the run and, if
the data are known, from the networks: how large the output is, which neurons are awake, where the floors are.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, public
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import census_of, neurons_of
from shallowflow.landscape.geometry.floors import pattern_floor
from shallowflow.lazy import function
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork
from shallowflow.readings.curves import SLOW_FALL, Stretch, stretches
from shallowflow.readings.diagnosis import AT_THE_FLOOR, Diagnosis, diagnose

SCHEMA = "shallowflow/story/1"
SMALL = 0.05
"""Outputs below this share of the targets (rms) are small: the network is still at its start."""
SLOWLY = 0.7
"""A plateau that ends below this share of its first loss is slow, not level."""
MOMENTS = 30
WORK = 2e8
"""Operations that the floors over time may take, roughly."""
PAPERS = {
    "alignment": "early_alignment",
    "jump": "incremental",
    "plateau": "plateau",
    "descent": "plateau",
    "decay": "weak_interaction",
    "waiting": "incremental",
    "stuck": "early_alignment",
}
"""The paper that explains a chapter."""


@dataclass(frozen=True)
class Chapter:
    """A part of a run: name, times, losses at its ends, events in it, a sentence, the paper that explains it.

    awake, effective_width: at its end, None where the networks are not known.
    """

    name: str
    start: float
    end: float
    loss_before: float
    loss_after: float
    events: int
    awake: int | None
    effective_width: int | None
    sentence: str
    paper: str


@dataclass(frozen=True, eq=False, repr=False)
class Story(FrozenArrays):
    """A run in chapters, and its neurons and floors over time.

    times, losses: the record; moments (k,): when the neurons were counted: awake, dormant, dead,
    effective_width (k,), and the floors of the awake and of all neurons (k,) (NaN: no floor; the square loss
    only); end: the diagnosis of the last network, None where the data are not known.
    """

    chapters: tuple[Chapter, ...]
    times: Floats
    losses: Floats
    moments: Floats
    awake: Ints
    dormant: Ints
    dead: Ints
    effective_width: Ints
    floor_awake: Floats
    floor_every: Floats
    end: Diagnosis | None = None

    def text(self) -> str:
        """Return the chapters in sentences, and the diagnosis of the end."""
        lines = [chapter.sentence for chapter in self.chapters]
        if self.end is not None:
            lines += ["", "At the end:", self.end.text()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Story({', '.join(chapter.name for chapter in self.chapters)})"

    def figure(self) -> Any:
        """Return an `experiments.Figure`: the loss with chapters as bands and floors beneath, and the neurons
        awake."""
        return function("shallowflow.reporting.figures.runs:story_figure")(self)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return the figure drawn by matplotlib, or write it to a .png or .svg file."""
        return function("shallowflow.reporting.figures.runs:plot_reading")(self, path)

    def to_json(self) -> str:
        """Return chapters, counts and floors over time as JSON, with a schema; None: no floor."""
        counted = {
            name: getattr(self, name).tolist()
            for name in ("moments", "awake", "dormant", "dead", "effective_width")
        }
        for name in ("floor_awake", "floor_every"):
            counted[name] = [level if np.isfinite(level) else None for level in getattr(self, name).tolist()]
        end = None if self.end is None else self.end.to_dict()
        content = {"schema": SCHEMA, "chapters": [asdict(c) for c in self.chapters], **counted, "end": end}
        return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)


@public
def story(trajectory: Trajectory, data: Dataset | None = None, *, loss: Loss | None = None) -> Story:
    """Return a run as a story: alignment, jump, plateau, descent, decay, waiting, stuck.

    data, loss: where the trajectory does not say them itself. Without data the chapters come from the losses
    alone.

    Examples
    --------
    >>> import shallowflow as sf
    >>> three = sf.data.GENERATORS["three_points"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), three, until=200.0)
    >>> sf.story(run)
    Story(alignment, jump, stuck)
    """
    setting = checked_trajectory(trajectory).setting
    known = setting.data if isinstance(setting.data, Dataset) else None
    if data is not None and known is not None and data != known:
        raise InvalidInputError("data: the trajectory was made with other data")
    dataset = known if known is not None else data
    given = setting.loss if setting.loss is not None else loss
    square = SquareLoss() if given is None else given
    reader = _Reader(trajectory, dataset, square)
    end = reader.diagnosis()
    found = stretches(trajectory.times, trajectory.losses)
    names = [reader.name(found, i, end) for i in range(len(found))]
    chapters = tuple(reader.chapter(name, stretch) for name, stretch in zip(names, found, strict=True))
    return Story(chapters, trajectory.times, trajectory.losses, *reader.counted(), end=end)


class _Reader:
    """A trajectory, its data (if known) and its loss."""

    def __init__(self, trajectory: Trajectory, dataset: Dataset | None, loss: Loss) -> None:
        self.trajectory, self.dataset, self.loss = trajectory, dataset, loss
        kinked = isinstance(trajectory.path.template, ReLUNetwork | LogScaledNetwork | KnotNetwork)
        usable = isinstance(loss, SquareLoss | LogisticLoss)
        self.readable = dataset is not None and kinked and usable

    def network(self, time: float) -> Network | None:
        """Return the network at a time, None if it was not kept."""
        try:
            return self.trajectory(time)
        except InvalidInputError:
            return None

    def diagnosis(self) -> Diagnosis | None:
        """Return the diagnosis of the last network."""
        setting = self.trajectory.setting
        if not self.readable or self.dataset is None or not np.isfinite(self.trajectory.losses[-1]):
            return None
        last = float(self.trajectory.path.times[-1])
        return diagnose(
            self.trajectory.final,  # type: ignore[arg-type]
            self.dataset,
            loss=self.loss,
            step=setting.step,
            speed=setting.speed or 1.0,
            resting=self.trajectory.resting(last),
        )

    def name(self, found: list[Stretch], i: int, end: Diagnosis | None) -> str:
        """Return the name of a stretch."""
        stretch, last = found[i], i == len(found) - 1
        if stretch.fast:
            return "decay" if last else "descent" if i == 0 else "jump"
        if i == 0 and self.small(stretch.start) and not (last and end is not None and end.cure == "restart"):
            return "alignment"
        return self.last_name(stretch, end) if last else "plateau"

    def small(self, time: float) -> bool:
        """Whether the outputs at a time are small beside the targets."""
        network = self.network(time)
        if network is None or self.dataset is None:
            return False
        outputs, targets = network.predict(self.dataset.inputs), self.dataset.targets
        return bool(np.linalg.norm(outputs) < SMALL * np.linalg.norm(targets))

    def last_name(self, stretch: Stretch, end: Diagnosis | None) -> str:
        """Return the name of a slow stretch at the end of a run."""
        middle = 0.5 * (stretch.start + stretch.end)
        halfway, final = self.loss_at(middle), self.loss_at(stretch.end)
        if final <= 0 or np.log(halfway / final) >= SLOW_FALL:
            return "decay"
        if end is None or end.cure in ("restart", "grow"):
            return "waiting" if end is not None and end.exit is not None and end.exit.reached else "stuck"
        if end.exit is not None and end.exit.reached:
            levels = end.floors
            if levels is None or (end.loss <= AT_THE_FLOOR * levels.awake and levels.every < levels.awake):
                return "waiting"
        return "plateau" if end.cure != "none" or end.loss > 1e-10 * end.baseline else "decay"

    def loss_at(self, time: float) -> float:
        """Return the least loss recorded up to a time."""
        until = int(np.searchsorted(self.trajectory.times, time, side="right"))
        return float(np.min(self.trajectory.losses[: max(until, 1)]))

    def chapter(self, name: str, stretch: Stretch) -> Chapter:
        """Return a chapter with its numbers and its sentence."""
        before, after = self.loss_at(stretch.start), self.loss_at(stretch.end)
        moments = np.array([event.time for event in self.trajectory.events])
        events = int(np.sum((moments > stretch.start) & (moments <= stretch.end)))
        network = self.network(stretch.end) if self.readable else None
        awake = width = None
        if network is not None and self.dataset is not None:
            resting = self.trajectory.resting(stretch.end)
            neurons = neurons_of(network, self.dataset, resting)
            found = census_of(neurons, network, self.dataset, self.loss)
            awake, width = int(found.awake.sum()), found.effective_width
        sentence = _sentence(name, stretch, (before, after), events, awake, width)
        numbers = (stretch.start, stretch.end, before, after, events, awake, width)
        return Chapter(name, *numbers, sentence, PAPERS[name])

    def counted(self) -> tuple[Floats, Ints, Ints, Ints, Ints, Floats, Floats]:
        """Return moments, counts of neurons and floors over time."""
        empty = np.zeros(0, np.int64)
        if not self.readable or self.dataset is None:
            return np.zeros(0), empty, empty, empty, empty, np.zeros(0), np.zeros(0)
        dataset, template = self.dataset, self.trajectory.path.template
        work = dataset.size**2 * template.width * dataset.dimension
        moments = _moments(self.trajectory, int(np.clip(WORK / work, 8, MOMENTS)))
        counts, levels = [], []
        for time in moments.tolist():
            network = self.trajectory(time)
            neurons = neurons_of(network, dataset, self.trajectory.resting(time))
            found = census_of(neurons, network, dataset, self.loss)
            sizes = (found.awake.sum(), found.dormant.sum(), found.dead.sum(), found.effective_width)
            counts.append([int(size) for size in sizes])
            both = [np.nan, np.nan]
            if isinstance(self.loss, SquareLoss):
                weight = self.loss.weight(dataset.size)
                floors = [
                    pattern_floor(neurons, dataset.targets, weight, which) for which in (found.awake, None)
                ]
                both = [np.nan if floor.interpolates else floor.level for floor in floors]
            levels.append(both)
        awake, dormant, dead, effective = np.array(counts, dtype=np.int64).T
        lower, lowest = np.array(levels).T
        return moments, awake, dormant, dead, effective, lower, lowest


def _moments(trajectory: Trajectory, count: int) -> Floats:
    """Return times at which the networks are read: recorded ones, evenly by number and by time."""
    recorded = trajectory.path.times
    evenly = np.linspace(0, len(recorded) - 1, count // 2).astype(np.int64)
    spread = np.linspace(recorded[0], recorded[-1], count - count // 2)
    nearest = np.clip(np.searchsorted(recorded, spread), 0, len(recorded) - 1)
    return np.asarray(np.unique(recorded[np.concatenate([evenly, nearest, [0, len(recorded) - 1]])]))


def _sentence(
    name: str,
    stretch: Stretch,
    losses: tuple[float, float],
    events: int,
    awake: int | None,
    width: int | None,
) -> str:
    before, after = losses
    fall = f"from {before:.4g} to {after:.4g}"
    said = {
        "alignment": f"neurons turn and stay small; the loss stays near {after:.4g}",
        "jump": f"the loss falls {fall}",
        "plateau": f"the loss {'falls slowly' if after < SLOWLY * before else 'hardly moves'}, {fall}",
        "descent": f"a fast first descent, {fall}",
        "decay": f"the loss falls steadily {fall}",
        "waiting": f"the loss stands at {after:.4g}, and dormant neurons grow",
        "stuck": f"the loss stands at {after:.4g}",
    }[name]
    parts = [f"{name.capitalize()}, t = {stretch.start:.4g} to {stretch.end:.4g}: {said}"]
    if events:
        parts.append(f"{events} {'event' if events == 1 else 'events'}")
    if awake is not None and width is not None:
        acting = f" acting as {width}" if width < awake else ""
        parts.append(f"{awake} {'neuron' if awake == 1 else 'neurons'} awake at its end{acting}")
    return "; ".join(parts) + "."
