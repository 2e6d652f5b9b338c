"""Array aliases, the base of frozen classes that hold arrays, and the checks on what users give.

Every public function passes what a user gave through these checks once; behind the border nothing is
checked again. A message names the argument, the rule and the value received.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from math import isfinite
from types import NoneType, UnionType
from typing import Any, NoReturn, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shallowflow.errors import InvalidInputError, UnknownNameError, did_you_mean

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Seed = None | int | np.random.SeedSequence | np.random.Generator
"""Where randomness comes from: None is fresh entropy, different every time."""
Array = TypeVar("Array", Floats, Ints, Bools)
Value = TypeVar("Value")
Given = ParamSpec("Given")
_INSIDE: ContextVar[bool] = ContextVar("inside a public function or a run", default=False)
SCALARS = {f"{kind}{none}" for kind in ("float", "int", "bool", "str") for none in ("", " | None")}
"""Annotations of parameters that take one value."""
SEED_WORDS = 4
"""Words of 32 bits that a generator gives for a stream of its own."""


def shown(value: object, limit: int = 80) -> str:
    """Return `value` as a short one-line text for an error message."""
    if isinstance(value, np.ndarray) and value.size > 6:
        kind = "" if value.dtype == np.float64 else f" and type {value.dtype}"
        return f"an array of shape {value.shape}{kind}"
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def frozen(array: Array) -> Array:
    """Return `array` with its write flag cleared (a view, so that the owner keeps its own flag)."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


class FrozenArrays:
    """Base of the frozen dataclasses that hold arrays: equal by value, short in print, always read-only.

    Copies and pickles would otherwise come back with writable arrays.
    """

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                self.__dict__[name] = frozen(value)
            elif isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in value):
                self.__dict__[name] = tuple(frozen(e) if isinstance(e, np.ndarray) else e for e in value)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(value, other.__dict__[name]) for name, value in self.__dict__.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={shown(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"


def _same(first: object, second: object) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.array_equal(first, second, equal_nan=True)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    return type(first) is type(second) and bool(first == second)


def numbers(
    value: ArrayLike, name: str, ndim: int | None, *, allow_empty: bool = False, finite: bool = True
) -> Floats:
    """Return a read-only float64 copy of `value` with `ndim` axes (None: any) and finite entries."""
    array = _floats(value, name)
    if ndim is not None and array.ndim != ndim:
        hint = "; write one column as x[:, None]" if ndim == 2 and array.ndim == 1 else ""
        raise InvalidInputError(
            f"{name}: must have {ndim} {'axis' if ndim == 1 else 'axes'}, got shape {array.shape}{hint}"
        )
    if array.size == 0 and not allow_empty:
        raise InvalidInputError(f"{name}: must not be empty, got shape {array.shape}")
    bad = ~np.isfinite(array)
    if finite and bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f" at index {where}" if where else ""
        raise InvalidInputError(f"{name}: entries must be finite, got {array[where]}{place}")
    return frozen(array)


def _floats(value: ArrayLike, name: str) -> Floats:
    """Return a float64 copy; text, dates and complex numbers are refused, never cast."""
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidInputError(f"{name}: must not be a masked array; pass its valid entries, x.compressed()")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"entries of type {array.dtype}")
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name}: must be an array of numbers, got {shown(value)}") from error


def vector(value: ArrayLike, name: str) -> Floats:
    """Return a read-only finite float64 vector."""
    return numbers(value, name, 1)


def matrix(value: ArrayLike, name: str) -> Floats:
    """Return a read-only finite float64 matrix."""
    return numbers(value, name, 2)


