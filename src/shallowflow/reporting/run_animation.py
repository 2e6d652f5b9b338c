"""The animation of one run: its function and its neurons over time."""

from __future__ import annotations

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.figure import Animation, Figure, Panel
from shallowflow.experiments.network_panels import NeuronPanels, function_panel, largest_norm, on_a_line
from shallowflow.models.networks import Network, ReLUNetwork
from shallowflow.reporting.run_times import eventful_times

FRAMES = 60
DRAWN = 4_000
"""Neurons shown."""


def check_animated(network: Network, dataset: Dataset, name: str = "animate") -> None:
    """Refuse a problem with neither a function on a line nor neurons in a plane: there is nothing to draw."""
    if not (on_a_line(dataset) or _in_the_plane(network)):
        raise InvalidInputError(
            f"{name}: needs data on a line or a ReLUNetwork in the plane, got dimension {dataset.dimension}"
        )


def _in_the_plane(network: Network) -> bool:
    return isinstance(network, ReLUNetwork) and network.dimension == 2


def run_animation(trajectory: Trajectory, dataset: Dataset) -> Animation:
    """Return the function (for data on a line) and the neurons (in the plane) of a run over time."""
    check_animated(trajectory.path.template, dataset, "trajectory")
    times = eventful_times(trajectory, FRAMES)
    networks = [trajectory(time) for time in times.tolist()]
    flat = [network for network in networks if isinstance(network, ReLUNetwork) and network.dimension == 2]
    neurons = NeuronPanels(dataset, largest_norm(flat), flat[0].width, most=DRAWN) if flat else None
    title = f"Training on {dataset.name or 'data'}"

    def panels(network: Network, label: str) -> tuple[Panel, ...]:
        shown = (function_panel(network, dataset, title=label),) if on_a_line(dataset) else ()
        if neurons is not None and isinstance(network, ReLUNetwork):
            shown = (*shown, neurons(network))
        return shown

    labels = tuple(f"t = {time:.4g}" for time in times.tolist())
    frames = tuple(
        Figure("run", title, panels(network, label)) for network, label in zip(networks, labels, strict=True)
    )
    few = "" if neurons is None or len(neurons.chosen) == flat[0].width else f"{DRAWN:,} neurons are shown. "
    return Animation(
        "run",
        title,
        frames,
        labels,
        f"{few}Frames follow the change, not the clock: the time stands above them.",
    )
