"""`escape`: leave a plateau. The anatomy of the loss picks the cure, and every move says what it did.

    outer share largest     solve the outer layer with a small ridge, rebalance; then recycle neurons
    turning share largest   Levenberg–Marquardt steps
    dormant share largest   recycle, dormant and dead neurons first, to where the residual asks for them
    at the pattern floor    add directed neurons (nothing else helps); prune back to the width if asked

Where the other moves end at the floor of the pattern, or gain less than 1 %, neurons are added as well.

A `KnotNetwork` is moved by Active Neuron Least Squares, [plateau] §4.

**Moves** that leave a plateau without waiting: what descent does slowly, or never, done at once.

- `solve_outer`: minimise ½ mean (r + Φδ)² + ½ρ Σ_j (rms_j δ_j)² over changes δ of the outer weights, Φ_j the
output of neuron j per unit: a ridge towards the present weights, in units of each feature's rms. -
`rebalance`: (w, a) → (cw, a/c) with c = √(|a|/‖w‖): the same function, and a larger stable step. -
`directed`: the direction that pulls most, max over ‖w‖ = 1 of |⟨r, σ(Xw)⟩|/n, by ascent from random
directions and data points; its smooth fixed points are extremal vectors of the residual ([early_alignment]
Def. 1). It must be active on more than d points (of fewer than 10 d points: on a tenth of them). - `recycle`:
the neuron whose removal costs least after a refit makes way for a directed one; `grow` adds directed ones;
`prune` takes away those that cost least. Each with a refit. - `levenberg_marquardt`: damped Gauss–Newton
steps on all parameters.

All are for the square loss; none undoes what it cannot improve: a move that would raise the loss is not made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats, Seed, count, generator, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import census_of, neurons_of
from shallowflow.landscape.geometry.floors import anatomy, feature_floor, pattern_floor
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

OUTER_RIDGE, REFIT_RIDGE = 1e-5, 1e-3
STARTS, ASCENTS = 64, 200
STEPS = 30


def mean_loss(network: ReLUNetwork, dataset: Dataset) -> float:
    """Return ½ mean of squares."""
    residual = network.predict(dataset.inputs) - dataset.targets
    return 0.5 * float(np.mean(residual**2))


class Outputs(NamedTuple):
    """Features per unit of outer weight (n, m), each divided by its rms (m,); dead ones have the rms 0."""

    units: Floats
    sizes: Floats


def _outputs(network: ReLUNetwork, dataset: Dataset) -> Outputs:
    features = network.scale * network.activation(dataset.inputs @ network.inner.T)
    sizes = np.sqrt(np.mean(features**2, axis=0))
    return Outputs(features / np.where(sizes > 0, sizes, 1.0), sizes)


def solve_outer(network: ReLUNetwork, dataset: Dataset, ridge: float = OUTER_RIDGE) -> ReLUNetwork:
    """Return the network with outer weights that least squares with a ridge towards the present ones
    gives."""
    units, sizes = _outputs(network, dataset)
    live = sizes > 0
    if not live.any():
        return network
    residual = network.predict(dataset.inputs) - dataset.targets
    root = np.sqrt(dataset.size)
    # As one least-squares problem: the normal equations would square its condition.
    matrix = np.vstack([units[:, live] / root, np.sqrt(ridge) * np.eye(int(live.sum()))])
    goal = np.concatenate([-residual / root, np.zeros(int(live.sum()))])
    change = np.linalg.lstsq(matrix, goal)[0]
    outer = network.outer.copy()
    outer[live] += change / sizes[live]
    return network.moved({"outer": outer})


def rebalance(network: ReLUNetwork) -> ReLUNetwork:
    """Return the same function with ‖w_j‖ = |a_j| in every neuron that has both."""
    lengths, sizes = np.linalg.norm(network.inner, axis=1), np.abs(network.outer)
    both = (lengths > 0) & (sizes > 0)
    factors = np.ones(network.width)
    factors[both] = np.sqrt(sizes[both] / lengths[both])
    return network.moved({"inner": factors[:, None] * network.inner, "outer": network.outer / factors})


def directed(network: ReLUNetwork, dataset: Dataset, rng: np.random.Generator) -> tuple[Floats, float]:
    """Return the unit direction (d,) with the largest |⟨r, σ(Xw)⟩| found, and the outer weight that suits it
    best."""
    inputs, slope = dataset.inputs, network.slope
    residual = network.predict(inputs) - dataset.targets
    half = STARTS // 2
    points = inputs[rng.integers(dataset.size, size=half)] * rng.choice([-1.0, 1.0], size=(half, 1))
    starts = np.vstack([rng.standard_normal((STARTS - half, dataset.dimension)), points])
    directions = np.vstack([starts, starts])
    signs = np.repeat([1.0, -1.0], len(starts))
    directions /= np.maximum(np.linalg.norm(directions, axis=1), 1e-300)[:, None]
    for _ in range(ASCENTS):
        gates = np.where(directions @ inputs.T > 0, 1.0, slope)
        pulls = -signs[:, None] * ((gates * residual) @ inputs)
        lengths = np.linalg.norm(pulls, axis=1)
        directions = directions + 0.5 * pulls / np.maximum(lengths, 1e-300)[:, None]
        directions /= np.maximum(np.linalg.norm(directions, axis=1), 1e-300)[:, None]
    outputs = network.scale * network.activation(directions @ inputs.T)
    gains, squares = -(outputs @ residual), np.sum(outputs**2, axis=1)
    # What counts is how far the loss falls with the best outer weight: gain²/(2 Σφ²).
    values = np.where(squares > 0, gains**2 / np.maximum(squares, 1e-300), 0.0)
    if slope == 0.0:
        # On as few points as it has weights a neuron would fit their noise, with slopes that no data bound.
        needed = min(dataset.dimension + 1, max(dataset.size // 10, 1))
        values[np.sum(outputs > 0, axis=1) < needed] = 0.0
    best = int(np.argmax(values))
    weight = float(gains[best] / squares[best]) if values[best] > 0 else 0.0
    return directions[best], weight


def with_neuron(network: ReLUNetwork, direction: Floats, weight: float) -> ReLUNetwork:
    """Return the network with one more neuron, balanced."""
    size = np.sqrt(abs(weight))
    inner = np.vstack([network.inner, size * direction])
    outer = np.append(network.outer, np.sign(weight) * size)
    return ReLUNetwork(inner, outer, network.slope, network.scale)


def without_neuron(network: ReLUNetwork, which: Bools) -> ReLUNetwork:
    """Return the network without the neurons of `which` (m,)."""
    return ReLUNetwork(network.inner[~which], network.outer[~which], network.slope, network.scale)


def cheapest(network: ReLUNetwork, dataset: Dataset) -> int:
    """Return the neuron whose removal costs least after a refit: (a_j rms_j)²/[(QᵀQ/n + ρ)⁻¹]_jj; dead ones
    first."""
    units, sizes = _outputs(network, dataset)
    if not np.all(sizes > 0):
        return int(np.argmin(sizes))
    gram = units.T @ units / dataset.size + REFIT_RIDGE * np.eye(network.width)
    costs = (network.outer * sizes) ** 2 / np.diagonal(np.linalg.inv(gram))
    return int(np.argmin(costs))


def _refitted(network: ReLUNetwork, dataset: Dataset) -> ReLUNetwork:
    return rebalance(solve_outer(network, dataset, REFIT_RIDGE))


def grow(network: ReLUNetwork, dataset: Dataset, number: int, rng: np.random.Generator) -> ReLUNetwork:
    """Return the network with up to so many directed neurons more, each followed by a refit, while the loss
    falls."""
    for _ in range(number):
        direction, weight = directed(network, dataset, rng)
        wider = _refitted(with_neuron(network, direction, weight), dataset)
        if weight == 0.0 or not mean_loss(wider, dataset) < mean_loss(network, dataset):
            break
        network = wider
    return network


def recycle(
    network: ReLUNetwork, dataset: Dataset, number: int, rng: np.random.Generator
) -> tuple[ReLUNetwork, int]:
    """Return the network with up to so many of its neurons put to better use, and how many were."""
    for made in range(number):
        unused = np.zeros(network.width, np.bool_)
        unused[cheapest(network, dataset)] = True
        if network.width > 1:
            rest = _refitted(without_neuron(network, unused), dataset)
        else:
            rest = network.moved({"outer": np.zeros(1)})
        direction, weight = directed(rest, dataset, rng)
        changed = with_neuron(rest, direction, weight)
        if network.width == 1:
            changed = without_neuron(changed, np.array([True, False]))
        changed = _refitted(changed, dataset)
        if weight == 0.0 or not mean_loss(changed, dataset) < mean_loss(network, dataset):
            return network, made
        network = changed
    return network, number


def prune(network: ReLUNetwork, dataset: Dataset, number: int) -> ReLUNetwork:
    """Return the network without the `number` neurons that cost least, each removal followed by a refit."""
    for _ in range(min(number, network.width - 1)):
        unused = np.zeros(network.width, np.bool_)
        unused[cheapest(network, dataset)] = True
        network = _refitted(without_neuron(network, unused), dataset)
    return network


def levenberg_marquardt(network: ReLUNetwork, dataset: Dataset, steps: int = STEPS) -> ReLUNetwork:
    """Return the network after damped Gauss–Newton steps: δ = −Jᵀ(JJᵀ/n + μI)⁻¹ r/n, μ by trial.

    The smaller one of the two Gram matrices is factored: that of the samples or that of the parameters.
    """
    from scipy.linalg import cho_factor, cho_solve

    network, value = rebalance(network), mean_loss(network, dataset)
    damping, few = 1e-2, network.width * (network.dimension + 1) < dataset.size
    for _ in range(steps):
        jacobian = _jacobian(network, dataset)
        residual = network.predict(dataset.inputs) - dataset.targets
        gram = (jacobian.T @ jacobian if few else jacobian @ jacobian.T) / dataset.size
        unit = float(np.trace(gram)) / len(gram)
        if unit == 0.0:
            break
        for _ in range(8):
            factor = cho_factor(gram + damping * unit * np.eye(len(gram)), check_finite=False)
            if few:
                change = -cho_solve(factor, jacobian.T @ residual / dataset.size)
            else:
                change = -(jacobian.T @ cho_solve(factor, residual)) / dataset.size
            tried = _changed(network, change)
            found = mean_loss(tried, dataset)
            if found < value:
                damping = max(damping / 3.0, 1e-12)
                break
            damping *= 4.0
        else:
            break
        network, value = tried, found
    return network


def _jacobian(network: ReLUNetwork, dataset: Dataset) -> Floats:
    """Return ∂f(x_k)/∂(w, a), (n, m·d + m)."""
    z = dataset.inputs @ network.inner.T
    gates = np.where(z > 0, 1.0, network.slope)
    inner = (gates * network.outer)[:, :, None] * dataset.inputs[:, None, :]
    return network.scale * np.hstack([inner.reshape(dataset.size, -1), gates * z])


def _changed(network: ReLUNetwork, change: Floats) -> ReLUNetwork:
    count = network.inner.size
    inner = network.inner + change[:count].reshape(network.inner.shape)
    return network.moved({"inner": inner, "outer": network.outer + change[count:]})


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
        changed = rebalance(solve_outer(network, dataset))
        said = "outer weights solved, neurons rebalanced."
    elif name == "turn":
        changed = levenberg_marquardt(network, dataset)
        said = f"up to {STEPS} Levenberg–Marquardt steps."
    elif name == "recycle":
        changed, made = recycle(network, dataset, number, rng)
        said = f"{made} of {network.width} neurons moved to where the residual asks for them."
    else:
        changed = grow(network, dataset, number, rng)
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
    thinner = prune(trained, dataset, network.width - width)
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
