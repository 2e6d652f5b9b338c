"""`escape`: leave a plateau. The anatomy of the loss picks the cure, and every move says what it did.

    outer share largest     solve the outer layer with a small ridge, rebalance; then recycle neurons
    turning share largest   Levenberg–Marquardt steps
    dormant share largest   recycle, dormant and dead neurons first, to where the residual asks for them
    at the pattern floor    add directed neurons (nothing else helps); prune back to the width if asked

Where the other moves end at the floor of the pattern, or gain less than 1 %, neurons are added as well.

A `KnotNetwork` is moved by Active Neuron Least Squares, [plateau] §4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shallowflow.arrays import Seed, count, generator, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.census import census_of, neurons_of
from shallowflow.landscape.geometry.floors import anatomy, feature_floor, pattern_floor
from shallowflow.landscape.plateau import escapes
from shallowflow.landscape.plateau.escapes import mean_loss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

FLOOR = 1.01
"""A loss below this multiple of the pattern floor is at it."""
GAIN = 0.01
"""Moves that lower the loss by less than this share have led nowhere."""
MOVES = ("auto", "outer", "recycle", "turn", "grow", "anls")
STABLE = 0.9


@dataclass(frozen=True)
class Move:
    """One move: its name, the loss before and after (½ mean), a lower bound known beforehand (None: none), a
    sentence.

    held_out: ½ mean on data kept apart, before and after, if such data were given.
    """

    name: str
    before: float
    after: float
    expected: float | None
    sentence: str
    held_out: tuple[float, float] | None = None

    def __str__(self) -> str:
        kept = ""
        if self.held_out is not None:
            kept = f"; held out {self.held_out[0]:.4g} → {self.held_out[1]:.4g}"
        bound = "" if self.expected is None else f" (not below {self.expected:.4g})"
        return f"{self.name}: {self.sentence} Loss {self.before:.4g} → {self.after:.4g}{bound}{kept}."


@dataclass(frozen=True)
class Escape:
    """The network after the moves, the moves, and a step at which descent from there is stable: 0.9/λ_max."""

    network: ReLUNetwork | KnotNetwork
    moves: tuple[Move, ...]
    step: float

    @property
    def before(self) -> float:
        """The loss before the first move, ½ mean."""
        return self.moves[0].before

    @property
    def after(self) -> float:
        """The loss after the last move, ½ mean."""
        return self.moves[-1].after

    def text(self) -> str:
        """Return the moves in sentences, one per line."""
        return "\n".join(
            [*map(str, self.moves), f"Descent from here is stable for steps up to {self.step:.3g}."]
        )

    def __str__(self) -> str:
        return self.text()


@public
def escape(
    network: ReLUNetwork | KnotNetwork,
    dataset: Dataset,
    *,
    move: str = "auto",
    neurons: int = 4,
    keep_width: bool = False,
    held_out: Dataset | None = None,
    seed: Seed = 0,
) -> Escape:
    """Return a network that has left its plateau, as the anatomy of its loss advises (square loss).

    move: "auto", or one of "outer", "recycle", "turn", "grow" by name ("anls" for a `KnotNetwork`); neurons:
    how many are recycled or added; keep_width: what was added is trained on for 3,000 steps and pruned back
    to the width; held_out: data on which every move also shows its loss. A move that would raise the loss is
    not made.

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["three_points"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), data, until=200.0)
    >>> found = escape(run.final, data, neurons=1)
    >>> found.moves[0].name, bool(found.after < 0.1 * found.before)
    ('grow', True)
    """
    check_problem(network, dataset)
    number, rng = count(neurons, "neurons"), generator(seed)
    if held_out is not None and checked_dataset(held_out).dimension != dataset.dimension:
        raise InvalidInputError(f"held_out: inputs must have the dimension {dataset.dimension}")
    if move not in MOVES:
        raise InvalidInputError(f"move: must be one of {', '.join(MOVES)}; got {move!r}")
    if isinstance(network, KnotNetwork):
        return _on_the_line(network, dataset, held_out)
    if not isinstance(network, ReLUNetwork) or move == "anls":
        raise InvalidInputError("network: must be a ReLUNetwork, or a KnotNetwork for ANLS")
    moves: list[Move] = []
    advice = _advised(network, dataset) if move == "auto" else {move: None}
    moved = network
    while advice:
        for name, bound in advice.items():
            changed, made = _moved(name, moved, dataset, number, rng, bound)
            if held_out is not None:
                made = replace(made, held_out=(mean_loss(moved, held_out), mean_loss(changed, held_out)))
            moves.append(made)
            moved = changed
        # Where that led to the floor of the pattern, or nowhere, only more neurons help.
        again = move == "auto" and "grow" not in advice
        stuck = moves[-1].after > (1.0 - GAIN) * moves[0].before or "grow" in _advised(moved, dataset)
        advice = {"grow": None} if again and stuck else {}
    if keep_width and moved.width > network.width:
        moved, made = _pruned(moved, dataset, network.width)
        moves.append(made)
    return Escape(moved, tuple(moves), stable_step(moved, dataset))


def _advised(network: ReLUNetwork, dataset: Dataset) -> dict[str, float | None]:
    """Return the moves that the anatomy of the loss asks for, each with a bound that it cannot get below."""
    neurons = neurons_of(network, dataset)
    found, value = census_of(neurons, network, dataset), mean_loss(network, dataset)
    weight, targets = 1.0 / dataset.size, dataset.targets
    every = pattern_floor(neurons, targets, weight)
    awake = pattern_floor(neurons, targets, weight, found.awake)
    if not every.interpolates and value <= FLOOR * every.level:
        return {"grow": None}
    parts = anatomy(value, feature_floor(neurons, targets, weight, found.awake), awake, every)
    if parts.outer >= max(parts.turning, parts.dormant):
        return {"outer": feature_floor(neurons, targets, weight).level, "recycle": None}
    # Both change the pattern as they go: no floor of the old one bounds them.
    return {"turn": None} if parts.turning >= parts.dormant else {"recycle": None}


def _moved(
    name: str,
    network: ReLUNetwork,
    dataset: Dataset,
    number: int,
    rng: np.random.Generator,
    bound: float | None,
) -> tuple[ReLUNetwork, Move]:
    """Make a move, unless the loss would rise."""
    before = mean_loss(network, dataset)
    if name == "outer":
        changed = escapes.rebalance(escapes.solve_outer(network, dataset))
        said = "outer weights solved, neurons rebalanced."
    elif name == "turn":
        changed = escapes.levenberg_marquardt(network, dataset)
        said = f"up to {escapes.STEPS} Levenberg–Marquardt steps."
    elif name == "recycle":
        changed, made = escapes.recycle(network, dataset, number, rng)
        said = f"{made} of {network.width} neurons moved to where the residual asks for them."
    else:
        changed = escapes.grow(network, dataset, number, rng)
        said = f"{changed.width - network.width} neurons added where the residual asks for them."
    after = mean_loss(changed, dataset)
    if not after < before:
        return network, Move(name, before, before, bound, "nothing gained, nothing changed.")
    return changed, Move(name, before, after, bound, said)


def _pruned(network: ReLUNetwork, dataset: Dataset, width: int) -> tuple[ReLUNetwork, Move]:
    """Train a network that has grown, and take away what it needs least until it has its width again."""
    before = mean_loss(network, dataset)
    run = gradient_descent(network, dataset, step=stable_step(network, dataset) / 3.0, steps=3000)
    trained = run.final
    assert isinstance(trained, ReLUNetwork)
    thinner = escapes.prune(trained, dataset, network.width - width)
    said = f"trained for 3,000 steps, then pruned to {thinner.width} neurons."
    return thinner, Move("prune", before, mean_loss(thinner, dataset), None, said)


def stable_step(network: ReLUNetwork | KnotNetwork, dataset: Dataset) -> float:
    """Return 0.9/λ_max of the Gauss–Newton matrix of ½ mean of squares (1 where λ_max = 0)."""
    kernel = network.tangent_kernel(dataset.inputs) / dataset.size
    if len(kernel) > 400:
        from scipy.sparse.linalg import eigsh

        largest = float(eigsh(kernel, 1, v0=np.ones(len(kernel)), return_eigenvectors=False)[0])
    else:
        largest = float(np.linalg.eigvalsh(kernel)[-1])
    return STABLE / largest if largest > 0 else 1.0


def _on_the_line(network: KnotNetwork, dataset: Dataset, held_out: Dataset | None) -> Escape:
    """Move knots by Active Neuron Least Squares."""
    run = active_neuron_least_squares(network, dataset)
    final = run.final
    assert isinstance(final, KnotNetwork)

    def value(one: KnotNetwork, data: Dataset) -> float:
        return 0.5 * float(np.mean((one.predict(data.inputs) - data.targets) ** 2))

    before, after = value(network, dataset), value(final, dataset)
    kept = None if held_out is None else (value(network, held_out), value(final, held_out))
    said = f"{len(run.times) - 1} moves of Active Neuron Least Squares."
    if not after < before:
        final, after, said = network, before, "nothing gained, nothing changed."
    made = Move("anls", before, after, None, said, kept)
    return Escape(final, (made,), stable_step(final, dataset))
