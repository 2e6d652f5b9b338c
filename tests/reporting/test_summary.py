import json

import numpy as np
import pytest

from shallowflow.data import GENERATORS, Dataset
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.protocol import Event, flatten
from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
from shallowflow.experiments.experiment import Claim
from shallowflow.experiments.figure import Panel, Series
from shallowflow.models import KnotNetwork
from shallowflow.reporting.summary import (
    LARGEST_SERIES,
    catalogue,
    claims_text,
    plain,
    run_summary,
    summary,
)
from tests.reporting.samples import claim, figure, reproduction


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(1.5), 1.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array([np.nan, 1.0]), [None, 1.0]),
        (float("-inf"), None),
        ({1: (True, None, "x")}, {"1": [True, None, "x"]}),
        ({1}, "{1}"),
    ],
)
def test_plain(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_summary_counts_claims_and_leaves_out_the_numbers_of_figures() -> None:
    told = summary([reproduction(claims=(claim(), claim(False))), reproduction(claims=())])
    assert told["claims"] == {"total": 2, "hold": 1, "fail": 1, "open": 0}
    assert told["ours"] == {"total": 0, "hold": 0, "fail": 0, "open": 0}
    assert [figure.keys() for figure in told["reproductions"][0]["figures"]] == [{"name", "title", "caption"}]
    assert {"python", "shallowflow", "numpy", "numba"} <= told["versions"].keys()


def test_counts_are_by_paper_and_ours_stand_apart() -> None:
    mixed = (claim(), claim(None), Claim("more", "", "", False, ours=True))
    told = summary([reproduction("plateau/a", claims=mixed), reproduction("incremental/b")])
    assert told["claims"] == {"total": 3, "hold": 2, "fail": 0, "open": 1}
    assert told["ours"] == {"total": 1, "hold": 0, "fail": 1, "open": 0}
    assert list(told["by_paper"]) == ["incremental", "plateau"]
    assert told["by_paper"]["plateau"] == {
        "claims": {"total": 2, "hold": 1, "fail": 0, "open": 1},
        "ours": {"total": 1, "hold": 0, "fail": 1, "open": 0},
    }
    found = claims_text([reproduction(claims=mixed)])
    assert found == "1 of 2 claims hold, 1 is open; of ours 0 of 1 claims hold, 1 fails"


def test_very_long_series_are_named_only() -> None:
    long = Series(np.zeros(LARGEST_SERIES + 1), np.zeros(LARGEST_SERIES + 1), "long")
    told = summary([reproduction(figures=(figure(Panel((long,))),))], series=True)
    assert told["reproductions"][0]["figures"][0]["panels"][0]["series"] == [
        {"label": "long", "points": LARGEST_SERIES + 1}
    ]


def test_catalogue_says_how_to_ask_for_data() -> None:
    listed = catalogue([reproduction("plateau/fig1").experiment], ["plateau/fig1"], GENERATORS)
    assert listed["experiments"] == [
        {
            "name": "plateau/fig1",
            "paper": "plateau",
            "title": "Title of plateau/fig1",
            "source": "Figure 1",
            "demo": True,
        }
    ]
    calls = {generator["name"]: generator["call"] for generator in listed["generators"]}
    assert calls["three_points"] == "three_points"
    assert calls["stewart"] == "stewart:size=40"
    assert calls["sphere"].startswith("sphere:size=SIZE,dimension=DIMENSION,labels=")
    assert calls["orthonormal"].startswith("orthonormal:size=SIZE,[dimension=DIMENSION],")
    assert not any("None" in call for call in calls.values())
    assert not any("as above" in generator["description"] for generator in listed["generators"])


def test_run_summary_tells_outcome_losses_and_counts() -> None:
    network = KnotNetwork([0.0, 1.0], [1.0, 1.0])
    path = Snapshots(network, np.array([0.0, 2.0]), np.array([flatten(network)] * 2))
    trajectory = Trajectory(
        np.array([0.0, 2.0]),
        np.array([3.0, np.inf]),
        path,
        (Event(1.0, "on", 0, 0),),
        Outcome("diverged", "It grew.", "a smaller step."),
        {"events": 7},
    )
    told = run_summary(trajectory, Dataset([[1.0]], [2.0], name="one"), 0.12345)
    assert told["data"] == {"name": "one", "size": 1, "dimension": 1}
    assert told["network"] == {"type": "KnotNetwork", "width": 2}
    assert told["outcome"] == {
        "status": "diverged",
        "ok": False,
        "message": "It grew.",
        "advice": "a smaller step.",
    }
    assert (told["initial_loss"], told["final_loss"], told["time"]) == (3.0, None, 2.0)
    assert told["events"] == 7
    assert told["seconds"] == 0.123
