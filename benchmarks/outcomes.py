"""What came out: the tables of docs/papers/outcomes.md, from finished reports.

`python -m benchmarks.outcomes REPORT…`: folders that `shallowflow reproduce --out REPORT` wrote, at either
scale; of several reports of one experiment the last one counts. CPU seconds are those of `Experiment.cost`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from shallowflow.experiments import EXPERIMENTS
from shallowflow.experiments.experiment import SCALES

Counts = Counter[bool | None]
"""How many claims hold (True), fail (False) and are open (None)."""


def counts_of(report: Path) -> dict[tuple[str, str], Counts]:
    """Return (experiment, scale) → what became of its claims."""
    found = json.loads((report / "reproductions.json").read_text(encoding="utf-8"))["reproductions"]
    return {
        (one["name"], one["scale"]): Counter(claim["holds"] for claim in one["claims"])
        for one in found
        if not one["error"]
    }


def shown(counts: Counts | None) -> str:
    return "–" if counts is None else " / ".join(str(counts[state]) for state in (True, False, None))


def main(words: list[str]) -> None:
    known: dict[tuple[str, str], Counts] = {}
    for word in words:
        known.update(counts_of(Path(word)))
    papers = dict.fromkeys(name.partition("/")[0] for name in EXPERIMENTS)
    print(f"| paper | experiments | {' | '.join(f'{scale} scale' for scale in SCALES)} |\n|---|---|---|---|")
    for paper in [*papers, ""]:
        names = [name for name in EXPERIMENTS if name.startswith(paper)]
        cells = [f"`{paper}`" if paper else "all", str(len(names))]
        for scale in SCALES:
            parts = [known[name, scale] for name in names if (name, scale) in known]
            missing = "" if len(parts) == len(names) else f" ({len(parts)} of {len(names)})"
            cells.append(shown(sum(parts, Counts())) + missing)
        print(f"| {' | '.join(cells)} |")
    print("\n| experiment | quick | CPU | paper scale | CPU |\n|---|---|---|---|---|")
    for name, experiment in EXPERIMENTS.items():
        cells = [f"`{name}`"]
        for scale in SCALES:
            seconds = experiment.cost.get(scale)
            cells += [shown(known.get((name, scale))), "–" if seconds is None else f"{seconds:g} s"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
