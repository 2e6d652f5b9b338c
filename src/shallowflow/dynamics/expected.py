"""How long a run will take, by what its engines cost (`choice`)."""

from __future__ import annotations

from dataclasses import replace

from shallowflow.dynamics.choice import ENGINES, IN_SPAN, relu
from shallowflow.dynamics.clock.problem import Task


def expected_seconds(verb: str, task: Task) -> float:
    """Return the seconds of the cheapest engine that fits, without compilation: right within a factor or so.

    verb: "gradient_flow" or "gradient_descent". The costs of flows do not know the final time.
    """
    rows = [row for row in ENGINES if row.verb == verb and row.fits(task)]
    costs = [row.cost(task) for row in rows]
    if verb == "gradient_descent" and relu(task) and task.dataset.size <= task.dataset.dimension:
        spanned = replace(task, in_span=True)
        costs += [row.cost(spanned) for row in rows if row.name in IN_SPAN]
    return min(costs, default=0.0)
