"""Descent of a `ReLUNetwork` by groups of neurons that see the same data: one linear map for each group.

In the plane the groups are the activation cones, and the cost per step does not grow with the width
(`kernels.cones.descent`); in any dimension they are the sign patterns (`kernels.cones.patterns`). The same
iterates as plain descent up to rounding, with crossings in the same steps.

The ratio epsilon is absorbed: inputs √epsilon·x, inner weights w/√epsilon. So for epsilon ≠ 1 a neuron on a
data point's hyperplane may count as on either side of it, by rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.paths import Table
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Statistics, Ticking
from shallowflow.models.loss import LogisticLoss
from shallowflow.models.networks import ReLUNetwork

Indices = NDArray[np.int32]
LARGE = 2**24
"""Bytes of networks from which on they are kept by cones: less would be gained than taken."""
NEURONS_PER_CONE = 16
"""Neurons per cone from which on a map for every cone is little beside the network."""


def flat(theta: Floats, root: float, row: Floats) -> Floats:
    """Write neurons (w/√epsilon, a), (m, d + 1), into a row (P,), and return it."""
    inner = theta[:, :-1]
    np.multiply(inner, root, out=row[: inner.size].reshape(inner.shape))
    row[inner.size :] = theta[:, -1]
    return row


class _Grouped(Ticking):
    """What both share: the start and the data in coordinates without epsilon, the loss's kind and weight."""

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones import geometry

        super().__init__(task.step)
        network, dataset = task.network, task.dataset
        assert isinstance(network, ReLUNetwork)
        self._template, self._root, self._weight = network, float(np.sqrt(task.epsilon)), task.weight
        kind = geometry.LOGISTIC if isinstance(task.loss, LogisticLoss) else geometry.SQUARE
        self._function = kind, float(network.scale), float(task.step * network.scale * task.weight)
        self._at_origin = geometry.error_at_origin(dataset.inputs, dataset.targets, kind)
        self._inputs, self._targets = self._root * dataset.inputs, np.array(dataset.targets)
        self._start = network.inner / self._root, network.outer

    @abstractmethod
    def _neurons(self) -> Floats:
        """Return (w/√epsilon, a) of all neurons in the caller's order, (m, d + 1)."""

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        theta = self._neurons()
        return self._template.moved({"inner": self._root * theta[:, :-1], "outer": theta[:, -1].copy()})

    def write(self, row: Floats) -> None:
        """Write θ of the present network into a row (P,)."""
        flat(self._neurons(), self._root, row)


