"""Every public thing keeps its promises: the explicit lists are walked, nothing is named twice by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import CERTIFICATES, Certificate, certify
from shallowflow.data.generators import GENERATORS
from shallowflow.dynamics.choice import names_of
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.experiments import DEMO, EXPERIMENTS, PAPERS
from shallowflow.experiments.experiment import SCALES, Experiment
from shallowflow.models.loss import Loss
from shallowflow.models.networks import NETWORKS, Network

LINE = np.linspace(-1.0, 1.0, 9)
LABELS = np.where(np.sin(4.0 * LINE) > 0, 1.0, -1.0)

PROBLEMS: dict[type[Network], tuple[Network, sf.Dataset]] = {
    sf.ReLUNetwork: (
        sf.initialize.gaussian(6, 2, init_scale=1.0, slope=0.1, seed=3),
        sf.Dataset(LINE[:, None], LABELS).with_bias(),
    ),
    sf.KnotNetwork: (sf.initialize.he_knots(6, seed=3), sf.Dataset(LINE[:, None], LABELS)),
    sf.StepNetwork: (
        sf.initialize.uniform_positions(6, sharpness=0.2, outer=np.linspace(-1.0, 1.0, 6), seed=3),
        sf.Dataset(0.5 + 0.5 * LINE[:, None], LABELS),
    ),
    sf.LogScaledNetwork: (
        sf.initialize.log_scaled(6, 9, log_scale=-1.5, seed=3),
        sf.Dataset(GENERATORS["orthonormal"](9, seed=3).inputs, LABELS),
    ),
    sf.AdditiveStepNetwork: (
        sf.initialize.uniform_cuboids(3, 2, sharpness=0.2, outer_range=(-1.0, 1.0), seed=3),
        sf.Dataset(np.column_stack([0.5 + 0.5 * LINE, LINE**2]), LABELS),
    ),
}
TRAINED: dict[str, type[Network]] = {
    "plateau": sf.KnotNetwork,
    "early_alignment": sf.ReLUNetwork,
    "incremental": sf.LogScaledNetwork,
    "two_timescale": sf.StepNetwork,
    "weak_interaction": sf.ReLUNetwork,
}
"""The network that a paper's certificates speak about; those of steps take a target instead of data."""
STEPS = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])
LOSSES: dict[str, Loss] = {
    "mean": sf.SquareLoss(),
    "sum": sf.SquareLoss(reduction="sum"),
    "logistic": sf.LogisticLoss(),
    "norm": sf.NormLoss(),
}
FLOWING = tuple(network for network in NETWORKS if network is not sf.LogScaledNetwork)
"""Those with a flow for every loss: that of a LogScaledNetwork is for the square loss."""

GENERATOR_ARGUMENTS: dict[str, dict[str, Any]] = {
    "three_points": {},
    "stewart": {"size": 7},
    "orthonormal": {"size": 4, "dimension": 6},
    "correlated": {"size": 4, "dimension": 6},
    "orthogonal": {"size": 4, "dimension": 6},
    "sphere": {"size": 5, "dimension": 3},
    "curve": {"name": "jump", "size": 11, "noise": 0.1},
}
ORTHONORMAL = GENERATORS["orthonormal"](4, labels="positive")
INITIALISATION_ARGUMENTS: dict[str, dict[str, Any]] = {
    "balanced": {"width": 5, "dimension": 3},
    "log_scaled": {"width": 5, "dimension": 3, "log_scale": -2302.0},
    "he_uniform": {"width": 5, "dimension": 3},
    "dominated": {"width": 5, "dimension": 3},
    "gaussian": {"width": 5, "dimension": 3},
    "asymmetric": {"width": 5, "dimension": 3},
    "grouped": {"inputs": ORTHONORMAL.inputs, "targets": ORTHONORMAL.targets, "width": 2},
    "he_knots": {"width": 5},
    "uniform_positions": {"width": 5, "sharpness": 0.1},
    "uniform_cuboids": {"width": 5, "dimension": 2, "sharpness": 0.1},
    "uniform_knots": {"width": 5},
}
INITIALISATIONS: dict[str, Callable[..., Network]] = {
    name: function
    for name, function in inspect.getmembers(sf.initialize, inspect.isfunction)
    if function.__module__ == sf.initialize.__name__ and not name.startswith("_")
}


