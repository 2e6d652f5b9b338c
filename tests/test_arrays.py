"""The border: what is refused, with which words, and that what passes is a read-only copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import (
    SEED_WORDS,
    Choices,
    Floats,
    FrozenArrays,
    Seed,
    count,
    flag,
    frozen,
    generator,
    increasing,
    matrix,
    non_negative,
    numbers,
    one_of,
    positive,
    real,
    same_length,
    seed_sequence,
    shown,
    unit_interval,
    vector,
)
from shallowflow.errors import InvalidInputError, ShallowflowError, UnknownNameError, did_you_mean

REFUSED_ARRAYS: list[tuple[Any, int, str]] = [
    ([1.0, np.nan], 1, r"^x: entries must be finite, got nan at index \(1,\)$"),
    ([[1.0, 2.0], [3.0, -np.inf]], 2, r"^x: entries must be finite, got -inf at index \(1, 1\)$"),
    (np.nan, 0, r"^x: entries must be finite, got nan$"),
    ([1.0, 2.0], 2, r"^x: must have 2 axes, got shape \(2,\); write one column as x\[:, None\]$"),
    ([[1.0]], 1, r"^x: must have 1 axis, got shape \(1, 1\)$"),
    (3.0, 1, r"^x: must have 1 axis, got shape \(\)$"),
    ([], 1, r"^x: must not be empty, got shape \(0,\)$"),
    (np.empty((0, 3)), 2, r"^x: must not be empty, got shape \(0, 3\)$"),
    ([[1.0, 2.0], [3.0]], 2, r"^x: must be an array of numbers, got \[\[1\.0, 2\.0\], \[3\.0\]\]$"),
    ("abc", 1, r"^x: must be an array of numbers, got 'abc'$"),
    ([1.0, "b"], 1, r"^x: must be an array of numbers, got \[1\.0, 'b'\]$"),
    (["1", "2"], 1, r"^x: must be an array of numbers, got \['1', '2'\]$"),
    ([1.0, 2j], 1, r"^x: must be an array of numbers, got \[1\.0, 2j\]$"),
    (
        np.ones(9) * 1j,
        1,
        r"^x: must be an array of numbers, got an array of shape \(9,\) and type complex128$",
    ),
    (np.array(["2020-01-01"], dtype="M8[D]"), 1, r"^x: must be an array of numbers, got array\("),
    ([10**400], 1, r"^x: must be an array of numbers, got \[10000"),
    ({"a": 1}, 1, r"^x: must be an array of numbers, got \{'a': 1\}$"),
]


@pytest.mark.parametrize(("value", "ndim", "message"), REFUSED_ARRAYS)
def test_numbers_refuses_with_name_rule_and_value(value: Any, ndim: int, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        numbers(value, "x", ndim)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(value=ANYTHING, ndim=st.sampled_from([None, 0, 1, 2]))
def test_numbers_returns_finite_read_only_floats_or_one_line(value: Any, ndim: int | None) -> None:
    try:
        array = numbers(value, "argument", ndim)
    except InvalidInputError as error:
        array, message = None, str(error)
    if array is None:
        assert message.startswith("argument: ")
        assert "\n" not in message
        assert len(message) < 200
    else:
        assert array.dtype == np.float64
        assert np.isfinite(array).all()
        assert not array.flags.writeable
        assert ndim is None or array.ndim == ndim


def test_numbers_takes_what_holds_numbers() -> None:
    mixed: list[Any] = [True, 2, np.float32(0.5), Fraction(1, 4)]
    np.testing.assert_array_equal(vector(mixed, "x"), [1.0, 2.0, 0.5, 0.25])
    np.testing.assert_array_equal(
        matrix(np.arange(6, dtype=np.uint8).reshape(2, 3), "x"), [[0, 1, 2], [3, 4, 5]]
    )
    assert numbers([], "x", 1, allow_empty=True).shape == (0,)
    np.testing.assert_array_equal(numbers([np.nan, np.inf], "x", 1, finite=False), [np.nan, np.inf])


def test_numbers_copies() -> None:
    mine = np.array([1.0, 2.0])
    array = vector(mine, "x")
    mine[0] = 7.0
    assert array[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 3.0


def test_frozen_is_a_view_that_leaves_the_owner_writable() -> None:
    owner = np.zeros(2)
    view = frozen(owner)
    owner[0] = 5.0
    assert view[0] == 5.0
    assert not view.flags.writeable


def test_frozen_takes_the_scalars_that_arithmetic_on_0d_arrays_returns() -> None:
    scalar: Any = np.array(1.0) - np.array(0.5)
    assert not isinstance(scalar, np.ndarray)
    assert frozen(scalar).shape == ()
    assert not frozen(scalar).flags.writeable


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (real, "1", r"^x: must be a number, got '1'$"),
        (real, True, r"^x: must be a number, got True$"),
        (real, None, r"^x: must be a number, got None$"),
        (real, np.nan, r"^x: must be finite, got nan$"),
        (real, np.inf, r"^x: must be finite, got inf$"),
        (real, 10**400, r"^x: must be finite, got 1000"),
        (positive, 0, r"^x: must be > 0, got 0$"),
        (positive, -0.25, r"^x: must be > 0, got -0\.25$"),
        (non_negative, -1e-9, r"^x: must be >= 0, got -1e-09$"),
        (unit_interval, -0.1, r"^x: must lie in \[0, 1\), got -0\.1$"),
        (unit_interval, 1, r"^x: must lie in \[0, 1\), got 1$"),
        (count, 0, r"^x: must be >= 1, got 0$"),
        (count, 2.0, r"^x: must be an integer, got 2\.0$"),
        (count, False, r"^x: must be an integer, got False$"),
        (generator, -1, r"^x: must be >= 0, got -1$"),
        (
            generator,
            1.0,
            r"^x: must be None, an integer >= 0, a numpy SeedSequence or a numpy Generator, got 1\.0$",
        ),
        (generator, True, r"^x: must be None, an integer >= 0, .*, got True$"),
        (seed_sequence, np.int64(-2), r"^x: must be >= 0, got -2$"),
        (seed_sequence, [1, 2], r"^x: must be None, an integer >= 0, .*, got \[1, 2\]$"),
    ],
)
def test_scalars_are_refused_with_name_rule_and_value(
    check: Callable[[Any, str], object], value: object, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check(value, "x")


def test_scalars_become_plain_python_numbers() -> None:
    assert type(real(np.float32(0.5), "x")) is float
    assert type(positive(np.int64(3), "x")) is float
    assert type(count(np.int64(3), "x")) is int
    assert unit_interval(0, "x") == 0.0
    assert count(0, "x", at_least=0) == 0


def test_increasing_names_the_first_descent() -> None:
    with pytest.raises(
        InvalidInputError, match=r"^t: must be strictly increasing, got 2\.0 before 2\.0 at index 1$"
    ):
        increasing([1, 2, 2, 1], "t")
    assert increasing([], "t", allow_empty=True).size == 0


def test_same_length_names_both() -> None:
    with pytest.raises(InvalidInputError, match=r"^a, b: must have equal lengths, got 2 and 3$"):
        same_length(np.zeros(2), np.zeros(3), "a, b")


@pytest.mark.parametrize("value", ["c", ["a"], None, np.array(["a", "b"]), 1])
def test_one_of_lists_the_words(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^word: must be one of a, b; got "):
        one_of(value, "word", ("a", "b"))


@pytest.mark.parametrize(
    ("value", "allowed", "meant"),
    [
        ("denes", ("auto", "dense", "sweep"), "dense"),
        ("Dense", ("auto", "dense"), "dense"),
        ("SWEEP", ("auto", "sweep"), "sweep"),
        ("balanse", ("Balance", "balance"), "balance"),
        ("fig2", ("plateau/fig2", "incremental/fig2", "plateau/fig3"), "plateau/fig2 or incremental/fig2"),
        ("b/fgi3", ("a/fig2", "b/fig2", "b/fig3"), "b/fig3"),
    ],
)
def test_one_of_offers_the_word_that_was_meant(value: str, allowed: tuple[str, ...], meant: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        one_of(value, "word", allowed)
    expected = f"word: must be one of {', '.join(allowed)}; got {value!r}; did you mean {meant}?"
    assert str(caught.value) == expected


@pytest.mark.parametrize("value", ["magic", "", "x" * 1000, None, 3])
def test_nothing_is_offered_for_what_resembles_nothing(value: object) -> None:
    assert did_you_mean(value, ("auto", "dense")) == ""
    assert did_you_mean(value, ()) == ""


def test_a_table_of_choices_offers_the_name_that_was_meant() -> None:
    table = Choices("engine", {"auto": 1, "dense": 2})
    assert (table["auto"], table.get("magic"), "magic" in table, list(table)) == (
        1,
        None,
        False,
        ["auto", "dense"],
    )
    for kind in (InvalidInputError, KeyError):
        with pytest.raises(kind) as caught:
            table["denes"]
        assert str(caught.value) == "engine: must be one of auto, dense; got 'denes'; did you mean dense?"
    for copied in COPIES:
        with pytest.raises(InvalidInputError, match=r"^engine: "):
            copied(table)["magic"]


@pytest.mark.parametrize("seed", [5, np.uint8(5), np.random.SeedSequence(5), np.random.default_rng(5)])
def test_every_seed_gives_the_numbers_of_its_integer(seed: Seed) -> None:
    assert generator(seed).random() == np.random.default_rng(5).random()


def test_generators_advance_and_sequences_do_not() -> None:
    rng, sequence = np.random.default_rng(5), np.random.SeedSequence(5)
    assert generator(rng) is rng
    assert generator(sequence).random() == generator(sequence).random()
    assert generator(None).random() != generator(None).random()
    assert generator(10**40).random() == np.random.default_rng(10**40).random()


def test_the_sequence_of_a_generator_depends_on_its_state_and_leaves_it_alone() -> None:
    rng = np.random.default_rng(5)
    first, again = seed_sequence(rng), seed_sequence(rng)
    np.testing.assert_array_equal(first.generate_state(4), again.generate_state(4))
    assert rng.random() == np.random.default_rng(5).random()
    assert np.any(first.generate_state(4) != seed_sequence(rng).generate_state(4))
    sequence = np.random.SeedSequence(5)
    assert seed_sequence(sequence) is sequence
    assert seed_sequence(5).entropy == 5
    assert seed_sequence(None).entropy != seed_sequence(None).entropy


@settings(deadline=None, derandomize=True, max_examples=50)
@given(value=st.text() | st.lists(st.integers()) | st.binary())
def test_shown_is_one_short_line(value: object) -> None:
    text = shown(value)
    assert "\n" not in text
    assert len(text) <= 80


def test_shown_summarises_arrays() -> None:
    assert shown(np.zeros((3, 4))) == "an array of shape (3, 4)"
    assert shown(np.zeros(7, dtype=np.int64)) == "an array of shape (7,) and type int64"
    assert shown(np.eye(2)) == "array([[1., 0.], [0., 1.]])"


def test_errors_are_value_errors_with_one_base() -> None:
    assert issubclass(InvalidInputError, ShallowflowError)
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(UnknownNameError, InvalidInputError)


@dataclass(frozen=True, eq=False, repr=False)
class Curve(FrozenArrays):
    points: Floats
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class OtherCurve(FrozenArrays):
    points: Floats
    name: str


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),
]


@pytest.mark.parametrize("copied", COPIES)
def test_frozen_classes_stay_read_only_and_equal_through_copies(copied: Callable[[Any], Any]) -> None:
    curve = Curve(np.array([1.0, np.nan]), "c")
    twin = copied(curve)
    assert twin == curve
    assert not curve.points.flags.writeable
    assert not twin.points.flags.writeable


def test_frozen_classes_compare_by_value_and_type() -> None:
    curve = Curve(np.array([1.0, 2.0]), "c")
    assert curve == Curve(np.array([1.0, 2.0]), "c")
    assert curve != Curve(np.array([1.0, 2.5]), "c")
    assert curve != Curve(np.array([1.0]), "c")
    assert curve != Curve(np.array([1.0, 2.0]), "d")
    assert curve != OtherCurve(np.array([1.0, 2.0]), "c")
    assert curve != "c"
    with pytest.raises(TypeError, match="unhashable"):
        hash(curve)


@dataclass(frozen=True, eq=False, repr=False)
class Bundle(FrozenArrays):
    curves: tuple[Floats, ...]


@pytest.mark.parametrize("copied", COPIES)
def test_tuples_of_arrays_are_frozen_and_compared_too(copied: Callable[[Any], Any]) -> None:
    bundle = Bundle((np.array([1.0, np.nan]), np.zeros(3)))
    twin = copied(bundle)
    assert twin == bundle
    assert not any(curve.flags.writeable for each in (bundle, twin) for curve in each.curves)
    assert bundle != Bundle((np.array([1.0, np.nan]), np.ones(3)))
    assert bundle != Bundle((np.array([1.0, np.nan]),))


def test_frozen_classes_print_short() -> None:
    assert repr(Curve(np.zeros(2), "c")) == "Curve(points=array([0., 0.]), name='c')"
    assert repr(Curve(np.zeros(500), "c")) == "Curve(points=an array of shape (500,), name='c')"


def test_the_largest_count_is_a_trillion() -> None:
    assert count(10**12, "steps") == 10**12
    with pytest.raises(InvalidInputError, match=r"^steps: must be <= 1e\+12, got 1000000000001$"):
        count(10**12 + 1, "steps")


@pytest.mark.parametrize("value", [1, 0.0, "yes", None])
def test_a_flag_is_true_or_false(value: object) -> None:
    assert flag(np.True_, "networks") is True
    with pytest.raises(InvalidInputError, match=r"^networks: must be True or False, got "):
        flag(value, "networks")


def test_the_sequence_of_a_generator_has_its_next_words() -> None:
    words = np.random.default_rng(5).integers(2**32, size=SEED_WORDS)
    assert seed_sequence(np.random.default_rng(5)).entropy == words.tolist()
