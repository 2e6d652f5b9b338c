"""Theorem 1 on simulations: how far the neurons are from extremal vectors at τ, against the scale λ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.certificates import Certificate, certify
from shallowflow.data import Dataset
from shallowflow.data.generators import sphere, three_points
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import (
    AlignmentThreshold,
    ExtremalVector,
    alignment_threshold,
    extremal_vectors,
    neuron_alignment,
)
from shallowflow.landscape.early_alignment.balances import init_scale
from shallowflow.models import ReLUNetwork, initialize

ON_HYPERPLANE = 1e-6
"""A neuron of a flow this close to a data hyperplane (in angle) lies on it."""
SLACK = 0.02
"""A measured exponent may fall short of the predicted one by this share: it is a fit."""


@dataclass(frozen=True)
class Sweep:
    """Flows until τ on one data set for several scales λ: (k,) each; errors (k, v) by extremal vector."""

    dataset: Dataset
    threshold: AlignmentThreshold
    vectors: tuple[ExtremalVector, ...]
    scales: Floats
    errors: Floats
    elsewhere: Floats
    certificates: tuple[Certificate, ...]

    @property
    def predicted(self) -> Floats:
        """ε‖D‖/D_max of every extremal vector, (v,)."""
        norms = np.array([vector.norm for vector in self.vectors])
        return self.threshold.epsilon * norms / self.threshold.d_max

    @property
    def measured(self) -> Floats:
        """The slope of log error over log λ on the smaller half of the scales, (v,); NaN: no neuron."""
        half = len(self.scales) // 2
        slopes = np.full(len(self.vectors), np.nan)
        for v in range(len(self.vectors)):
            logs = np.log(self.errors[half:, v])
            if np.isfinite(logs).all():
                slopes[v] = np.polyfit(np.log(self.scales[half:]), logs, 1)[0]
        return slopes


def run_theorem1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Sweep λ on the three points and on data with several extremal vectors."""
    several = sphere(parameters["size"], 2, seed=parameters["data_seed"])
    sweeps: list[Sweep] = []
    for part, dataset in enumerate((three_points(), several)):

        def show(fraction: float, part: int = part, name: str = dataset.name) -> None:
            progress((part + fraction) / 2, f"aligning on {name}")

        sweeps.append(sweep(dataset, parameters, show))
    claims = tuple(claim for one in sweeps for claim in _claims(one))
    panels = tuple(_panel(one) for one in sweeps)
    caption = (
        "Solid: the largest ‖D‖ − ⟨D, w/a⟩ at τ over the neurons of Condition 1 at each extremal vector. "
        "Dashed: the predicted order λ^(ε‖D‖/D_max), drawn through the last point."
    )
    return Findings((Figure("theorem1", "Alignment error at τ against the scale", panels, caption),), claims)


def sweep(dataset: Dataset, parameters: Mapping[str, Any], progress: Callable[[float], None]) -> Sweep:
    """Return what flows until τ show, for scales from just below λ* down."""
    epsilon, alpha_0 = parameters["epsilon"], parameters["alpha_0"]
    threshold = alignment_threshold(dataset, epsilon=epsilon, alpha_0=alpha_0)
    vectors = tuple(extremal_vectors(dataset))
    asked = threshold.scale * np.geomspace(0.9, parameters["smallest"], parameters["scales"])
    scales, errors, elsewhere, certificates = [], [], [], []
    for number, scale in enumerate(asked.tolist()):
        network = initialize.dominated(parameters["width"], 2, init_scale=scale, seed=parameters["seed"])
        scales.append(init_scale(network))
        trajectory = gradient_flow(network, dataset, until=threshold.time(scales[-1]))
        options = {"epsilon": epsilon, "alpha_0": alpha_0}
        certificates.append(certify("early_alignment/theorem-1", network, dataset, trajectory, **options))
        final = trajectory.final
        assert isinstance(final, ReLUNetwork)
        found, lost = _errors(network, final, dataset, vectors, alpha_0)
        errors.append(found)
        elsewhere.append(lost)
        progress((number + 1) / len(asked))
    arrays = np.array(scales), np.array(errors), np.array(elsewhere, dtype=np.float64)
    return Sweep(dataset, threshold, vectors, *arrays, tuple(certificates))