def increasing(value: ArrayLike, name: str, *, allow_empty: bool = False) -> Floats:
    """Return a read-only strictly increasing vector."""
    array = numbers(value, name, 1, allow_empty=allow_empty)
    falls = array[1:] <= array[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        raise InvalidInputError(
            f"{name}: must be strictly increasing, got {array[i]} before {array[i + 1]} at index {i}"
        )
    return array


def same_length(first: Floats, second: Floats, names: str) -> None:
    """Check that two arrays agree in their first axis."""
    if len(first) != len(second):
        raise InvalidInputError(f"{names}: must have equal lengths, got {len(first)} and {len(second)}")


def real(value: object, name: str) -> float:
    """Return a finite float."""
    if type(value) is float and isfinite(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInputError(f"{name}: must be a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not isfinite(number):
        raise InvalidInputError(f"{name}: must be finite, got {shown(value)}")
    return number


def positive(value: object, name: str) -> float:
    """Return a finite float > 0."""
    number = real(value, name)
    if number <= 0:
        raise InvalidInputError(f"{name}: must be > 0, got {number:g}")
    return number


def non_negative(value: object, name: str) -> float:
    """Return a finite float >= 0."""
    number = real(value, name)
    if number < 0:
        raise InvalidInputError(f"{name}: must be >= 0, got {number:g}")
    return number


def unit_interval(value: object, name: str) -> float:
    """Return a float in [0, 1)."""
    number = real(value, name)
    if not 0 <= number < 1:
        raise InvalidInputError(f"{name}: must lie in [0, 1), got {number:g}")
    return number


def probability(value: object, name: str) -> float:
    """Return a float in (0, 1)."""
    number = real(value, name)
    if not 0 < number < 1:
        raise InvalidInputError(f"{name}: must lie in (0, 1), got {number:g}")
    return number


def count(value: object, name: str, at_least: int = 1, at_most: int = 10**12) -> int:
    """Return an integer in [at_least, at_most]; the default upper bound is beyond any run on a computer."""
    if type(value) is int and at_least <= value <= at_most:
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidInputError(f"{name}: must be an integer, got {shown(value)}")
    if value < at_least:
        raise InvalidInputError(f"{name}: must be >= {at_least}, got {value}")
    if value > at_most:
        raise InvalidInputError(f"{name}: must be <= {at_most:g}, got {shown(value)}")
    return int(value)


def flag(value: object, name: str) -> bool:
    """Return True or False; numbers and texts are not taken for either."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name}: must be True or False, got {shown(value)}")
    return bool(value)


def mask(value: object, name: str, size: int) -> Bools | None:
    """Return a vector of `size` booleans; None is passed on."""
    if value is None:
        return None
    if not (isinstance(value, np.ndarray | list) and len(value) == size):
        raise InvalidInputError(f"{name}: must be {size} booleans, got {shown(value)}")
    return np.array([flag(each, name) for each in value])


def members(value: object, name: str, what: str, *kinds: type[Value]) -> tuple[Value, ...]:
    """Return a sequence of objects of some kinds as a tuple."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        found = tuple(value)
        if all(isinstance(each, kinds) for each in found):
            return found
    raise InvalidInputError(f"{name}: must be a sequence of {what}, got {shown(value)}")


def one_of(value: object, name: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the allowed words."""
    words = tuple(allowed)
    if not isinstance(value, str) or value not in words:
        raise InvalidInputError(_not_among(value, name, words))
    return value


def _not_among(value: object, name: str, words: tuple[str, ...]) -> str:
    return f"{name}: must be one of {', '.join(words)}; got {shown(value)}{did_you_mean(value, words)}"


def public(function: Callable[Given, Value]) -> Callable[Given, Value]:
    """Let a public function refuse objects of the wrong kind, by its own annotations.

    Where an annotation names classes of this package (`dataset: Dataset`, `loss: Loss | None`), anything else
    is refused, and so is a network on data of another dimension. Numbers and arrays are its own business, and
    so is a network of another kind: the function knows what to take instead.
    """
    names = tuple(inspect.signature(function).parameters)
    kinds: dict[str, tuple[type, ...]] = {}
    scalars = {name for name, hint in function.__annotations__.items() if hint in SCALARS}

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Value:
        if not kinds:
            kinds.update(_kinds(function))
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, allowed in kinds.items():
            if name in given and not isinstance(given[name], allowed) and not _other(given[name], allowed):
                words = " or ".join("None" if kind is NoneType else kind.__name__ for kind in allowed)
                raise InvalidInputError(f"{name}: must be a {words}, got {shown(given[name])}")
        for name in scalars.intersection(given):
            if isinstance(given[name], np.ndarray | list | tuple | set | dict):
                raise InvalidInputError(f"{name}: must be a single value, got {shown(given[name])}")
        together = ("network", "dataset", "trajectory")
        fitting = [
            given.get(name) if isinstance(given.get(name), kinds.get(name, ())) else None for name in together
        ]
        _check_fit(*fitting)
        return _in_range(function, *args, **kwargs)

    return checked


def _in_range(function: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Value:
    """Return what a function returns; refuse what overflows, unless a caller or a run deals with that."""
    if _INSIDE.get() or np.geterr()["over"] == "ignore":
        return function(*args, **kwargs)
    entered = _INSIDE.set(True)
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return function(*args, **kwargs)
    except (FloatingPointError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError) as error:
        rule = f"cannot be computed in double precision ({error})"
        advice = "numbers that are very large, very small or zero: rescale inputs, targets or weights"
        raise InvalidInputError(f"{function.__name__}: {rule}; {advice}") from error
    finally:
        _INSIDE.reset(entered)


def _other(value: object, allowed: tuple[type, ...]) -> bool:
    """Return whether a network of another kind than the allowed ones is given."""
    return hasattr(value, "pullback") and any(hasattr(kind, "pullback") for kind in allowed)


def _check_fit(network: Any, dataset: Any, trajectory: Any) -> None:
    """Refuse a network, data and a run that are not of one dimension, or not of one width."""
    if network is None and trajectory is not None:
        network = trajectory.path.template
    if network is not None and dataset is not None and network.dimension != dataset.dimension:
        rule = f"inputs must have the network's dimension {network.dimension}"
        raise InvalidInputError(f"dataset: {rule}, got {dataset.dimension}")
    if network is not None and trajectory is not None and network.width != trajectory.path.template.width:
        rule = f"must be a run of the network, of width {network.width}"
        raise InvalidInputError(f"trajectory: {rule}, got one of width {trajectory.path.template.width}")


def _kinds(function: Callable[..., object]) -> dict[str, tuple[type, ...]]:
    """Return the classes that annotations allow, for parameters that take objects of this package."""
    found: dict[str, tuple[type, ...]] = {"": ()}  # never empty: it is looked up once
    for name, hint in get_type_hints(function).items():
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = tuple(get_origin(part) or part for part in parts)
        own = [kind for kind in kinds if getattr(kind, "__module__", "").startswith("shallowflow.")]
        if name != "return" and own and all(kind is NoneType or kind in own for kind in kinds):
            found[name] = kinds
    return found


class Choices(dict[str, Value]):
    """A table of choices by name. A name that is not in it is refused with those that are."""

    def __init__(self, what: str, entries: Mapping[str, Value]) -> None:
        super().__init__(entries)
        self._what = what

    def __missing__(self, name: object) -> NoReturn:
        raise UnknownNameError(_not_among(name, self._what, tuple(self)))


def generator(seed: Seed, name: str = "seed") -> np.random.Generator:
    """Return a random generator made from a seed; a generator is returned itself, and advances with use."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(seed_sequence(seed, name))


def seed_sequence(seed: Seed, name: str = "seed") -> np.random.SeedSequence:
    """Return the seed of a run's own stream; a generator is copied, so that it does not advance."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, np.random.Generator):
        words = copy.deepcopy(seed).integers(2**32, size=SEED_WORDS)
        return np.random.SeedSequence([int(word) for word in words])
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        rule = "must be None, an integer >= 0, a numpy SeedSequence or a numpy Generator"
        raise InvalidInputError(f"{name}: {rule}, got {shown(seed)}")
    if seed < 0:
        raise InvalidInputError(f"{name}: must be >= 0, got {seed}")
    return np.random.SeedSequence(int(seed))
