"""Figures 5 and 6: the norm of the learned interpolator, against the number of points and the width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.limits.saddle_to_saddle import jump_process, saddle_to_saddle
from shallowflow.dynamics.record import Record
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape.min_norm import HALVING_RATIO, min_squared_norm, squared_norm
from shallowflow.landscape.orthonormal import mask_of
from shallowflow.models import LogScaledNetwork, initialize

PAPER_SIZES = 4096
"""Up to this n the slope is the paper's; beyond, the asymptotic one."""


def enough_neurons(size: int) -> int:
    """The width with which interpolation is likely: ⌈4 ln(n/0.01)⌉."""
    return int(np.ceil(4 * np.log(size / 0.01)))


def _labels(size: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(size)


def _identity(targets: Floats) -> Dataset:
    return Dataset(np.eye(len(targets)), targets, name="identity")


def _small(width: int, size: int, init_scale: float, seed: int) -> LogScaledNetwork:
    return initialize.log_scaled(width, size, log_scale=float(np.log(init_scale / np.sqrt(width))), seed=seed)


def _limit_norm(network: LogScaledNetwork, targets: Floats) -> float:
    """‖θ‖² at the end of Algorithm 1 on the standard basis."""
    return jump_process(mask_of(network.inner, network.outer, targets), targets).squared_norm


def _descent_norm(network: LogScaledNetwork, dataset: Dataset, step: float, epochs: int) -> float:
    """‖θ‖² where descent ends: soon after Algorithm 1's last jump, or at the limit of epochs."""
    limit, scale = saddle_to_saddle(network, dataset), network.acceleration
    done = 1.3 * scale * float(limit.predicted_times(scale).max())
    steps = int(np.clip(round(done / step), 1, epochs))
    run = gradient_descent(network, dataset, step=step, steps=steps, record=Record.geometric(2))
    assert isinstance(run.final, LogScaledNetwork)
    return squared_norm(run.final)


def run_fig5(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """‖θ‖² against n: Algorithm 1, descent, and the minimum."""
    sizes, seeds = np.array(parameters["sizes"]), parameters["seeds"]
    trained = [size for size in sizes if size <= parameters["descent_up_to"]]
    least, limits, descents = [], [], []
    for i, size in enumerate(sizes):
        progress(i / len(sizes), f"n = {size}")
        targets = _labels(int(size), parameters["label_seed"])
        least.append(min_squared_norm(targets))
        width, scale = enough_neurons(int(size)), parameters["init_scale"]
        limits.append(
            [
                _limit_norm(_small(width, int(size), scale, s), targets)
                for s in range(parameters["limit_seeds"])
            ]
        )
        if size in trained:
            step, epochs = parameters["step"], parameters["epochs"]
            dataset = _identity(targets)
            starts = [_small(width, int(size), scale, seed) for seed in range(seeds)]
            descents.append([_descent_norm(net, dataset, step, epochs) for net in starts])
    measured, by_descent, minimum = np.array(limits), np.array(descents), np.array(least)
    panel = Panel(
        (
            _banded(sizes, measured, "Algorithm 1", "blue"),
            _banded(np.array(trained), by_descent, "descent", "orange", style="points"),
            Series(sizes, minimum, "minimal norm", style="dashed", tone="ink"),
        ),
        x_label="number of points n",
        y_label="‖θ‖²",
        x_scale="log",
        y_scale="log",
    )
    ratio = Panel(
        (
            _banded(sizes, measured / minimum[:, None], "Algorithm 1", "blue"),
            Series(
                sizes,
                np.full(len(sizes), HALVING_RATIO),
                "1 + √2 (exact halving)",
                style="dashed",
                tone="muted",
            ),
        ),
        x_label="number of points n",
        y_label="‖θ‖² / minimum",
        x_scale="log",
        y_limits=(1.0, 3.0),
    )
    figure = Figure(
        "fig5",
        "The learned interpolator's squared norm grows like √n",
        (panel, ratio),
        "Mean over starts, bands from smallest to largest. Width ⌈4 ln(n/0.01)⌉, Gaussian labels.",
    )
    return Findings((figure,), _fig5_claims(sizes, measured, by_descent, minimum))


def _fig5_claims(sizes: Floats, measured: Floats, by_descent: Floats, minimum: Floats) -> tuple[Claim, ...]:
    small, large = sizes <= PAPER_SIZES, sizes >= PAPER_SIZES
    slope, least, tail = (
        float(np.polyfit(np.log(sizes[chosen]), np.log(values[chosen]), 1)[0])
        for values, chosen in (
            (measured.mean(axis=1), small),
            (minimum, small),
            (measured.mean(axis=1), large),
        )
    )
    ratios = measured / minimum[:, None]
    paired = measured[: len(by_descent), : by_descent.shape[1]]
    apart = float(np.max(np.abs(by_descent / paired - 1)))
    return (
        Claim(
            f"‖θ‖² of the learned interpolator grows like √n, n = {sizes[0]:.0f} … {PAPER_SIZES}",
            "slope about ½ on logarithmic axes",
            f"slope {slope:.3f} (minimum: {least:.3f})",
            abs(slope - 0.5) <= 0.03,
            "at these sizes the ratio to the minimum still climbs towards 1 + √2, which adds to the slope",
        ),
        Claim(
            f"and does so for larger n, {PAPER_SIZES} … {sizes[-1]:.0f}",
            "‖θ‖² = O(√n) (Theorem 3)",
            f"slope {tail:.3f}",
            abs(tail - 0.5) <= 0.03,
        ),
        Claim(
            "It exceeds the minimum by a constant factor only",
            "a constant factor; 1 + √2 ≈ 2.41 if every jump halves what is left",
            f"ratios {ratios.min():.2f} … {ratios.max():.2f}, {ratios[-1].mean():.2f} at n = {sizes[-1]:.0f}",
            float(ratios.max()) < 3.0,
        ),
        Claim(
            "Descent from a small start ends near the norm of Algorithm 1",
            "tends to it as α → 0 (Theorem 2)",
            f"within {apart:.2g} (relative) up to n = {sizes[len(by_descent) - 1]:.0f}",
            apart < 0.25,
            "the gaps shrink with n: neurons that nearly tie grow together and share what one would fit",
        ),
    )


def run_fig6(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """‖θ‖² against the width: small balanced start and uniform He start."""
    size, seeds, widths = parameters["size"], parameters["seeds"], np.array(parameters["widths"])
    dataset = _identity(_labels(size, parameters["label_seed"]))
    least = min_squared_norm(dataset.targets)
    small, he, limits, losses = list[list[float]](), list[list[float]](), list[list[float]](), list[float]()
    for i, width in enumerate(widths):
        progress(i / len(widths), f"width {width}")
        starts = [_small(int(width), size, parameters["init_scale"], seed) for seed in range(seeds)]
        limits.append([_limit_norm(net, dataset.targets) for net in starts])
        step, epochs = parameters["small_step"], parameters["epochs"]
        small.append([_descent_norm(net, dataset, step, epochs) for net in starts])
        plain = [initialize.he_uniform(int(width), size, seed=seed) for seed in range(seeds)]
        runs = [
            gradient_descent(
                LogScaledNetwork(net.inner, net.outer, np.zeros(net.width)),
                dataset,
                step=parameters["he_step"],
                steps=parameters["he_epochs"],
                record=Record.geometric(2),
            )
            for net in plain
        ]
        he.append([squared_norm(run.final) for run in runs if isinstance(run.final, LogScaledNetwork)])
        losses.append(max(float(run.losses[-1]) for run in runs))
    wide = np.array(parameters["limit_widths"])
    beyond = [
        [
            _limit_norm(_small(int(width), size, parameters["init_scale"], seed), dataset.targets)
            for seed in range(seeds)
        ]
        for width in wide
    ]
    panel = Panel(
        (
            _banded(widths, np.array(small), "small balanced start", "blue"),
            _banded(np.append(widths, wide), np.array(limits + beyond), "Algorithm 1", "sky", style="points"),
            _banded(widths, np.array(he), "uniform He start", "orange"),
            Series(
                np.append(widths, wide),
                np.full(len(widths) + len(wide), least),
                "minimal norm",
                style="dashed",
                tone="ink",
            ),
        ),
        x_label="width m",
        y_label="‖θ‖²",
        x_scale="log",
        y_scale="log",
    )
    figure = Figure(
        "fig6",
        "Width: a small start approaches the minimal norm, He's start leaves it",
        (panel,),
        f"n = {size}, mean over {seeds} starts; bands from the smallest to the largest.",
        columns=1,
    )
    down, up = np.array(limits + beyond).mean(axis=1) / least, np.array(he).mean(axis=1) / least
    return Findings(
        (figure,), _fig6_claims(np.append(widths, wide), down, np.array(small) / least, up, losses)
    )


def _fig6_claims(
    widths: Floats, limits: Floats, small: Floats, he: Floats, losses: list[float]
) -> tuple[Claim, ...]:
    means = small.mean(axis=1)
    return (
        Claim(
            "With a small start the norm approaches the minimum as the width grows",
            "approaches the theoretical optimum",
            f"ratio to the minimum: descent {means[0]:.2f} → {means[-1]:.2f}; Algorithm 1 {limits[0]:.2f} → "
            f"{limits[-1]:.2f} at width {widths[-1]:.0f}",
            bool(means[-1] < means[0] and limits[-1] < limits[0]),
            "slowly: a neuron active on all n/2 points of a sign is there only at width 2^(n/2)",
        ),
        Claim(
            "With the uniform He start it keeps increasing",
            "the squared norm keeps increasing",
            f"ratio to the minimum {he[0]:.2f} → {he[-1]:.2f} (largest loss at the end {max(losses):.1g})",
            bool(np.all(np.diff(he) > 0)),
        ),
    )


def _banded(x: Floats, values: Floats, label: str, tone: str, style: str = "line") -> Series:
    band = values.min(axis=1), values.max(axis=1)
    return Series(x, values.mean(axis=1), label, tone=tone, style=style, band=band)


FIG5 = Experiment(
    name="incremental/fig5",
    title="Norm of the learned interpolator against the number of points",
    source="Figure 5, App. A.2",
    parameters={
        "quick": {
            "sizes": (32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 131072),
            "descent_up_to": 64,
            "seeds": 3,
            "limit_seeds": 10,
            "label_seed": 1000,
            "init_scale": 1e-30,
            "step": 0.5,
            "epochs": 300_000,
        },
        "paper": {
            "sizes": (32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 131072),
            "descent_up_to": 256,
            "seeds": 3,
            "limit_seeds": 10,
            "label_seed": 1000,
            "init_scale": 1e-30,
            "step": 0.5,
            "epochs": 1_000_000,
        },
    },
    run=run_fig5,
    cost={"quick": 9, "paper": 11},
)

FIG6 = Experiment(
    name="incremental/fig6",
    title="Norm of the learned interpolator against the width",
    source="Figure 6, App. A.2",
    parameters={
        "quick": {
            "size": 32,
            "widths": (32, 64, 128, 256),
            "limit_widths": (1024, 8192, 65536),
            "seeds": 3,
            "label_seed": 1000,
            "init_scale": 1e-12,
            "small_step": 1.0,
            "epochs": 30_000,
            "he_step": 0.05,
            "he_epochs": 20_000,
        },
        "paper": {
            "size": 32,
            "widths": (32, 64, 128, 256, 512),
            "limit_widths": (2048, 8192, 65536),
            "seeds": 3,
            "label_seed": 1000,
            "init_scale": 1e-12,
            "small_step": 1.0,
            "epochs": 1_000_000,
            "he_step": 0.001,
            "he_epochs": 1_000_000,
        },
    },
    run=run_fig6,
    cost={"quick": 4},
)
