"""A walk along the border: every public callable with values that are wrong or extreme, one or several.

`python -m tests.border.walk --out walk.json` makes all calls, some callables in each process, with a limit on
memory, and prints what it found. A call is right if it returns, or raises an error of the library with a
message; it is wrong if it raises anything else, warns, prints, returns NaN or infinity under a good outcome,
runs longer than `LONGEST`, or does not react to an interrupt within `PATIENCE`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import shallowflow as sf
from tests.border.calls import (
    BOX,
    CUBOIDS,
    KNOTS,
    LINE,
    PLANE,
    RELU,
    SMALL,
    SOFT,
    STEPS,
    TINY,
    UNIT,
    Call,
    calls,
)

LONGEST, PATIENCE = 10.0, 2.0
"""Seconds that a call may take, and until it must react to an interrupt."""
MEMORY = 6 << 30
COMBINATIONS = 40
"""Calls of one callable with several unusual values at once."""


def pool() -> dict[str, Any]:
    """Return values that are wrong nearly everywhere, and values that are only extreme."""
    zero = sf.Dataset([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0])
    return {
        **{"None": None, "True": True, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")},
        **{"0": 0, "-1": -1, "0.0": 0.0, "-0.5": -0.5, "1e308": 1e308, "-1e308": -1e308, "1e-320": 1e-320},
        **{"10**30": 10**30, "-10**30": -(10**30), "1e20": 1e20, "1e-300": 1e-300, "complex": 1j},
        **{"text": "walked?", "empty text": "", "NUL": "a\0b", "bytes": b"x", "object": object()},
        **{"[]": [], "[[]]": [[]], "ragged": [[1.0], [2.0, 3.0]], "list of text": ["a", "b"], "dict": {}},
        **{
            "[nan]": [float("nan")],
            "[1, inf]": [1.0, float("inf")],
            "matrix": np.ones((2, 3)),
            "cube": np.ones((2, 2, 2)),
        },
        **{"complex array": np.array([1j, 2.0]), "dates": np.array(["2020-01-01"], dtype="M8[D]")},
        **{"masked": np.ma.array([1.0, 99.0], mask=[False, True]), "objects": np.array([object()])},
        **{"[1e308]*2": [1e308, -1e308], "[1e160]*2": [1e160, 1e160], "zeros": [0.0, 0.0], "one": [1.0]},
        **{"lambda": lambda *_: None, "class": float, "generator": (i for i in range(2)), "set": {1.0}},
        **{
            "ReLU": RELU,
            "knots": KNOTS,
            "steps": SOFT,
            "cuboids": CUBOIDS,
            "log-scaled": TINY,
            "small": SMALL,
        },
        "zero network": sf.ReLUNetwork(np.zeros((2, 2)), np.zeros(2)),
        "huge network": sf.ReLUNetwork(np.full((2, 2), 1e160), np.full(2, 1e160)),
        "one neuron": sf.ReLUNetwork([[0.3, -0.2]], [0.5], 0.2),
        "other dimension": sf.ReLUNetwork(np.ones((2, 5)), [0.1, 0.2]),
        "equal knots": sf.KnotNetwork([0.1, 0.1, 0.1], [1.0, 2.0, -1.0]),
        "far knots": sf.KnotNetwork([-1e150, 1e150], [1.0, 2.0]),
        **{"plane": PLANE, "line": LINE, "unit": UNIT, "box": BOX, "zero data": zero, "target": STEPS},
        "one sample": sf.Dataset([[0.5, 1.0]], [1.0]),
        "repeated": sf.Dataset([[0.5, 1.0]] * 3, [1.0, -1.0, 0.3]),
        "one repeated x": sf.Dataset([[0.5]] * 3, [1.0, -1.0, 0.3]),
        "huge data": sf.Dataset([[1e160, 1.0], [1.0, -1e160]], [1e160, -1e160]),
        "huge line": sf.Dataset([[0.0], [1.0]], [1e308, -1e308]),
        "tiny data": sf.Dataset([[1e-200, 0.0], [0.0, 1e-200]], [1e-200, -1e-200]),
        **{"logistic": sf.LogisticLoss(), "sum": sf.SquareLoss("sum"), "norm loss": sf.NormLoss()},
        **{"record": sf.Record.every(2), "losses only": sf.Record.geometric(10, networks=False)},
    }


@dataclasses.dataclass(frozen=True)
class Finding:
    """A call that went wrong: kind is raw, warning, printed, silent, slow or deaf."""

    kind: str
    name: str
    changed: str
    detail: str


def variations(call: Call, seed: int, share: float = 1.0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (what is changed, arguments): one argument at a time, then several."""
    rng = np.random.default_rng(seed)
    values = pool()
    names = [name for name in (*call.arguments, *call.optional) if name != "progress"]
    yield "nothing", dict(call.arguments)
    for parameter in names:
        for label, value in values.items():
            if rng.uniform() < share:
                yield f"{parameter}={label}", {**call.arguments, parameter: value}
    labels = list(values)
    for _ in range(round(COMBINATIONS * share) if len(names) > 1 else 0):
        chosen = rng.permutation(names)[: rng.integers(2, min(4, len(names)) + 1)]
        picked = {str(name): labels[rng.integers(len(labels))] for name in chosen}
        changed = ", ".join(f"{name}={label}" for name, label in picked.items())
        yield changed, {**call.arguments, **{name: values[label] for name, label in picked.items()}}