def check_trajectory(trajectory: sf.Trajectory, network: Network, dataset: sf.Dataset, loss: Loss) -> None:
    """Check what every engine promises of its result, whatever the problem."""
    times, losses = trajectory.times, trajectory.losses
    assert times.shape == losses.shape
    assert times[0] == 0
    assert np.all(np.diff(times) > 0)
    assert np.isfinite(losses).all()
    assert not times.flags.writeable
    assert not losses.flags.writeable
    assert trajectory.outcome.ok, str(trajectory.outcome)
    assert str(trajectory.outcome)
    assert isinstance(trajectory.events, tuple)
    assert isinstance(trajectory.statistics["engine"], str)
    for time in (0.0, 0.5 * float(times[-1]), float(times[-1])):
        then = trajectory(time)
        assert type(then) is type(network)
        assert {k: v.shape for k, v in then.parameters.items()} == {
            k: v.shape for k, v in network.parameters.items()
        }
        assert np.isfinite(flatten(then)).all()
    np.testing.assert_array_equal(flatten(trajectory.initial), flatten(network))
    for time, value in ((0.0, losses[0]), (float(times[-1]), losses[-1])):
        predictions = trajectory(time)(dataset.inputs)
        assert loss.value(predictions, dataset.targets) == pytest.approx(value, rel=1e-12)


def check_round_trip(trajectory: sf.Trajectory, path: Path) -> None:
    """Check that a saved trajectory comes back equal in every part."""
    trajectory.save(path)
    loaded = sf.Trajectory.load(path)
    np.testing.assert_array_equal(loaded.times, trajectory.times)
    np.testing.assert_array_equal(loaded.losses, trajectory.losses)
    assert loaded.events == trajectory.events
    assert loaded.outcome == trajectory.outcome
    assert dict(loaded.statistics) == dict(trajectory.statistics)
    middle = 0.5 * float(trajectory.times[-1])
    for time in (0.0, middle, float(trajectory.times[-1])):
        assert loaded(time) == trajectory(time)
    assert loaded(middle) != loaded(0.0)


def test_every_network_and_every_loss_is_walked() -> None:
    assert set(PROBLEMS) == set(NETWORKS)
    assert {name for name in sf.__all__ if name.endswith("Network")} == {n.__name__ for n in NETWORKS}
    losses = {name for name in sf.__all__ if name.endswith("Loss")}
    assert losses == {type(loss).__name__ for loss in LOSSES.values()}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", NETWORKS, ids=lambda kind: kind.__name__)
def test_descent_of_every_network_with_every_loss(kind: type[Network], loss: str, tmp_path: Path) -> None:
    network, dataset = PROBLEMS[kind]
    trajectory = sf.gradient_descent(network, dataset, step=1e-2, steps=40, loss=LOSSES[loss])
    check_trajectory(trajectory, network, dataset, LOSSES[loss])
    assert trajectory.times[-1] == pytest.approx(0.4)
    assert trajectory.losses[-1] < trajectory.losses[0]
    check_round_trip(trajectory, tmp_path / "descent.sf")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", FLOWING, ids=lambda kind: kind.__name__)
def test_flow_of_every_network_with_every_loss(kind: type[Network], loss: str, tmp_path: Path) -> None:
    network, dataset = PROBLEMS[kind]
    trajectory = sf.gradient_flow(network, dataset, until=0.4, loss=LOSSES[loss])
    check_trajectory(trajectory, network, dataset, LOSSES[loss])
    assert np.all(np.diff(trajectory.losses) <= 1e-12)
    assert trajectory.times[-1] == pytest.approx(0.4)
    check_round_trip(trajectory, tmp_path / "flow.sf")


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_flow_of_a_log_scaled_network(reduction: str, tmp_path: Path) -> None:
    network, dataset = PROBLEMS[sf.LogScaledNetwork]
    loss = sf.SquareLoss(reduction=reduction)
    trajectory = sf.gradient_flow(network, dataset, until=0.4, loss=loss)
    check_trajectory(trajectory, network, dataset, loss)
    assert np.all(np.diff(trajectory.losses) <= 1e-12)
    check_round_trip(trajectory, tmp_path / "flow.sf")


