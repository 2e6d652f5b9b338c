"""The sentences of a diagnosis: every number in them is a field of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shallowflow.readings.forecast import TRUSTED

if TYPE_CHECKING:
    from shallowflow.readings.diagnosis import Diagnosis

EDGE = 1.9
"""From this step × λ_max on descent is taken to be at the edge of stability."""
SMALL_STEP = 0.2
"""Below this step × λ_max a larger step is advised: with 1 descent is stable."""
NOTHING = 0.005
"""A part of the loss below this share is not mentioned."""


def sentences(found: Diagnosis) -> list[str]:
    """Return the diagnosis line by line."""
    return [
        _loss(found),
        _neurons(found),
        *_floors(found),
        *_anatomy(found),
        *_forecast(found),
        *_exit(found),
        _stability(found),
        _advice(found),
    ]


def _loss(found: Diagnosis) -> str:
    share = found.loss / found.baseline if found.baseline > 0 else 0.0
    return f"Loss {found.loss:.4g} ({_percent(share)} of the {found.baseline:.4g} of a network that says 0)."


def _neurons(found: Diagnosis) -> str:
    counted = found.census
    awake, width, effective = int(counted.awake.sum()), counted.width, counted.effective_width
    text = f"{awake} of {_many(width, 'neuron')} {_are(awake)} awake"
    if awake and effective < awake:
        text += f" and act{'s' if awake == 1 else ''} as {effective} on these data"
    rest = [
        f"{number} {_are(number)} {word}"
        for number, word in (
            (int(counted.dead.sum()), "dead"),
            (int(counted.dormant.sum()), "dormant"),
        )
        if number
    ]
    resting = int(counted.resting.sum())
    if resting:
        rest.append(f"{resting} rest{'s' if resting == 1 else ''} on data points")
    return "; ".join([text, *rest]) + "."


def _floors(found: Diagnosis) -> list[str]:
    levels = found.floors
    if levels is None:
        return ["Floors are those of the square loss: with the logistic loss a fit has no lowest point."]
    if levels.interpolates:
        if levels.awake_interpolates or not found.census.dormant.any():
            return ["No floor: the pattern can interpolate."]
        return [
            f"The awake neurons alone cannot get below {levels.awake:.4g} in their pattern; "
            "with the dormant ones there is no floor: the pattern can interpolate."
        ]
    lines = [f"Until a neuron crosses a data point no training can get below {levels.every:.4g}."]
    if found.census.dormant.any() and levels.awake > levels.every * 1.001:
        lines[0] = (
            "Until a neuron crosses a data point the awake neurons alone cannot get below "
            f"{levels.awake:.4g}, and all together not below {levels.every:.4g}."
        )
    if levels.cone is not None and levels.cone > levels.every * 1.001 and levels.cone <= found.loss:
        lines.append(f"If no outer weight changes its sign, not below {levels.cone:.4g}.")
    return lines


def _anatomy(found: Diagnosis) -> list[str]:
    if found.anatomy is None or found.fitted:
        return []
    words = {
        "outer": "is an outer layer that is not solved",
        "turning": "needs the awake neurons to turn",
        "dormant": "needs dormant neurons to grow",
        "pattern": "needs a neuron to cross a data point",
    }
    shares = sorted(found.anatomy.shares.items(), key=lambda item: -item[1])
    named = [f"{_percent(share)} {words[name]}" for name, share in shares if share >= NOTHING]
    return [f"Of the loss {', '.join(named)}."] if named else []


def _forecast(found: Diagnosis) -> list[str]:
    if found.forecast is None or found.fitted or _bounces(found):
        return []
    ahead, leaves = found.forecast, found.exit
    if leaves is not None and leaves.time < ahead.time_of(leaves.fall):
        return []
    one, last = ahead.time_of(0.01), ahead.time_of(TRUSTED)
    if not math.isfinite(one):
        return ["Forecast (tangent kernel): as it stands the loss does not fall by 1 %."]
    said = f"Forecast (tangent kernel): 1 % less after {_time(found, one)}"
    if math.isfinite(last):
        return [f"{said}, 20 % less after {_time(found, last)}; beyond that unknown."]
    if ahead.complete:
        return [f"{said}; as it stands it never falls by 20 %."]
    share = 1.0 - ahead(ahead.reach) / found.loss
    if share <= 0.01:  # where the kernel was renewed the loss was no lower after all
        return [f"{said}; beyond that unknown."]
    return [f"{said}, {_percent(share)} less after {_time(found, ahead.reach)}; beyond that unknown."]


def _time(found: Diagnosis, time: float) -> str:
    if found.step is None:
        return f"t = {time:.3g}"
    return f"{max(1, round(time / found.step)):,} steps"


def _exit(found: Diagnosis) -> list[str]:
    leaves = found.exit
    if leaves is None or _bounces(found):
        return []
    how = "forces frozen" if leaves.frozen else "awake neurons running on"
    number = int(found.census.dormant.sum())
    if leaves.reached:
        return [
            f"Exit clock: the loss will have fallen by {_percent(leaves.fall)} after "
            f"{_time(found, leaves.time)} (estimate, {how}); "
            f"the fastest of {_many(number, 'dormant neuron')} grows at rate {leaves.rate:.3g}."
        ]
    if leaves.rate == 0.0:
        return ["Exit clock: no dormant neuron grows."]
    return [
        f"Exit clock: the loss does not fall by {_percent(leaves.fall)} as far as the clock runs "
        f"(lowest {leaves.lowest:.4g}; {how})."
    ]


def _stability(found: Diagnosis) -> str:
    if found.step is None:
        if found.sharpness <= 0:
            return "λ_max = 0: no parameter has a gradient."
        return f"λ_max = {found.sharpness:.4g}: descent is stable for steps below {2 / found.sharpness:.3g}."
    product = found.step * found.sharpness
    if _bounces(found):
        return (
            f"step × λ_max = {product:.3g}: at the edge of stability (2) the loss bounces, "
            "and no forecast holds; take a smaller step."
        )
    if 0.0 < product < SMALL_STEP:
        times = 1.0 / product
        return f"step × λ_max = {product:.3g}: a step {times:.0f} times as large would be stable too."
    return f"step × λ_max = {product:.3g}, below the limit 2."


def _bounces(found: Diagnosis) -> bool:
    """Whether descent with this step does not follow the flow."""
    return found.step is not None and found.step * found.sharpness >= EDGE


def _advice(found: Diagnosis) -> str:
    above = found.loss / found.floors.every - 1 if found.floors and found.floors.every > 0 else 0.0
    near = "at" if above < 1e-4 else f"{_percent(above)} above"
    expects = "" if found.expects is None else f" (down to {found.expects:.4g} at best)"
    return {
        "none": "Nothing to cure: the data are fitted."
        if found.fitted
        else "No escape is known for this loss. Train on: a step of up to "
        f"{1.0 / found.sharpness if found.sharpness > 0 else 1.0:.3g} is stable.",
        "restart": "Every neuron is dead: no training can change that. Start anew.",
        "outer": f"Try: solve the outer layer and rebalance, then recycle neurons{expects}: `escape`.",
        "turn": f"Try: a few Levenberg–Marquardt steps{expects}: `escape`.",
        "wait": "Waiting: dormant neurons grow. Train on until the exit clock, or recycle them: `escape`.",
        "recycle": f"Try: recycle dormant neurons with a refit{expects}: `escape`.",
        "grow": f"The loss is {near} the floor of its pattern: more steps or a better optimiser will "
        "not help until a neuron crosses a data point. Add neurons in directed positions: `escape`.",
    }[found.cure]


def _percent(share: float) -> str:
    number = 100.0 * share
    if number == 0.0:
        return "0 %"
    return f"{number:.0f} %" if number >= 9.5 else f"{number:.2g} %"


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