class Interrupted(BaseException):
    """The interrupt that a walk sends to a call that takes too long."""


def _interrupt(*_: object) -> None:
    raise Interrupted


def make(
    call: Call, changed: str, arguments: Mapping[str, Any], longest: float = LONGEST
) -> tuple[str, list[Finding]]:
    """Make one call; return "returned" or "refused" or "wrong", and what was wrong."""
    findings = []

    def found(kind: str, detail: object) -> None:
        findings.append(Finding(kind, call.name, changed, str(detail)[:300]))

    answer, began = "returned", time.monotonic()
    before = signal.signal(signal.SIGALRM, _interrupt)
    with _quiet() as printed, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        signal.setitimer(signal.ITIMER_REAL, longest)
        try:
            result = call.function(**arguments)
            if (bad := silent(result)) and _finite(arguments):
                found("silent", bad)
        except sf.ShallowflowError as error:
            answer = "refused"
            if not str(error).strip():
                found("raw", "an error without a message")
        except Interrupted:
            found("slow", f"no answer within {longest:g} s")
        except BaseException as error:
            found("raw", f"{type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
    if time.monotonic() - began > longest + PATIENCE:
        found("deaf", f"reacted after {time.monotonic() - began - longest:.1f} s")
    for one in caught:
        found(
            "warning",
            f"{one.category.__name__}: {one.message} ({one.filename.rpartition('/')[2]}:{one.lineno})",
        )
    if text := printed():
        found("printed", text)
    return ("wrong" if findings else answer), findings


def _finite(arguments: Mapping[str, Any]) -> bool:
    """Return whether plain numbers among the arguments are finite: asked for NaN, a record may hold NaN."""
    return all(not isinstance(value, float) or np.isfinite(value) for value in arguments.values())


def silent(result: object) -> str:
    """Return what is not finite in a result whose outcome says that all is well, or an empty text."""
    if isinstance(result, sf.Trajectory) and result.outcome.status in ("completed", "converged"):
        if not np.isfinite(result.losses).all():
            return f"losses {result.losses[~np.isfinite(result.losses)][:3]}, {result.outcome.status}"
        final = np.concatenate([np.ravel(value) for value in result.final.parameters.values()])
        if not np.isfinite(final).all():
            return f"parameters {final[~np.isfinite(final)][:3]}, {result.outcome.status}"
    if isinstance(result, sf.ReLUNetwork | sf.KnotNetwork | sf.StepNetwork | sf.AdditiveStepNetwork):
        final = np.concatenate([np.ravel(value) for value in result.parameters.values()])
        return "" if np.isfinite(final).all() else "parameters that are not finite"
    if isinstance(result, float) and np.isnan(result):
        return "nan"
    return ""


@contextlib.contextmanager
def _quiet() -> Iterator[Any]:
    """Catch what is written to the descriptors of output and errors, by compiled code too."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(1), os.dup(2)]
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        text: list[str] = []
        try:
            yield lambda: text[0] if text else ""
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, one in zip((1, 2), kept, strict=True):
                os.dup2(one, number)
                os.close(one)
            file.seek(0)
            text.append(file.read(1000).decode(errors="replace").strip())


def walked(names: list[str], seed: int, share: float) -> None:
    """Make the calls of some callables in this process; print one line of JSON for each callable."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(tempfile.mkdtemp())
    by_name = {call.name: call for call in calls()}
    for name in names:
        counts: Counter[str] = Counter()
        findings: list[Finding] = []
        for changed, arguments in variations(by_name[name], seed, share):
            # The first call may compile.
            answer, wrong = make(
                by_name[name], changed, arguments, 120.0 if changed == "nothing" else LONGEST
            )
            counts[answer] += 1
            findings += wrong
        print(
            json.dumps(
                {"name": name, "counts": counts, "wrong": [dataclasses.astuple(one) for one in findings]}
            ),
            flush=True,
        )


def main() -> None:
    """Walk in processes of their own, a callable at a time, so that a crash costs one callable."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--out")
    given = parser.parse_args()
    if given.names:
        walked(given.names, given.seed, given.share)
        return
    names = [call.name for call in calls() if given.only in call.name]
    total: Counter[str] = Counter()
    wrong: list[list[str]] = []
    by_name: dict[str, dict[str, int]] = {}
    for i in range(0, len(names), 12):
        part = names[i : i + 12]
        command = [
            sys.executable,
            "-m",
            "tests.border.walk",
            "--share",
            str(given.share),
            "--seed",
            str(given.seed),
        ]
        done = subprocess.run([*command, "--names", *part], capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for line in lines:
            total.update(line["counts"])
            by_name[line["name"]] = line["counts"]
            wrong += line["wrong"]
        if len(lines) < len(part):
            missing = part[len(lines)]
            wrong.append(["crash", missing, "", done.stderr[-300:]])
        print(
            f"{min(i + 12, len(names))} of {len(names)} callables, {total.total()} calls, {len(wrong)} wrong",
            flush=True,
        )
    print(dict(total), Counter(one[0] for one in wrong))
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump({"counts": total, "by_name": by_name, "wrong": wrong}, file, indent=1)


if __name__ == "__main__":
    main()
