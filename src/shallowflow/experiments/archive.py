"""Findings as plain arrays and back, so that a store of runs can keep an experiment.

Figures and claims are written as one JSON text; every array in them is an array of its own beside it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import FrozenArrays
from shallowflow.errors import FileFormatError
from shallowflow.experiments import experiment, figure
from shallowflow.experiments.experiment import Findings

TEXT = "findings"
KINDS: dict[str, Any] = {
    name: kind
    for module in (experiment, figure)
    for name, kind in vars(module).items()
    if dataclasses.is_dataclass(kind) and isinstance(kind, type)
}


def to_outputs(findings: Findings) -> dict[str, float | NDArray[Any]]:
    """Return what a task returns: the numbers of claims, and everything as arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_encoded(findings, arrays))
    arrays[TEXT] = np.frombuffer(text.encode(), dtype=np.uint8)
    held = sum(claim.holds for claim in findings.claims)
    return {"claims": float(len(findings.claims)), "claims_that_hold": float(held), **arrays}


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Findings:
    """Return the findings that `to_outputs` wrote."""
    try:
        findings = _decoded(json.loads(arrays[TEXT].tobytes()), arrays)
    except (LookupError, ValueError, TypeError) as error:
        raise FileFormatError(f"the stored findings cannot be read: {error}") from error
    if not isinstance(findings, Findings):
        raise FileFormatError("the stored arrays are not findings")
    return findings


def _encoded(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in KINDS:
        fields = {name: _encoded(entry, arrays) for name, entry in vars(value).items()}
        return {"kind": type(value).__name__, "fields": fields}
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(k, arrays), _encoded(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_encoded(entry, arrays) for entry in value]
    return value


def _decoded(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(entry, arrays) for entry in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "mapping" in value:
        return {_decoded(k, arrays): _decoded(v, arrays) for k, v in value["mapping"]}
    kind = KINDS[value["kind"]]
    made = kind.__new__(kind)
    # The fields were checked when the value was first made; its arrays become read-only again.
    vars(made).update({name: _decoded(entry, arrays) for name, entry in value["fields"].items()})
    if isinstance(made, FrozenArrays):
        FrozenArrays.__post_init__(made)
    return made
