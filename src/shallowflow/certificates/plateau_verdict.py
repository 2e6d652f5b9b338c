"""The verdict of [plateau] on a data set: the level at which a network on the line gets stuck first."""

from __future__ import annotations

import numpy as np

from shallowflow.certificates import plateau
from shallowflow.certificates.verdict import Question, Verdict, failures
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.plateau import plateau_level
from shallowflow.models import initialize
from shallowflow.models.loss import SquareLoss


def verdict(question: Question) -> Verdict:
    """Return the first plateau of a `KnotNetwork` of the paper's initialisation (Theorem 3.1)."""
    dataset = _on_the_line(question.dataset)
    if dataset is None:
        found = f"these have dimension {question.dataset.dimension}"
        return Verdict("plateau", None, (f"Does not apply: it is about data on the line, {found}.",))
    network = initialize.he_knots(question.width, seed=question.seed)
    loss = SquareLoss("sum")
    certificate = plateau.theorem_3_1(network, dataset, loss=loss)
    start = loss.value(network(dataset.inputs), dataset.targets)
    level = plateau_level(network, dataset)
    words = [
        f"A network of {question.width} knots (he_knots, seed {question.seed}) starts at the loss "
        f"{start:.4g} (½Σ). While its pattern of active points lasts, the loss falls towards the plateau "
        f"level {level:.4g}.",
    ]
    if not certificate.holds:
        words.append(f"Theorem 3.1 does not apply yet: {failures(certificate)}.")
    numbers = {"loss at the start (½Σ)": start, "plateau level": level}
    return Verdict("plateau", certificate.holds, tuple(words), numbers, (), (certificate,))


def _on_the_line(dataset: Dataset) -> Dataset | None:
    """Return univariate data, without a bias coordinate; None for other data."""
    if dataset.dimension == 1:
        return dataset
    if dataset.dimension == 2 and bool(np.all(dataset.inputs[:, 1] == 1)):
        return Dataset(dataset.inputs[:, :1], dataset.targets, dataset.name)
    return None
