"""200 random runs: what `story` and `diagnose` print is recomputed from raw parameters.

Loss, counts, floors and λ_max are bound to their sentences (`claims`), any other number must be among those
Loss, counts, floors and λ_max are bound to their sentences (`claims`); all other numbers must be among those
the first step of 1 % of the forecast.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")


def random_run(seed: int) -> sf.Trajectory:
    """Descent from a small or large start, d from 1 to 5, a few steps or a thousand."""
    rng = np.random.default_rng(700_000 + seed)
    d, n, m = int(rng.integers(1, 6)), int(rng.integers(3, 30)), int(rng.integers(1, 15))
    data = sf.Dataset(rng.standard_normal((n, d)), rng.standard_normal(n))
    start = sf.initialize.balanced(m, d, init_scale=10.0 ** rng.uniform(-3, 0.3), seed=seed)
    steps = int(10 ** rng.uniform(0.5, 3))
    record = sf.Record.geometric(60)
    return sf.gradient_descent(start, data, step=0.02, steps=steps, engine="dense", record=record)


class Raw:
    """A network as plain arrays: who is awake, floors by lstsq, the kernel by its definition."""

    def __init__(self, network: object, data: sf.Dataset) -> None:
        assert isinstance(network, sf.ReLUNetwork)
        self.w, self.a, self.x, self.y = network.inner, network.outer, data.inputs, data.targets
        self.z = self.w @ self.x.T
        self.on = self.z > 0
        self.residual = np.maximum(self.z, 0).T @ self.a - self.y
        self.loss = 0.5 * float(np.mean(self.residual**2))
        alive = np.flatnonzero(self.on.any(axis=1))
        sizes = np.abs(self.a) * np.sqrt(np.mean(np.maximum(self.z, 0) ** 2, axis=1))
        order = alive[np.argsort(sizes[alive], kind="stable")]
        small = np.cumsum(sizes[order]) <= 0.01 * np.sqrt(2 * self.loss)
        self.dead, self.dormant = len(self.a) - len(alive), sorted(order[small].tolist())
        self.awake = [j for j in alive.tolist() if j not in self.dormant]
        self.acting = len({(tuple(self.on[j]), self.a[j] > 0) for j in self.awake})

    def floor(self, which: list[int], turning: bool) -> tuple[float, bool]:
        parts = [self.on[j][:, None] * (self.x if turning else self.x @ self.w[j][:, None]) for j in which]
        matrix = np.hstack(parts) if parts else np.zeros((len(self.y), 1))
        sizes = np.linalg.norm(matrix, axis=0)
        matrix = matrix[:, sizes > 0] / sizes[sizes > 0]
        if not matrix.size:
            return 0.5 * float(np.mean(self.y**2)), False
        best = np.linalg.lstsq(matrix, self.y, rcond=1e-10)[0]
        rank = int(np.linalg.matrix_rank(matrix, tol=1e-10))
        level = 0.5 * float(np.mean((matrix @ best - self.y) ** 2))
        return (0.0, True) if rank == len(self.y) else (level, False)

    def sharpness(self) -> float:
        gates, z = self.on.astype(float), np.maximum(self.z, 0)
        kernel = z.T @ z + (gates.T @ (self.a[:, None] ** 2 * gates)) * (self.x @ self.x.T)
        return float(np.linalg.eigvalsh(kernel / len(self.y))[-1])

    def later(self, steps: int, step: float) -> Floats:
        """Losses of plain descent from here."""
        w, a, losses = self.w.copy(), self.a.copy(), []
        for _ in range(steps + 1):
            z = w @ self.x.T
            r = np.maximum(z, 0).T @ a - self.y
            losses.append(0.5 * np.mean(r**2))
            pull = ((z > 0) * r / len(r)) @ self.x
            w, a = w - step * a[:, None] * pull, a - step * (np.maximum(z, 0) @ r) / len(r)
        return np.array(losses)


def percent(share: float) -> str:
    number = 100.0 * share
    return "0" if number == 0 else f"{number:.0f}" if number >= 9.5 else f"{number:.2g}"


def known_numbers(raw: Raw, step: float) -> set[str]:
    """Return every number that a diagnosis may print and that raw parameters give, as it would be printed."""
    baseline = 0.5 * float(np.mean(raw.y**2))
    everyone = list(range(len(raw.a)))
    feature, own, every = (
        raw.floor(raw.awake, False)[0],
        raw.floor(raw.awake, True)[0],
        raw.floor(everyone, True)[0],
    )
    solved = min(raw.loss, feature)
    turned = min(solved, own)
    least = min(turned, every)
    shares = [raw.loss - solved, solved - turned, turned - least, least]
    steep = raw.sharpness()
    counts = [len(raw.awake), len(raw.a), raw.acting, raw.dead, len(raw.dormant)]
    found = {f"{value:.4g}" for value in (raw.loss, baseline, feature, own, every, 0.0)}
    found |= {percent(share / raw.loss) for share in shares} | {percent(raw.loss / baseline)}
    found |= {str(count) for count in counts} | {f"{step * steep:.3g}", "2"}
    found |= {f"{1.0 / (step * steep):.0f}"} if steep > 0 else set()
    if every > 0:
        found.add(percent(raw.loss / every - 1))
    return found


def claims(raw: Raw) -> dict[str, bool]:
    """Return what a diagnosis says in so many words, and whether the parameters say so."""
    everyone, alive = list(range(len(raw.a))), len(raw.a) - raw.dead
    (every, can), (own, own_can) = raw.floor(everyone, True), raw.floor(raw.awake, True)
    said = {
        rf"^Loss {re.escape(f'{raw.loss:.4g}')} ": True,
        rf"\b{len(raw.awake)} of {len(raw.a)} neurons? (is|are) awake": True,
        rf"act(s)? as {raw.acting} on": raw.acting < len(raw.awake),
        rf"\b{raw.dead} (is|are) dead": alive < len(raw.a),
        rf"\b{len(raw.dormant)} (is|are) dormant": bool(raw.dormant),
        r"No floor: the pattern can interpolate|there is no floor": can,
        rf"λ_max = {re.escape(f'{raw.sharpness():.4g}')}": True,
    }
    if not can:
        said[rf"below {re.escape(f'{every:.4g}')}(?!\d)"] = True
    if not own_can and not can and raw.dormant and own > 1.002 * every:
        said[rf"awake neurons (alone )?cannot get below {re.escape(f'{own:.4g}')}"] = True
    return said


ESTIMATES = ("Forecast", "Exit clock", "If no outer weight")


def wrong_sentences(seed: int) -> list[str]:
    run = random_run(seed)
    data, step = run.setting.data, run.setting.step
    assert isinstance(data, sf.Dataset)
    assert step is not None
    told = sf.story(run)
    assert told.end is not None
    wrong = []
    # Chapters: times and losses of the record, neurons by brute force.
    assert told.chapters[0].start == run.times[0]
    assert told.chapters[-1].end == run.times[-1]
    assert all(one.end == other.start for one, other in pairwise(told.chapters))
    for chapter in told.chapters:
        lowest = [float(np.min(run.losses[run.times <= t])) for t in (chapter.start, chapter.end)]
        raw = Raw(run(chapter.end), data)
        allowed = {f"{chapter.start:.4g}", f"{chapter.end:.4g}", *(f"{one:.4g}" for one in lowest)}
        allowed |= {str(len(raw.awake)), str(raw.acting)}
        assert chapter.start in run.times
        assert chapter.end in run.times
        if set(NUMBER.findall(chapter.sentence)) - allowed:
            wrong.append(f"{seed}: {chapter.sentence} allowed {sorted(allowed)}")
        if f"{len(raw.awake)} neuron" not in chapter.sentence:
            wrong.append(f"{seed}: awake {len(raw.awake)}: {chapter.sentence}")
    # The diagnosis of the end: every number but those of estimates is one that the parameters give.
    raw = Raw(run.final, data)
    assert isinstance(run.final, sf.ReLUNetwork)
    text = sf.diagnose(run.final, data, effort=200).text()
    for pattern, expected in claims(raw).items():
        if bool(re.search(pattern, text, re.MULTILINE)) != expected:
            wrong.append(f"{seed}: {pattern!r}: expected {expected}")
    known = known_numbers(raw, step)
    for line in told.end.text().splitlines():
        if not line.startswith(ESTIMATES) and set(NUMBER.findall(line)) - known:
            wrong.append(f"{seed}: {line} allowed {sorted(known)}")
        forecast = re.match(r"Forecast .*: 1 % less after ([\d,]+) steps", line)
        if forecast and (steps := int(forecast[1].replace(",", ""))) <= 3000:
            # An estimate: then the loss is 0.99 of what it was, to 2 % (a first step may take more).
            share = raw.later(steps, step)[-1] / raw.loss
            off = float(np.log(share / 0.99))
            if off > 0.02 or (off < -0.02 and steps > 20):
                wrong.append(f"{seed}: {line}, but {share}")
    everyone = raw.floor(list(range(len(raw.a))), True)
    if ("can interpolate" in told.end.text()) != everyone[1]:
        wrong.append(f"{seed}: interpolates {everyone[1]}: {told.end.text()}")
    return wrong


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_no_sentence_claims_what_raw_parameters_contradict(start: int) -> None:
    wrong = [text for seed in range(start, start + 25) for text in wrong_sentences(seed)]
    assert wrong == []
