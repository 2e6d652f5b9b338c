"""`certify` against simulation: whatever it promises of the end of training, the flow keeps."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import VERDICTS, Question
from shallowflow.data.dataset import Dataset
from shallowflow.experiments.early_alignment.examples import random_assumed
from shallowflow.models import initialize

SCALES = (1e-6, 1e-4, 1e-2, 1.0)
INITS = ("balanced", "dominated", "gaussian")


def random_data(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    return Dataset(rng.uniform(-1, 1, (4, 1)), rng.uniform(0.1, 1.0, 4)).with_bias()


@pytest.mark.slow
def test_two_hundred_cases() -> None:
    """Data of Assumption 3 and random data, three kinds of starts, four scales: never promised and broken."""
    counted = {"promised": 0, "undecided": 0, "nothing": 0}
    in_line = dict.fromkeys(SCALES, 0)
    for number in range(18):
        dataset = random_assumed(number) if number < 12 else random_data(number)
        line = sf.landscape.least_squares(dataset).loss
        for init in INITS:
            for scale in SCALES:
                told = VERDICTS["early_alignment"](
                    Question(dataset, width=30, init=init, init_scale=scale, seed=number)
                )
                words = " ".join(told.words)
                start = getattr(initialize, init)(30, 2, init_scale=scale, seed=number)
                loss = sf.gradient_flow(start, dataset, until=200.0, record=sf.Record.geometric(2)).losses[-1]
                ends_in_line = abs(loss / line - 1) < 1e-2
                in_line[scale] += ends_in_line and number < 12
                word = {True: "promised", None: "undecided", False: "nothing"}[told.applies]
                counted[word] += 1
                assert told.applies is not True or ends_in_line
                assert "will end" not in words
                assert ("undecided" in words) == (told.applies is None)
    assert sum(counted.values()) == 216
    assert counted == {"promised": 0, "undecided": 144, "nothing": 72}
    # The scales matter: a promise at every scale would have been broken.
    assert in_line[1e-6] >= 24 > in_line[1.0]


def test_a_few_cases() -> None:
    for scale in (1e-6, 1.0):
        told = VERDICTS["early_alignment"](Question(random_assumed(0), width=20, init_scale=scale))
        assert told.applies is None
    assert VERDICTS["early_alignment"](Question(random_data(3), width=20)).applies is False