class ConeDescent(_Grouped):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon, one linear map per activation cone (d = 2)."""

    name = "cones"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones import descent, geometry

        super().__init__(task)
        self._kernel = descent
        walls, samples = geometry.arrange(self._inputs, self._targets)
        self._problem = walls, samples, float(self._template.slope), self._function
        inner, outer = self._start
        self._state = descent.begin(inner, outer, *self._problem)

    def _steps(self, count: int) -> int:
        return int(self._kernel.advance(self._state, *self._problem, count))

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        off_origin = self._kernel.loss_now(self._state, *self._problem[1:])
        return float(self._weight * (off_origin + self._at_origin))

    def _neurons(self) -> Floats:
        return self._kernel.neurons_now(self._state)

    def log(self, records: int) -> ConeLog | None:
        """Return what keeps networks by cones, if that many records of networks would be large."""
        width, cones = self._template.width, len(self._state.cones.propagators)
        large = 24 * width * records > LARGE and width > NEURONS_PER_CONE * cones
        return ConeLog(self._state, self._root) if large else None

    def statistics(self) -> Statistics:
        """Return how many crossings there were, and what finding them took.

        checks: how often a neuron was looked at; hot neurons: stepped one by one, at present and at most.
        """
        from shallowflow.kernels.cones import groups as kernel

        counters = self._state.counters
        return {
            "crossings": int(counters[kernel.CROSSINGS]),
            "checks": int(counters[kernel.CHECKS]),
            "hot neurons": int(counters[kernel.STEPPED]),
            "most hot neurons": int(counters[kernel.MOST_STEPPED]),
            "occupied cones": int(counters[kernel.OCCUPIED]),
        }


class Moment(NamedTuple):
    """A record of descent by cones: what has changed since the record before.

    propagators (C, 9); the neurons that were moved (k,) (None: all), to which heaps (k,), and their θ̂ (k, 3);
    those stepped individually (l,), and their θ (l, 3).
    """

    propagators: Floats
    moved: Indices | None
    heaps: Indices
    references: Floats
    alone: Indices
    values: Floats


@dataclass(frozen=True, eq=False, repr=False)
class ConeTable(Table):
    """Networks of m neurons at K records, by cones: θ̂ of those that moved, and a map for each cone."""

    moments: tuple[Moment, ...]
    root: float

    @property
    def shape(self) -> tuple[int, int]:
        """Records, and parameters of a network."""
        return len(self.moments), self.moments[0].references.size

    def __getitem__(self, record: int) -> Floats:
        """Return θ (P,) at a record."""
        last = range(len(self.moments))[record]
        first = last
        while self.moments[first].moved is not None:
            first -= 1
        *_, row = self._rows(first, last + 1)
        return row

    def __iter__(self) -> Iterator[Floats]:
        """Yield θ (P,) at all records."""
        return self._rows(0, len(self.moments))

    def _rows(self, first: int, end: int) -> Iterator[Floats]:
        """Yield θ at some records, at the first of which all neurons are known."""
        from shallowflow.kernels.cones.descent import bring_up_to_date

        for one in self.moments[first:end]:
            if one.moved is None:
                known, heaps = one.references.copy(), one.heaps.copy()
            else:
                known[one.moved], heaps[one.moved] = one.references, one.heaps
            theta = known.copy()
            bring_up_to_date(theta, heaps, one.propagators)
            theta[one.alone] = one.values
            yield flat(theta, self.root, np.empty(theta.size))


class ConeLog:
    """Keeps a network at every record: all neurons once half of them have moved, else only those that did.

    A neuron's θ changes in every step, its θ̂ only when it enters a cone: of most neurons nothing is kept.
    """

    def __init__(self, state: Any, root: float) -> None:
        from shallowflow.kernels.cones import descent

        self._kernel, self._state, self._root = descent, state, root
        self._moments = list[Moment]()
        self._known, self._heaps = np.empty_like(state.neurons.theta), np.empty_like(state.neurons.heap)
        self._list, self._since = np.empty_like(state.neurons.heap), 0

    def add(self) -> None:
        """Keep the present network."""
        now, maps, bits = self._state.neurons, self._state.cones.propagators, np.int64
        number = self._kernel.note_changes(
            now.theta.view(bits), now.heap, self._known.view(bits), self._heaps, self._list
        )
        self._since += number
        alone, values = self._kernel.stepped_alone(self._state)
        alone, values = alone.copy(), values.copy()
        if self._moments and 2 * self._since <= len(now.heap):
            moved = self._list[:number].copy()
            one = Moment(maps.copy(), moved, self._heaps[moved], self._known[moved], alone, values)
        else:
            self._since = 0
            one = Moment(maps.copy(), None, self._heaps.copy(), self._known.copy(), alone, values)
        self._moments.append(one)

    def table(self) -> ConeTable:
        """Return the networks kept so far."""
        return ConeTable(tuple(self._moments), self._root)


class PatternDescent(_Grouped):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon, by one linear map per sign pattern."""

    name = "patterns"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones import pattern_table, patterns

        super().__init__(task)
        self._kernel = patterns
        points = pattern_table.points_off_origin(self._inputs, self._targets, float(self._template.slope))
        self._problem = points, self._function
        self._state = patterns.begin(*self._start, points)

    def _steps(self, count: int) -> int:
        return int(self._kernel.advance(self._state, *self._problem, count))

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        return float(self._weight * (self._kernel.loss_now(self._state, *self._problem) + self._at_origin))

    def _neurons(self) -> Floats:
        return self._kernel.neurons_now(self._state)

    def statistics(self) -> Statistics:
        """Return how many crossings there were, what finding them took, and how many patterns there are."""
        from shallowflow.kernels.cones import pattern_table as kernel

        counters = self._state.counters
        return {
            "crossings": int(counters[kernel.CROSSINGS]),
            "checks": int(counters[kernel.CHECKS]),
            "hot neurons": int(counters[kernel.STEPPED]),
            "most hot neurons": int(counters[kernel.MOST_STEPPED]),
            "patterns": int(self._state.table.size[0]),
        }
