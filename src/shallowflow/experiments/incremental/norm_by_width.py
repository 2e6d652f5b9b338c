"""Figure 6: the norm of the learned interpolator against the width, from a small start and from He's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.training import (
    LN10,
    Rule,
    banded,
    identity,
    interpolated,
    labels,
    limit_norm,
    slope,
    small_start,
    trained,
)
from shallowflow.landscape.incremental import min_squared_norm
from shallowflow.models import initialize

TONES = ("sky", "blue", "green", "pink")


@dataclass(frozen=True)
class Widths:
    """‖θ‖²/minimum by width: small starts (scales, W, starts), Algorithm 1 (W', starts), He (W'', starts).

    widths: of Algorithm 1; descent from small starts has the first W of them, He's start the first W''.
    losses: the largest at the end of a training from a small start, and from He's; stop_below: the loss that
    counts as trained.
    """

    widths: Floats
    digits: tuple[int, ...]
    small: Floats
    limits: Floats
    he: Floats
    losses: tuple[float, float]
    stop_below: float


def run_fig6(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """‖θ‖² against the width: small balanced start and uniform He start."""
    found = _measured(parameters, progress)
    figure = Figure(
        "fig6",
        "Width: a small start approaches the minimal norm, He's start leaves it",
        (_panel(found),),
        f"n = {parameters['size']}, mean over {parameters['seeds']} starts; bands from the smallest to the "
        f"largest. Rates {parameters['small_step']:g} and {parameters['he_step']:g}.",
        columns=1,
    )
    return Findings((figure,), (*_small_claims(found), _he_claim(found)))


def _measured(parameters: Mapping[str, Any], progress: Progress) -> Widths:
    size, seeds, widths = parameters["size"], range(parameters["seeds"]), parameters["widths"]
    targets = labels(size, parameters["label_seed"])
    dataset, least = identity(targets), min_squared_norm(targets)
    gentle = Rule(parameters["small_step"], parameters["epochs"], parameters["stop_below"])
    he_rule = Rule(parameters["he_step"], parameters["he_epochs"], parameters["stop_below"])
    small, limits, he, losses = [], [], [], np.zeros(2)
    for i, width in enumerate(widths):
        progress(i / len(widths), f"width {width}")
        limits.append([limit_norm(small_start(width, size, 0.0, seed), targets) for seed in seeds])
        if width <= parameters["small_up_to"]:
            ends = [
                [trained(small_start(width, size, -d * LN10, s).to_relu(), dataset, gentle) for s in seeds]
                for d in parameters["digits"]
            ]
            small.append([[end.norm for end in row] for row in ends])
            losses[0] = max(losses[0], *(end.loss for row in ends for end in row))
        if width <= parameters["he_up_to"]:
            last = [trained(initialize.he_uniform(width, size, seed=s), dataset, he_rule) for s in seeds]
            he.append([end.norm for end in last])
            losses[1] = max(losses[1], *(end.loss for end in last))
    return Widths(
        np.array(widths, dtype=np.float64),
        tuple(parameters["digits"]),
        np.array(small).transpose(1, 0, 2) / least,
        np.array(limits) / least,
        np.array(he) / least,
        (float(losses[0]), float(losses[1])),
        parameters["stop_below"],
    )


def _panel(found: Widths) -> Panel:
    return Panel(
        (
            *(
                banded(found.widths[: len(ratios)], ratios, f"small start, α = 10^−{digits}", tone)
                for ratios, digits, tone in zip(found.small, found.digits, TONES, strict=False)
            ),
            banded(found.widths, found.limits, "Algorithm 1", "red", style="points"),
            banded(found.widths[: len(found.he)], found.he, "uniform He start", "orange"),
            Series(found.widths, np.ones(len(found.widths)), "minimal norm", style="dashed", tone="ink"),
        ),
        x_label="width m",
        y_label="‖θ‖² / minimum",
        x_scale="log",
        y_scale="log",
    )


def _small_claims(found: Widths) -> tuple[Claim, ...]:
    """Descent from every scale, and Algorithm 1."""
    cases = [
        *(
            (f"descent from α = 10^−{d}", r, found.losses[0])
            for d, r in zip(found.digits, found.small, strict=True)
        ),
        ("Algorithm 1", found.limits, 0.0),
    ]
    claims = []
    for name, ratios, loss in cases:
        widths, means = found.widths[: len(ratios)], ratios.mean(axis=1)
        claims.append(
            Claim(
                f"With a small start the norm approaches the minimum as the width grows: {name}",
                "approaches the theoretical optimum",
                _listed(widths, means),
                bool(means[-1] < means[0] and slope(widths, means) < 0)
                and interpolated(loss, found.stop_below, ratios),
                "slowly: a neuron active on all n/2 points of a sign is there only at width 2^(n/2); at a "
                "fixed α the ratio levels off above 1, for wide networks have a limit of their own",
            )
        )
    return tuple(claims)


def _he_claim(found: Widths) -> Claim:
    means, (small, he) = found.he.mean(axis=1), found.losses
    return Claim(
        "With the uniform He start it keeps increasing",
        "the squared norm keeps increasing",
        f"{_listed(found.widths[: len(means)], means)} (largest loss at the end {he:.1g}; from small starts "
        f"{small:.1g})",
        bool(np.all(np.diff(means) > 0)) and interpolated(he, found.stop_below, found.he),
    )


def _listed(widths: Floats, means: Floats) -> str:
    pairs = ", ".join(f"{mean:.3g} ({width:.0f})" for width, mean in zip(widths, means, strict=True))
    return f"ratio to the minimum (width): {pairs}"


FIG6 = Experiment(
    name="incremental/fig6",
    title="Norm of the learned interpolator against the width",
    source="Figure 6, App. A.2",
    parameters={
        "quick": {
            "size": 32,
            "widths": (32, 64, 128, 256, 512, 2048, 8192, 65536),
            "small_up_to": 2048,
            "he_up_to": 256,
            "digits": (2, 8),
            "seeds": 3,
            "label_seed": 1000,
            "small_step": 1.0,
            "epochs": 1_000_000,
            "he_step": 0.05,
            "he_epochs": 20_000,
            "stop_below": 1e-10,
        },
        "paper": {
            "size": 32,
            "widths": (32, 64, 128, 256, 512, 1024, 2048, 8192, 65536),
            "small_up_to": 8192,
            "he_up_to": 1024,
            "digits": (2, 4, 8, 30),
            "seeds": 3,
            "label_seed": 1000,
            "small_step": 1.0,
            "epochs": 1_000_000,
            "he_step": 0.001,
            "he_epochs": 1_000_000,
            "stop_below": 1e-10,
        },
    },
    run=run_fig6,
    cost={"quick": 3, "paper": 51},
)
