from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shallowflow.commands.reproduce import recall, reproduce_here, reproduce_together, study_of, unfinished
from shallowflow.experiments import EXPERIMENTS, Claim, Experiment, Findings, Progress
from shallowflow.studies import Serial, Store


def run_fine(parameters: Mapping[str, Any], progress: Progress, word: str = "fine") -> Findings:
    progress(0.5, word)
    return Findings((), (Claim(word, "1", f"{parameters['size']}", True),))


def run_wrong(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    raise RuntimeError("no")


def sample(name: str, run: Any, size: int = 1) -> Experiment:
    return Experiment(name, "Title", "Figure", {"quick": {"size": size}, "paper": {"size": 10}}, run)


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    made = [
        sample("plateau/fine", run_fine),
        sample("plateau/wrong", run_wrong),
        sample("plateau/partial", functools.partial(run_fine, word="partly")),
    ]
    for experiment in made:
        monkeypatch.setitem(EXPERIMENTS, experiment.name, experiment)
    return made


def test_findings_and_errors_are_recalled_from_the_store(
    experiments: list[Experiment], tmp_path: Path
) -> None:
    fine, wrong, partial = experiments
    with Store(tmp_path) as store:
        assert recall(fine, "quick", store) is None
        assert unfinished(experiments, "quick", store) == experiments
        reproduce_together([fine, wrong], "quick", store, Serial())
        shown: list[tuple[float, str]] = []
        reproduce_here(partial, "quick", store, progress=lambda *told: shown.append(told))
        assert shown == [(0.5, "partly")]
        assert unfinished(experiments, "quick", store) == [wrong]
        assert unfinished(experiments, "paper", store) == experiments
    with Store(tmp_path, writable=False) as store:
        found = [recall(experiment, "quick", store) for experiment in experiments]
    assert [one is not None and one.error.split("\n")[0] for one in found] == ["", "RuntimeError: no", ""]
    assert found[0] is not None
    assert found[0].claims == fine.reproduce("quick").claims
    assert found[0].holds
    assert found[1] is not None
    assert not found[1].holds


def test_what_makes_an_experiment_another_makes_it_run_again() -> None:
    identity = study_of(sample("plateau/one", run_fine), "quick").runs[0].identity
    assert study_of(sample("plateau/one", run_fine), "quick").runs[0].identity == identity
    for other, scale in (
        (sample("plateau/two", run_fine), "quick"),
        (sample("plateau/one", run_fine, size=2), "quick"),
        (sample("plateau/one", run_fine), "paper"),
        (sample("plateau/one", EXPERIMENTS["plateau/fig1"].run), "quick"),
    ):
        assert study_of(other, scale).runs[0].identity != identity


def test_parameters_by_number_are_told_apart() -> None:
    def identity(steps: dict[float, int]) -> str:
        parameters: dict[str, dict[str, Any]] = {"quick": {"steps": steps}, "paper": {}}
        return study_of(Experiment("plateau/x", "", "", parameters, run_fine), "quick").runs[0].identity

    assert (
        len({identity({1.0: 300, 0.01: 5}), identity({1.0: 300, 0.02: 5}), identity({1.0: 5, 0.01: 300})})
        == 3
    )


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_kept(name: str, scale: str) -> None:
    (run,) = study_of(EXPERIMENTS[name], scale).runs
    assert run.subject.__module__.startswith("shallowflow.experiments.")
