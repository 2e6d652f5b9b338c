"""`shallowflow certify`: the numbers are those of the library, the words say what holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from shallowflow.arrays import Floats
from shallowflow.certificates import VERDICTS
from shallowflow.certificates import early_alignment as early_alignment_verdict
from shallowflow.cli import main
from shallowflow.data import Dataset
from shallowflow.data.generators import curve, three_points
from shallowflow.landscape import alignment_threshold, extremal_vectors, pattern_level
from shallowflow.models import LogisticLoss, initialize


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["certify", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def told(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    return {verdict["paper"]: verdict for verdict in answer["verdicts"]} | {"data": answer["data"]}


@pytest.fixture
def spurious(tmp_path: Path) -> str:
    """Points of Assumption 3, on which Theorem 2 applies."""
    path = tmp_path / "points.csv"
    path.write_text("x,y\n-0.95,1\n0,0.05\n0.95,1\n")
    return str(path)


def test_the_three_points_have_one_extremal_vector_and_known_constants() -> None:
    verdict = told("three_points")["early_alignment"]
    (table,) = verdict["tables"]
    (row,) = table["rows"]
    (vector,) = extremal_vectors(three_points())
    assert row["kind"] == "maximum"
    assert row["G"] == pytest.approx(vector.value)
    assert row["direction"] == "({:.4f}, {:.4f})".format(*vector.direction)
    found = alignment_threshold(three_points())
    numbers = verdict["numbers"]
    assert (numbers["λ*"], numbers["D_max"], numbers["δ₀"]) == (found.scale, found.d_max, found.delta_0)
    assert numbers["τ"] == pytest.approx(found.time(numbers["λ"]))
    assert verdict["applies"] is False
    words = " ".join(verdict["words"])
    assert "Assumption 5" in words
    assert "off by 0.9658" in words
    holds = {one["theorem"].split("/")[1]: one["holds"] for one in verdict["certificates"]}
    assert holds == {
        "lemma-1": True,
        "theorem-1": False,
        "theorem-3": True,
        "theorem-2": False,
        "theorem-4": False,
    }


@pytest.mark.parametrize("scale", ["1e-6", "1e-3", "1"])
def test_where_theorem_2_applies_the_end_is_named_but_not_promised_at_a_scale(
    spurious: str, scale: str
) -> None:
    verdict = told(spurious, "--init-scale", scale)["early_alignment"]
    assert verdict["applies"] is None
    words = " ".join(verdict["words"])
    assert "training ends in the least-squares line (Theorem 2): loss 0.1002777778" in words
    assert "spurious" in words
    assert "it is undecided" in words
    assert "will end" not in words
    assert "was asked for" in words


def test_the_critical_scale_is_measured_on_demand(spurious: str) -> None:
    options = ("--paper", "early_alignment", "--width", "20", "--critical-scale")
    verdict = told(spurious, *options)["early_alignment"]
    measured = verdict["numbers"]["λ_c (measured)"]
    assert 1e-6 < measured < 0.1
    assert "it ends in the line below" in verdict["words"][-1]
    leaky = told(spurious, *options, "--slope", "0.1")["early_alignment"]
    assert "square loss and ReLU only" in leaky["words"][-1]


def test_leaky_slopes_and_the_logistic_loss_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("1,0,1\n0.6,0.8,-1\n-0.8,0.6,1\n")
    answers = told(str(path), "--loss", "logistic", "--slope", "0.1", "--init", "dominated")
    verdict, dataset = answers["early_alignment"], Dataset.from_csv(str(path))
    found = alignment_threshold(dataset, LogisticLoss(), 0.1)
    assert verdict["numbers"]["λ*"] == pytest.approx(found.scale)
    assert verdict["numbers"]["D_max"] == pytest.approx(found.d_max)
    assert verdict["applies"] is None
    assert "square loss and ReLU" in verdict["words"][-1]
    assert "square loss and ReLU" in answers["weak_interaction"]["words"][0]
    assert "square loss and ReLU" in told("curve", "--slope", "0.1")["plateau"]["words"][0]
    assert run("three_points", "--loss", "logistic").exit_code == 2
    assert run("three_points", "--slope", "1.5").exit_code == 2


def test_the_plateau_verdict_heeds_the_initialisation() -> None:
    own = told("curve", "--paper", "plateau", "--width", "10")["plateau"]
    assert "he_knots" in own["words"][0]
    assert own["words"][0].endswith(f"is {own['numbers']['plateau level']:.4g}.")
    assert "hardly get there" in own["words"][1]
    assert 0 < own["numbers"]["first passage"] < 0.01
    assert own["numbers"]["shortest e-fold"] < own["numbers"]["longest e-fold"]
    large = told("curve", "--paper", "plateau", "--width", "10", "--init", "gaussian", "--init-scale", "5")
    small = told("curve", "--paper", "plateau", "--width", "10", "--init", "gaussian", "--init-scale", "1")
    assert "gaussian, λ = 5" in large["plateau"]["words"][0]
    losses = [one["plateau"]["numbers"]["loss at the start (½·mean)"] for one in (small, large)]
    assert losses[0] != losses[1]
    network = initialize.gaussian(10, 2, init_scale=5.0, seed=0)
    data = curve().with_bias()
    assert large["plateau"]["numbers"]["plateau level"] == pytest.approx(pattern_level(network, data))


def test_scale_and_width_of_the_start_decide_about_theorem_1(spurious: str) -> None:
    def holds(*options: str) -> bool:
        certificates = told(spurious, "--paper", "early_alignment", *options)["early_alignment"][
            "certificates"
        ]
        return bool(certificates[1]["holds"])

    assert holds("--init-scale", "1e-6", "--init", "dominated")
    assert not holds("--init-scale", "0.5")
    assert not holds("--init-scale", "1e-6", "--init", "gaussian")
    assert told(spurious, "--no-bias")["data"]["dimension"] == 1


def test_a_saddle_of_g_is_named_and_excludes_theorem_1(tmp_path: Path) -> None:
    path = tmp_path / "saddle.csv"
    path.write_text("0,-2,1,-1\n-1,2,2,-1\n-1,0,2,-1\n-1,2,0,-1\n")
    verdict = told(str(path), "--no-bias", "--init", "dominated", "--init-scale", "1e-9")["early_alignment"]
    assert "saddle" in [row["kind"] for row in verdict["tables"][0]["rows"]]
    assert "G has no saddle point on the sphere fails (found 1, needed 0" in " ".join(verdict["words"])


def test_many_cones_are_searched_and_the_answer_says_so() -> None:
    verdict = told("sphere:size=60,dimension=8")["early_alignment"]
    assert "maybe not all" in verdict["words"][0]
    assert "maybe not all" in verdict["tables"][0]["title"]
    assert verdict["tables"][0]["rows"]
    assert verdict["numbers"]["λ*"] is None
    assert "Assumption 4 fails" in " ".join(verdict["words"])
    assert [one["theorem"] for one in verdict["certificates"]][-1] == "early_alignment/theorem-3"


def test_papers_that_do_not_apply_say_so_in_one_line() -> None:
    verdict = told("sphere:size=5,dimension=3")["plateau"]
    assert verdict["applies"] is None
    assert verdict["words"] == ["Does not apply: it is about data on the line, these have dimension 3."]
    on_line = told("curve:sin_pi,size=20", "--width", "5")["plateau"]
    assert on_line["numbers"]["plateau level"] <= on_line["numbers"]["loss at the start (½·mean)"]


def test_weakly_interacting_data_are_named_with_their_margin() -> None:
    verdict = told("orthonormal:5,labels=bounded", "--width", "40")["weak_interaction"]
    assert verdict["applies"] is True
    assert verdict["words"][0].startswith("Theorem 1 applies, margin")
    assert told("three_points")["weak_interaction"]["applies"] is False
    hopeless = told("curve:sin_pi,size=20")["weak_interaction"]  # labels of 1e-16
    assert hopeless["applies"] is False
    assert "known to do in dimension about 10^" in hopeless["words"][0]


def table(path: Path, inputs: Floats, targets: Floats) -> str:
    np.savetxt(path, np.column_stack([inputs, targets]), delimiter=",")
    return str(path)


def test_random_white_data_in_high_dimension_are_answered_by_every_paper(tmp_path: Path) -> None:
    """Eight points in 3,000 dimensions have 6,560 cones in their span: all of them are looked at."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((8, 3000)) / np.sqrt(3000)
    labels = rng.choice([-1.0, 1.0], 8) * rng.uniform(0.5, 1.0, 8)
    answers = told(table(tmp_path / "white.csv", inputs, labels))
    assert answers["data"]["dimension"] == 3000
    weak, early = answers["weak_interaction"], answers["early_alignment"]
    gram = inputs @ inputs.T
    bound = np.min(np.diag(gram)) * np.min(np.abs(labels)) / np.max(np.abs(labels)) / np.sqrt(8)
    margin = bound - np.max(np.abs(np.linalg.eigvalsh(gram - np.diag(np.diag(gram)))))
    assert weak["applies"] is True
    assert weak["words"][0].startswith(f"Theorem 1 applies, margin {margin:.4g}")
    assert "maybe not all" not in early["words"][0]
    assert early["numbers"]["λ*"] > 0