def _errors(
    start: ReLUNetwork,
    final: ReLUNetwork,
    dataset: Dataset,
    vectors: tuple[ExtremalVector, ...],
    alpha_0: float,
) -> tuple[Floats, int]:
    """Return the largest error at each extremal vector (NaN: no neuron there), and the neurons elsewhere."""
    first = neuron_alignment(start, dataset)
    last = neuron_alignment(final, dataset, tolerance=ON_HYPERPLANE)
    chosen = first.alignments > -np.sqrt(1 - alpha_0**2) * first.norms
    arrived = chosen & (last.states >= 0) & ~last.opposed(ON_HYPERPLANE)
    errors = np.full(len(vectors), np.nan)
    for v, vector in enumerate(vectors):
        here = arrived & np.isclose(last.norms, vector.norm, rtol=1e-9)
        if here.any():
            errors[v] = float(np.max(last.misalignments[here]))
    return errors, int(np.sum(chosen & (last.states < 0) & (last.norms > 0)))


def _claims(found: Sweep) -> tuple[Claim, ...]:
    name, star = found.dataset.name, found.threshold.scale
    factor, bound = found.certificates[-1].promises[0].observed, found.certificates[-1].promises[0].bound
    kept = [all(p.kept for p in one.promises[:2]) and one.holds for one in found.certificates]
    usable = np.isfinite(found.measured)
    pairs = [f"{found.measured[v]:.3f} ≥ {found.predicted[v]:.3f}" for v in np.flatnonzero(usable)]
    aligned = [one.promises[3].kept is True for one in found.certificates]
    return (
        Claim(
            f"{name}: (i) until τ outer weights change by less than λ^(∓2ε), and ‖w_j‖ ≤ |a_j|",
            f"for every λ < λ* = {star:.2g}",
            f"holds for {sum(kept)} of {len(kept)} scales; at the smallest the factor is {factor:.3g}, "
            f"allowed {bound:.3g}",
            all(kept),
        ),
        Claim(
            f"{name}: (ii) at τ every neuron of Condition 1 is aligned with an extremal vector, or dead",
            "misalignment at most c·λ^(ε‖D‖/D_max)",
            f"within the bound at {sum(aligned)} of {len(aligned)} scales; neurons elsewhere, from the "
            f"largest λ to the smallest: {', '.join(f'{n:.0f}' for n in found.elsewhere)}",
            all(aligned) and found.elsewhere[-1] == 0,
            "just below λ* the time τ is shorter than the proof's t₂: some neurons are still on their way",
        ),
        Claim(
            f"{name}: the error decays with the predicted exponent, or faster",
            "exponent ε‖D‖/D_max for each extremal vector",
            f"measured ≥ predicted: {'; '.join(pairs)}",
            bool(usable.any())
            and bool(np.all(found.measured[usable] >= (1 - SLACK) * found.predicted[usable])),
            "twice the predicted: f' = ‖D‖² − f² closes in on ‖D‖ at the rate 2‖D‖; the proof uses ‖D‖",
        ),
    )


def _panel(found: Sweep) -> Panel:
    series: list[Series] = []
    tones = ("blue", "red", "green", "pink", "orange", "sky")
    shown = np.flatnonzero(np.isfinite(found.measured))
    for tone, v in zip(tones, shown, strict=False):
        label = f"{found.vectors[v].kind}, ‖D‖ = {found.vectors[v].norm / found.threshold.d_max:.2f} D_max"
        order = found.errors[-1, v] * (found.scales / found.scales[-1]) ** found.predicted[v]
        series += [
            Series(found.scales, found.errors[:, v], label, tone=tone),
            Series(found.scales, order, style="dashed", tone=tone, size=0.6),
        ]
    return Panel(
        tuple(series),
        title=f"{found.dataset.name}, λ* = {found.threshold.scale:.2g}",
        x_label="initialisation scale λ",
        y_label="largest misalignment at τ",
        x_scale="log",
        y_scale="log",
        y_limits=(0.3 * float(np.nanmin(found.errors)), 1e3),
    )


THEOREM1 = Experiment(
    name="early_alignment/theorem1",
    title="Theorem 1 on simulations: alignment error against the scale of initialisation",
    source="Theorem 1, §3",
    parameters={
        "quick": {
            "width": 40,
            "epsilon": 0.25,
            "alpha_0": 0.5,
            "smallest": 1e-14,
            "scales": 8,
            "size": 3,
            "data_seed": 5,
            "seed": 0,
        },
        "paper": {
            "width": 200,
            "epsilon": 0.25,
            "alpha_0": 0.5,
            "smallest": 1e-30,
            "scales": 16,
            "size": 3,
            "data_seed": 5,
            "seed": 0,
        },
    },
    run=run_theorem1,
    cost={"quick": 7.5, "paper": 87},
)
