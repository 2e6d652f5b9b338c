"""Every theorem at once: `Answers`, and how a theorem is asked about whatever is at hand.

A theorem that is about something else than what was given does not apply, because …: that is an answer too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from numpy.linalg import LinAlgError

from shallowflow.arrays import members, shown
from shallowflow.certificates.certificate import Certificate, failures
from shallowflow.data.dataset import Dataset
from shallowflow.data.targets import Additive, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork, StepNetwork
from shallowflow.models.relu import BaseNetwork

TARGETS = (PiecewiseConstant, PiecewiseAffine, Additive)
SUBJECTS: dict[str, tuple[type, ...]] = {
    "plateau": (KnotNetwork,),
    "early_alignment": (ReLUNetwork,),
    "weak_interaction": (ReLUNetwork,),
    "incremental": (ReLUNetwork, LogScaledNetwork),
    "two_timescale": (StepNetwork,),
}
"""The networks that each paper is about."""


class Answers(dict[str, Certificate]):
    """Certificates by the names of their theorems; printed, a line for each."""

    def __init__(self, certificates: Mapping[str, Certificate]) -> None:
        if not isinstance(certificates, Mapping):
            raise InvalidInputError(f"certificates: must be by name, a mapping, got {shown(certificates)}")
        members(certificates.values(), "certificates", "certificates by name", Certificate)
        super().__init__(certificates)

    def __str__(self) -> str:
        return "\n".join(map(_line, self.values()))

    @property
    def applying(self) -> list[Certificate]:
        """The certificates whose hypotheses all hold."""
        return [certificate for certificate in self.values() if certificate.holds]


def _line(certificate: Certificate) -> str:
    """Return a certificate in a line, with what fails or is undecided."""
    first = str(certificate).splitlines()[0]
    missing = failures(certificate)
    return f"{first.removesuffix('.')}: {missing}." if missing else first


class Given(NamedTuple):
    """What the theorems are asked about; None: not given."""

    network: Network | None = None
    data: Any = None
    trajectory: Trajectory | None = None


def sort_out(given: Iterable[object]) -> Given:
    """Return what was given by its kind; a run gives its network at the start and its data."""
    found: dict[str, Any] = {}
    for thing in given:
        kind = (
            "trajectory"
            if isinstance(thing, Trajectory)
            else "data"
            if isinstance(thing, (Dataset, *TARGETS))
            else "network"
        )
        if kind == "network" and not isinstance(thing, BaseNetwork):
            raise InvalidInputError(
                f"given: must be a network, a data set or target, and a trajectory, got {shown(thing)}"
            )
        if kind in found:
            raise InvalidInputError(f"given: must be one {kind} at most, got two")
        found[kind] = thing
    return _with_run(Given(**found))


def _with_run(given: Given) -> Given:
    """Return what a run adds: its network at the start and its data; others beside them are refused.

    A limit of tiny starts has no start of its own.
    """
    run = given.trajectory
    if run is None:
        return given
    own = None if isinstance(run, SaddleToSaddle) else run.initial
    if own is not None and given.network is not None and _shape(own) != _shape(given.network):
        raise InvalidInputError(
            f"given: the network must be that of the run, {shown(own)}, got {shown(given.network)}"
        )
    data = run.setting.data
    if data is not None and given.data is not None and _shape(data) != _shape(given.data):
        raise InvalidInputError(
            f"given: the data must be those of the run, {shown(data)}, got {shown(given.data)}"
        )
    return Given(
        own if given.network is None else given.network, data if given.data is None else given.data, run
    )


def _shape(thing: Any) -> object:
    """Return the kind and the size of a network or of data."""
    if isinstance(thing, BaseNetwork):
        return type(thing), {name: array.shape for name, array in thing.parameters.items()}
    return (Dataset, thing.inputs.shape) if isinstance(thing, Dataset) else type(thing)


def answer(theorem: str, check: Callable[..., Certificate], given: Given) -> Certificate:
    """Return the certificate of a theorem, or why it does not apply."""
    reason = _mismatch(theorem, check, given)
    if not reason:
        try:
            return check(*_arguments(check, given), **_limit(check, given))
        except InvalidInputError as error:
            reason = str(error)
        except (ArithmeticError, LinAlgError) as error:
            reason = f"its constants are not finite here ({error})"
    return Certificate(theorem, (), (), reason)


def _mismatch(theorem: str, check: Callable[..., Certificate], given: Given) -> str:
    """Return in words what a theorem is about, if that was not given; "" if it was."""
    paper = theorem.partition("/")[0]
    subjects = SUBJECTS[paper]
    names = " or a ".join(subject.__name__ for subject in subjects)
    parameters = inspect.signature(check).parameters
    if isinstance(given.trajectory, SaddleToSaddle) and paper != "incremental":
        return "it is about a run from a start, not about the limit of tiny starts"
    if given.network is not None and not isinstance(given.network, subjects):
        return f"it is about a {names}, not about a {type(given.network).__name__}"
    if given.network is None and "None" not in str(parameters["network"].annotation):
        return f"it is about a given {names}"
    if "target" in parameters and not isinstance(given.data, PiecewiseConstant):
        return f"it is about a piecewise constant target on [0, 1]{_instead(given)}"
    if "dataset" in parameters and not isinstance(given.data, Dataset):
        return f"it is about a data set{_instead(given)}"
    return ""


def _instead(given: Given) -> str:
    if given.data is None:
        return ", and none was given"
    return ", not about samples" if isinstance(given.data, Dataset) else f", not about {shown(given.data)}"


def _arguments(check: Callable[..., Certificate], given: Given) -> list[Any]:
    """Return what a theorem takes by position: the network, the data, and a run that it knows how to read."""
    takes_run = len({"trajectory", "trajectories"} & set(inspect.signature(check).parameters)) > 0
    readable = takes_run and not isinstance(given.trajectory, SaddleToSaddle)
    return [given.network, given.data, *([given.trajectory] if readable else [])]


def _limit(check: Callable[..., Certificate], given: Given) -> dict[str, Any]:
    """Return the limit of tiny starts as the argument that takes it."""
    takes = "limit" in inspect.signature(check).parameters
    return {"limit": given.trajectory} if takes and isinstance(given.trajectory, SaddleToSaddle) else {}