def named(engine: str, trajectory: sf.Trajectory) -> bool:
    """Whether the engine that ran is the one that was asked for."""
    return engine == "auto" or trajectory.statistics["engine"] == engine


@pytest.mark.parametrize("engine", names_of("gradient_descent"))
def test_every_exact_engine_of_descent_makes_the_same_steps(engine: str) -> None:
    """On a problem where the engine applies, with the square loss."""
    trained: dict[str, Any] = {"scaled": sf.LogScaledNetwork, "windows": sf.AdditiveStepNetwork}
    trained |= dict.fromkeys(("auto", "dense", "blocks"), sf.KnotNetwork)
    network, dataset = PROBLEMS[trained.get(engine, sf.ReLUNetwork)]
    if engine == "decoupled":
        network, dataset = sf.initialize.asymmetric(5, 6, slope=0.1), GENERATORS["orthogonal"](4, 6)
    reference = sf.gradient_descent(network, dataset, step=1e-2, steps=200, engine="dense")
    trajectory = sf.gradient_descent(network, dataset, step=1e-2, steps=200, engine=engine)
    assert named(engine, trajectory)
    np.testing.assert_allclose(trajectory.losses, reference.losses, rtol=1e-11)
    np.testing.assert_allclose(flatten(trajectory.final), flatten(reference.final), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("engine", names_of("adam"))
def test_every_engine_of_adam_makes_the_same_steps(engine: str) -> None:
    network, dataset = PROBLEMS[sf.KnotNetwork]
    reference = sf.adam(network, dataset, steps=100, engine="dense")
    trajectory = sf.adam(network, dataset, steps=100, engine=engine)
    assert named(engine, trajectory)
    check_trajectory(trajectory, network, dataset, sf.SquareLoss())
    np.testing.assert_allclose(flatten(trajectory.final), flatten(reference.final), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("engine", ["auto", "dense", "stages", "cones"])
def test_every_engine_of_the_flow_follows_the_same_path(engine: str) -> None:
    network, dataset = PROBLEMS[sf.ReLUNetwork if engine == "cones" else sf.KnotNetwork]
    plain = "walls" if engine == "cones" else "dense"
    record = sf.Record.at([0.5, 1.0, 2.0])
    reference = sf.gradient_flow(network, dataset, until=2.0, engine=plain, tolerance=1e-10, record=record)
    trajectory = sf.gradient_flow(network, dataset, until=2.0, engine=engine, record=record)
    assert named(engine, trajectory)
    assert reference.events
    np.testing.assert_allclose(trajectory.losses, reference.losses, rtol=1e-6)
    np.testing.assert_allclose(flatten(trajectory.final), flatten(reference.final), atol=1e-5)
    assert [event.kind for event in trajectory.events] == [event.kind for event in reference.events]


@pytest.mark.parametrize("engine", [e for e in names_of("stochastic_descent") if e != "dense"])
def test_every_compiled_engine_of_stochastic_descent_makes_the_same_steps(engine: str) -> None:
    network, _ = PROBLEMS[sf.StepNetwork]
    reference = sf.stochastic_descent(network, STEPS, step=1e-3, steps=3000, noise=0.5, engine="plain")
    trajectory = sf.stochastic_descent(network, STEPS, step=1e-3, steps=3000, noise=0.5, engine=engine)
    assert named(engine, trajectory)
    np.testing.assert_allclose(flatten(trajectory.final), flatten(reference.final), atol=1e-12)
    np.testing.assert_allclose(trajectory.losses, reference.losses, rtol=1e-10)


@pytest.mark.parametrize("theorem", CERTIFICATES)
def test_every_certificate_speaks_about_a_network_and_its_data(theorem: str) -> None:
    trained = TRAINED[theorem.split("/")[0]]
    network, dataset = PROBLEMS[trained]
    certificate = certify(theorem, network, STEPS if trained is sf.StepNetwork else dataset)
    assert isinstance(certificate, Certificate)
    assert certificate.theorem == theorem
    assert theorem.split("/")[0] in PAPERS
    assert certificate.hypotheses
    assert certificate.promises
    assert all(hypothesis.name for hypothesis in certificate.hypotheses)
    assert certificate.holds == all(hypothesis.holds is True for hypothesis in certificate.hypotheses)
    assert str(certificate).startswith(theorem)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_gives_the_same_sound_data_again(name: str) -> None:
    arguments = GENERATOR_ARGUMENTS[name]
    first, again = GENERATORS[name](**arguments), GENERATORS[name](**arguments)
    assert isinstance(first, sf.Dataset)
    assert first.inputs.shape == (first.size, first.dimension)
    assert first.targets.shape == (first.size,)
    assert first.name
    assert not first.inputs.flags.writeable
    np.testing.assert_array_equal(first.inputs, again.inputs)
    np.testing.assert_array_equal(first.targets, again.targets)
    if "seed" in inspect.signature(GENERATORS[name]).parameters:
        other = GENERATORS[name](**arguments, seed=1)
        assert not np.array_equal(first.targets, other.targets)


@pytest.mark.parametrize("name", INITIALISATIONS)
def test_every_initialisation_is_decided_by_its_seed(name: str) -> None:
    initialise, arguments = INITIALISATIONS[name], INITIALISATION_ARGUMENTS[name]
    network = initialise(**arguments, seed=0)
    assert isinstance(network, NETWORKS)
    assert network.width == arguments["width"]
    assert np.isfinite(flatten(network)).all()
    assert not any(values.flags.writeable for values in network.parameters.values())
    assert initialise(**arguments, seed=0) == network
    assert initialise(**arguments, seed=np.random.default_rng(0)) == network
    assert initialise(**arguments, seed=np.random.SeedSequence(0)) == network
    assert initialise(**arguments, seed=1) != network
    assert initialise(**arguments, seed=None) != initialise(**arguments, seed=None)


def test_every_seed_is_one_of_the_same_kinds() -> None:
    public = [getattr(package, name) for package in (sf, sf.landscape) for name in package.__all__]
    functions = [*public, *INITIALISATIONS.values(), *GENERATORS.values(), *CERTIFICATES.values()]
    seeded = {
        function.__name__: inspect.signature(function).parameters["seed"].annotation
        for function in functions
        if inspect.isfunction(function) and "seed" in inspect.signature(function).parameters
    }
    assert {"stochastic_descent", "extremal_vectors", "balanced", "curve", "lemma_10"} <= set(seeded)
    assert {name: kind for name, kind in seeded.items() if kind != "Seed"} == {}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_every_experiment_is_fully_described(experiment: Experiment) -> None:
    paper, figure = experiment.name.split("/")
    assert paper in PAPERS
    assert paper == experiment.paper
    assert figure
    assert EXPERIMENTS[experiment.name] is experiment
    assert experiment.title
    assert experiment.source
    assert set(experiment.parameters) == set(SCALES)
    quick, full = (experiment.parameters[scale] for scale in ("quick", "paper"))
    assert set(quick) == set(full)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_table_names_what_a_paper_lists(paper: str) -> None:
    listed = import_module(f"shallowflow.experiments.{paper}").EXPERIMENTS
    assert [one.name for one in listed] == [name for name in EXPERIMENTS if name.startswith(f"{paper}/")]


def test_the_demonstration_shows_one_experiment_of_each_paper() -> None:
    papers = [EXPERIMENTS[name].paper for name in DEMO]
    assert len(set(papers)) == len(papers)
    assert set(papers) == {experiment.paper for experiment in EXPERIMENTS.values()}


def test_every_public_name_exists_and_is_documented() -> None:
    assert sorted(set(sf.__all__)) == sorted(sf.__all__)
    for name in sf.__all__:
        assert inspect.getdoc(getattr(sf, name)), f"{name} has no docstring"
