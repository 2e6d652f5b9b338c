"""Figure 1: two groups, several n and n = ∞: the loss falls in two steps that sharpen slowly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.data import Dataset
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow, group_flow
from shallowflow.models import SquareLoss, initialize

LABELS = (1.0, 2.0)
TONES = ("sky", "blue", "green", "orange", "pink", "red")


def _power(size: float) -> str:
    """Return n as a power of ten."""
    return f"n = 10^{np.log10(size):.0f}"


def _flow(size: float, alignment: float) -> GroupFlow:
    return GroupFlow(size, LABELS, [alignment] * 2, [1.0, 1.0])


def _trained(parameters: Mapping[str, Any]) -> float:
    """Return the largest distance of the closed form from a trained network, relative to the first loss."""
    size = parameters["checked"]
    base = orthonormal(size, labels="positive", seed=parameters["seed"])
    halves = np.repeat(LABELS, size // 2)
    dataset = Dataset(base.inputs, halves)
    network = initialize.grouped(dataset.inputs, dataset.targets, 2, seed=parameters["seed"])
    flow = group_flow(network, dataset)
    trajectory = gradient_flow(network, dataset, until=1.5 * flow.unit, speed=2.0, tolerance=1e-9)
    times = np.linspace(0.0, trajectory.times[-1], 40)
    losses = [SquareLoss().value(trajectory(t)(dataset.inputs), dataset.targets) for t in times]
    return float(np.max(np.abs(flow.loss(times) - losses)) / losses[0])


def run_fig1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Evaluate the closed form for every n, beside its limit."""
    sizes, alignment = parameters["sizes"], parameters["alignment"]
    distance = _trained(parameters)
    progress(0.7, "closed form")
    flows = [_flow(size, alignment) for size in sizes]
    halves = [flow.transition_times(0.5) / flow.unit for flow in flows]
    limits = flows[-1].limit_transitions
    errors = [float(np.max(np.abs(half - limits) / limits)) for half in halves]
    drops = _steps(flows[-1])
    claims = (
        Claim(
            "L_∞ is constant by parts, with one transition per group at 1/‖D_j‖ (Theorem 2)",
            "transitions at 1 and ½ in units of t_n",
            f"at {_power(sizes[-1])} they lie at {halves[-1][0]:.3f} and {halves[-1][1]:.3f}; largest "
            f"relative error {errors[0]:.2f} at {_power(sizes[0])}, {errors[-1]:.3f} there",
            errors[-1] < 0.05 and errors[-1] < errors[0],
            "the convergence is logarithmic in n",
        ),
        Claim(
            "Two phase transitions are visible only in very high dimension",
            "two steps of the loss curve",
            f"{drops} steps at {_power(sizes[-1])}, {_steps(flows[0])} at {_power(sizes[0])}",
            drops == 2,
        ),
        _window_claim(flows[-1], sizes[-1]),
        Claim(
            "The closed form is the flow of the network",
            "(55), corrected",
            f"largest distance of the losses {distance:.1e} of the first, n = {parameters['checked']}",
            distance < 1e-4,
        ),
    )
    return Findings((_figure(sizes, flows),), claims)


def _window_claim(flow: GroupFlow, size: float) -> Claim:
    logarithm = np.log(2 * size)
    window = float(flow.windows(0.25)[0] * logarithm)
    expected = float(flow.limit_windows(0.25)[0] * logarithm)
    printed = float(np.log((1 - 0.5) / (2 - 0.5) * (2 - 0.75**0.5) / (1 - 0.75**0.5)) / 2)
    return Claim(
        "The window of a transition is ln C(ε)/(2‖D‖ ln n) (12)",
        f"{printed:.3f} for ε = ¼, D = 1, times 1/ln n",
        f"{window:.3f} at {_power(size)}; the corrected (2/D) ln C(ε) is {expected:.3f}",
        abs(window - printed) < 0.05 * printed,
        "slips in (71), where ψ lost a factor ‖D‖, and in (73), where 1/(c t_n) is 2/(‖D‖ ln n)",
    )


def _steps(flow: GroupFlow) -> int:
    """Count the falls of the loss: spells of falling faster than on the average over [0, 1.5 t_n]."""
    times = np.linspace(0.0, 1.5, 3000)
    losses = flow.loss(times * flow.unit)
    fast = -np.diff(losses) / np.diff(times) > losses[0] / 1.5
    return int(np.sum(np.diff(fast.astype(int)) == 1))


def _figure(sizes: tuple[float, ...], flows: list[GroupFlow]) -> Figure:
    times = np.linspace(0.0, 1.75, 1200)
    curves = [
        Series(times, flow.loss(times * flow.unit), _power(size), tone=tone)
        for size, flow, tone in zip(sizes, flows, TONES, strict=False)
    ]
    limit = Series(times, flows[-1].limit_loss(times), "n = ∞", style="steps", tone="ink")
    exponents = np.linspace(2.0, 100.0, 50)
    many = [_flow(10.0**e, float(flows[0].alignments[0])) for e in exponents]
    halves = np.array([flow.transition_times(0.5) / flow.unit for flow in many])
    starts = np.array([flow.transition_times(0.75) / flow.unit for flow in many])
    ends = np.array([flow.transition_times(0.25) / flow.unit for flow in many])
    bands = [
        Series(exponents, halves[:, j], f"D = {LABELS[j]:g}", tone=tone, band=(starts[:, j], ends[:, j]))
        for j, tone in ((0, "blue"), (1, "orange"))
    ]
    targets = [
        Series([2.0, 100.0], [1 / label] * 2, "limit" if label == 1 else "", style="dashed", tone="muted")
        for label in LABELS
    ]
    return Figure(
        "fig1",
        "Two groups: the loss in units of t_n, and where its transitions lie",
        (
            Panel((*curves, limit), title="loss", x_label="t / t_n", y_label="L_n(t)"),
            Panel(
                (*bands, *targets),
                title="transition times, from ¾ to ¼ of D²/2",
                x_label="log₁₀ n",
                y_label="t / t_n",
            ),
        ),
        "Left: the closed form for several n, and its limit. Right: transitions approach 1/D like 1/ln n.",
    )


FIG1 = Experiment(
    "weak_interaction/fig1",
    "Group initialisation: two phase transitions",
    "Figure 1, §4.2, Theorem 2",
    {
        scale: {
            "sizes": (1e2, 1e4, 1e8, 1e20, 1e100),
            "alignment": alignment,
            "checked": checked,
            "seed": 0,
        }
        for scale, alignment, checked in (("quick", 1.0, 12), ("paper", 1.0, 60))
    },
    run_fig1,
    cost={"quick": 1.7, "paper": 4.4},
)