def test_correlated_data_are_told_what_fails_and_by_how_much(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = (rng.standard_normal((30, 200)) + 1.0) / np.sqrt(200)
    answers = told(table(tmp_path / "correlated.csv", inputs, rng.choice([-1.0, 1.0], 30)))
    gram = inputs @ inputs.T
    strength = np.max(np.abs(np.linalg.eigvalsh(gram - np.diag(np.diag(gram)))))
    bound = np.min(np.diag(gram)) / np.sqrt(30)
    expected = f"interact with strength {strength:.4g}, {strength / bound:.3g} times the {bound:.4g} allowed"
    assert answers["weak_interaction"]["applies"] is False
    assert expected in answers["weak_interaction"]["words"][0]
    assert "a search from" in answers["early_alignment"]["words"][0]


def test_too_large_data_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_alignment_verdict, "SEARCH_WORK", 60**2 * 8 - 1)
    verdict = told("sphere:size=60,dimension=8", "--paper", "early_alignment")["early_alignment"]
    assert "no extremal vector is known" in verdict["words"][0]
    assert verdict["tables"][0]["rows"] == []


def test_a_bias_is_appended_to_one_column_only(spurious: str, tmp_path: Path) -> None:
    plane = table(tmp_path / "plane.csv", np.eye(2), np.ones(2))
    dimensions = [
        told(path, *options, "--paper", "plateau")["data"]["dimension"]
        for path, options in ((spurious, []), (plane, []), (plane, ["--bias"]))
    ]
    assert dimensions == [2, 2, 3]


