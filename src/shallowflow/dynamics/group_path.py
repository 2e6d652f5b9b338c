"""The path of a wide flow: every neuron at every time from a few numbers per step and the log of its moves.

In a step all neurons of a group follow one linear map (`kernels.cones.flow_state`), so a path of m neurons
needs no m numbers per step: kept are the pulls −∂L/∂h_k at the nodes of every step, the groups' propagators
at its start, and for each move of a neuron the group it enters and what it is there, θ̂. A neuron at time t is

    θ = Φ_g(t) · P_g(start of the step) · (re-synchronisations of g since the move) · θ̂,

with Φ_g' = M_g Φ_g solved on the nodes of the step by a linear system.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, FrozenArrays, Ints
from shallowflow.dynamics.nodes import integration_matrix, lobatto_weights, within
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import Network, ReLUNetwork

Indices = NDArray[np.int32] | NDArray[np.int64]
LARGEST_TABLE = 2**30
"""Bytes that `recorded` may take."""


@dataclass(frozen=True, eq=False, repr=False)
class GroupPath(FrozenArrays):
    """Networks of m neurons over s steps, by groups; C cones in the plane, k data points off the origin.

    times (s+1,); pulls (s, q, k). propagators (N, 3, 3) of the groups `occupied` (N,), those of step i from
    occupied_from[i] to occupied_from[i+1]. moves: move_times (M,), movers (M,), targets (M,), references
    (M, 3) in the order of time, those of step i from moves_from[i] to moves_from[i+1]. syncs (R, 3, 3) of the
    groups synced (R,) at the start of the steps sync_steps (R,). start_groups (m,). points
    (k, 2), seen (C, k): the gates of the cones, rays (C, 2): the directions of the walls; root: √epsilon,
    by which inner weights are divided and inputs multiplied.
    """

    kind: ClassVar[str] = "groups"
    template: Network
    times: Floats
    pulls: Floats
    occupied_from: Ints
    occupied: Ints
    propagators: Floats
    moves_from: Ints
    move_times: Floats
    movers: Indices
    targets: Indices
    references: Floats
    sync_steps: Ints
    synced: Ints
    syncs: Floats
    start_groups: Ints
    points: Floats
    seen: Floats
    rays: Floats
    root: float = 1.0

    def __call__(self, time: float) -> Network:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        if time == self.times[0] or len(self.times) == 1:
            return self.template
        step = int(np.clip(np.searchsorted(self.times, time, side="right") - 1, 0, len(self.times) - 2))
        groups, references, born = self._members(step, time)
        present = np.flatnonzero(np.bincount(groups, minlength=1))
        theta = np.empty_like(references)
        flows = self._flows(step, time, present)
        # Sorting once beats a mask per group.
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups)[present])
        for group, flow, rows in zip(present, flows, np.split(order, ends[:-1]), strict=True):
            theta[rows] = self._brought_up_to_date(int(group), step, flow, references[rows], born[rows])
        return self.template.moved({"inner": self.root * theta[:, :2], "outer": theta[:, 2].copy()})

    def _members(self, step: int, time: float) -> tuple[Ints, Floats, Ints]:
        """Return the group of every neuron at a time, its θ̂ and the step in which it got there."""
        low, high = self.moves_from[step], self.moves_from[step + 1]
        last = low + int(np.searchsorted(self.move_times[low:high], time, side="right"))
        network = self.template
        assert isinstance(network, ReLUNetwork)
        groups, born = np.array(self.start_groups), np.zeros(len(self.start_groups), np.int64)
        references = np.column_stack([network.inner / self.root, network.outer])
        movers = self.movers[:last]
        # Of several moves of one neuron the last one stays.
        groups[movers], references[movers] = self.targets[:last], self.references[:last]
        born[movers] = np.searchsorted(self.moves_from, np.arange(last), side="right") - 1
        return groups, references, born

    def _flows(self, step: int, time: float, groups: Ints) -> Floats:
        """Return Φ(t)·P of the groups, (len(groups), 3, 3)."""
        length = float(self.times[step + 1] - self.times[step])
        weights = lobatto_weights((time - float(self.times[step])) / length, self.pulls.shape[1])
        forces = self._forces(step, groups)
        count, nodes = forces.shape[:2]
        rates = np.zeros((count, nodes, 3, 3))
        rates[:, :, :2, 2] = rates[:, :, 2, :2] = length * forces
        integral = integration_matrix(nodes)
        system = np.eye(3 * nodes) - np.einsum("ij,gjab->giajb", integral, rates).reshape(
            count, 3 * nodes, 3 * nodes
        )
        ones = np.broadcast_to(np.tile(np.eye(3), (nodes, 1)), (count, 3 * nodes, 3))
        solved = np.linalg.solve(system, ones).reshape(count, nodes, 3, 3)
        flows: Floats = np.einsum("i,giab->gab", weights, solved)
        here = slice(self.occupied_from[step], self.occupied_from[step + 1])
        known = dict(zip(self.occupied[here].tolist(), self.propagators[here], strict=True))
        for at, group in enumerate(groups.tolist()):
            if group in known:
                flows[at] = flows[at] @ known[group]
        return flows

    def _forces(self, step: int, groups: Ints) -> Floats:
        """Return the forces on the groups at the nodes of a step, (len(groups), q, 2)."""
        cones = len(self.rays)
        forces = np.zeros((len(groups), self.pulls.shape[1], 2))
        moving = groups < 3 * cones
        wall = np.where(groups < cones, groups, (groups - cones) // 2)[moving]
        forces[moving] = np.einsum("qk,gk,kd->gqd", self.pulls[step], self.seen[wall], self.points)
        sliding = moving & (groups >= cones)
        rays = self.rays[(groups[sliding] - cones) // 2]
        along = np.einsum("gqd,gd->gq", forces[sliding], rays)
        forces[sliding] = along[:, :, None] * rays[:, None, :]
        return forces

    def _brought_up_to_date(
        self, group: int, step: int, flow: Floats, references: Floats, born: Ints
    ) -> Floats:
        """Return θ (j, 3) of neurons of one group from their θ̂, set in the steps `born` (j,)."""
        chosen = (self.synced == group) & (self.sync_steps <= step)
        steps, matrices = self.sync_steps[chosen], self.syncs[chosen]
        missing = np.searchsorted(steps, born, side="right")
        theta = np.empty_like(references)
        product = flow
        for epoch in range(len(steps), -1, -1):
            rows = missing == epoch
            theta[rows] = references[rows] @ product.T
            if epoch > 0:
                product = product @ matrices[epoch - 1]
        return theta

    def recorded(self) -> Floats:
        """Return θ at the ends of the steps, (s+1, P)."""
        size = sum(values.size for values in self.template.parameters.values())
        if 8 * size * len(self.times) > LARGEST_TABLE:
            raise InvalidInputError(
                f"trajectory: a table of {len(self.times)} networks of {size} numbers would take "
                f"{8e-9 * size * len(self.times):.3g} GB; ask for the times you need, one by one"
            )
        rows = [
            np.concatenate([np.ravel(values) for values in self(float(time)).parameters.values()])
            for time in self.times
        ]
        return np.array(rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
