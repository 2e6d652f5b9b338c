from __future__ import annotations

import numpy as np
import pytest

from shallowflow.errors import FileFormatError
from shallowflow.experiments import Claim, Figure, Findings, Panel, Series
from shallowflow.experiments.experiment import TEXT, from_arrays, to_outputs
from tests.reporting.samples import HOSTILE, claim, panel


def arrays_of(findings: Findings) -> dict[str, np.ndarray]:
    return {name: value for name, value in to_outputs(findings).items() if isinstance(value, np.ndarray)}


def test_findings_come_back_equal_in_every_part() -> None:
    odd = Panel(
        (Series([np.nan, 1.0, np.inf], [0.1, 1 / 3, -0.0], band=([0, 0, 0], [1, 1, 1])), Series([], [])),
        title=HOSTILE,
        x_limits=(-np.inf, np.float64(2.5)),
        marks=((0.1, "t₁"), (np.float64(0.2), "")),
        polar=True,
    )
    figures = (Figure("one", "α", (panel(), odd), notes=("n", "m")), Figure("two", "", (odd,), columns=1))
    findings = Findings(figures, (claim(), Claim("s", "p", "m", False, HOSTILE)))
    outputs = to_outputs(findings)
    assert (outputs["claims"], outputs["claims_that_hold"]) == (2.0, 1.0)
    back = from_arrays(arrays_of(findings))
    assert back == findings
    series = back.figures[0].panels[1].series[0]
    assert series.y.tobytes() == np.array([0.1, 1 / 3, -0.0]).tobytes()
    assert not series.x.flags.writeable
    assert isinstance(back.figures[0].panels, tuple)


def test_other_arrays_are_refused() -> None:
    whole = arrays_of(Findings((Figure("f", "t", (panel(),)),), ()))
    text = whole[TEXT]
    for broken in (
        {},
        {TEXT: text},
        {TEXT: text[:-3]},
        {TEXT: np.frombuffer(b'{"kind": "Path", "fields": {}}', dtype=np.uint8)},
        {TEXT: np.frombuffer(b'{"kind": "Claim", "fields": {}}', dtype=np.uint8)},
    ):
        with pytest.raises(FileFormatError, match="stored"):
            from_arrays(broken)