def test_people_read_sentences_and_details_on_demand() -> None:
    short = run("three_points").stdout
    for expected in (
        "3 points in dimension 2",
        "early_alignment\n",
        "Extremal vectors",
        "λ* = ",
        "plateau\n",
    ):
        assert expected in short
    assert "theorem-4: does not apply." in short
    assert "[fails]" not in short
    assert "[fails] Assumption 5" in run("three_points", "--details").stdout
    assert max(map(len, short.splitlines())) <= 100


def test_every_verdict_is_a_paper_and_repeats_itself() -> None:
    for paper in VERDICTS:
        first, again = told("stewart:12", "--paper", paper), told("stewart:12", "--paper", paper)
        assert first == again
        assert set(first) == {paper, "data"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nope"], ["DATA", "'nope'"]),
        (["missing.csv"], ["missing.csv", "No such file"]),
        (["three_points", "--paper", "nope"], ["--paper", "early_alignment", "'nope'"]),
        (["three_points", "--width", "0"], ["width", "0"]),
        (["three_points", "--init-scale", "-1"], ["init_scale", "-1"]),
        (["three_points", "--init", "he_knots"], ["init", "balanced", "'he_knots'"]),
        (["three_points", "--seed", "-3"], ["seed", "-3"]),
        ([], ["DATA"]),
    ],
)
def test_bad_requests_are_refused(options: list[str], words: list[str]) -> None:
    result = run(*options)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(word in line for word in words), line


def test_the_fit_of_a_line_is_not_called_spurious(tmp_path: Path) -> None:
    x = np.array([-0.3, 0.1, 0.4])
    path = tmp_path / "line.csv"
    path.write_text("\n".join(f"{a},{1 + 0.5 * a}" for a in x))
    words = " ".join(told(str(path))["early_alignment"]["words"])
    assert "spurious" not in words
