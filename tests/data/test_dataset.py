"""`Dataset`: checked, copied, read-only; and tables read from files, or refused by line and entry."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.data.dataset import Dataset, orthogonalised
from shallowflow.errors import FileFormatError, InvalidInputError


def test_a_dataset_copies_and_freezes() -> None:
    inputs, targets = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    dataset = Dataset(inputs, targets, name="mine")
    inputs[:], targets[:] = 0.0, 0.0
    np.testing.assert_array_equal(dataset.inputs, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(dataset.targets, [5.0, 6.0])
    assert (dataset.size, dataset.dimension, dataset.name) == (2, 2, "mine")
    with pytest.raises(ValueError, match="read-only"):
        dataset.inputs[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        dataset.targets[0] = 1.0
    with pytest.raises(AttributeError, match="cannot assign to field 'targets'"):
        dataset.targets = targets  # type: ignore[misc]


def test_bias_is_one_more_coordinate() -> None:
    dataset = Dataset([[1.0], [2.0]], [3.0, 4.0], name="n").with_bias()
    assert dataset == Dataset([[1.0, 1.0], [2.0, 1.0]], [3.0, 4.0], name="n")


def test_datasets_are_values() -> None:
    dataset = Dataset([[1.0], [2.0]], [3.0, 4.0], name="n")
    for twin in (copy.deepcopy(dataset), pickle.loads(pickle.dumps(dataset))):
        assert twin == dataset
        assert not twin.inputs.flags.writeable
        assert not twin.targets.flags.writeable
    assert dataset != Dataset([[1.0], [2.0]], [3.0, 4.0])
    assert dataset != Dataset([[1.0], [2.5]], [3.0, 4.0], name="n")
    assert repr(Dataset(np.zeros((9, 2)), np.zeros(9), "n")) == (
        "Dataset(inputs=an array of shape (9, 2), targets=an array of shape (9,), name='n')"
    )


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        ([[1, np.nan]], [1], r"^inputs: entries must be finite, got nan at index \(0, 1\)$"),
        ([[1, 2]], [np.inf], r"^targets: entries must be finite, got inf at index \(0,\)$"),
        ([1, 2], [1, 2], r"^inputs: must have 2 axes, got shape \(2,\); write one column as x\[:, None\]$"),
        ([[1], [2]], [1], r"^inputs, targets: must have equal lengths, got 2 and 1$"),
        ([[1]], [[1]], r"^targets: must have 1 axis, got shape \(1, 1\)$"),
        ([[]], [1], r"^inputs: must not be empty, got shape \(1, 0\)$"),
        ([], [], r"^inputs: must have 2 axes, got shape \(0,\)"),
        ([["a"]], [1], r"^inputs: must be an array of numbers, got \[\['a'\]\]$"),
        ([[1, 2], [3]], [1, 2], r"^inputs: must be an array of numbers, got \[\[1, 2\], \[3\]\]$"),
        (np.ones((2, 2)) * 1j, [1, 2], r"^inputs: must be an array of numbers, got array\("),
    ],
)
def test_datasets_refuse_with_name_rule_and_value(inputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        Dataset(inputs, targets)
    assert "\n" not in str(caught.value)


TABLE = Dataset([[1.0, -2.5], [0.25, 1e-3]], [3.0, -4.0], name="table")


@pytest.mark.parametrize(
    "text",
    [
        "1,-2.5,3\n0.25,1e-3,-4\n",
        "1,-2.5,3\n0.25,1e-3,-4",
        "1,-2.5,3\r\n0.25,1e-3,-4\r\n",
        "\ufeff1,-2.5,3\n0.25,1e-3,-4\n",
        "x1,x2,y\n1,-2.5,3\n0.25,1e-3,-4\n",
        "\ufeffx1,x2,y\n1,-2.5,3\n0.25,1e-3,-4\n",
        '"first, quoted",x2,y\n"1","-2.5","3"\n0.25,1e-3,-4\n',
        "\n\n 1 , -2.5 , 3 \n\n0.25,1e-3,-4\n   \n,,\n",
        "température\n1,-2.5,3\n0.25,1e-3,-4\n",
    ],
)
def test_tables_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    assert Dataset.from_csv(path) == TABLE
    assert Dataset.from_csv(str(path)) == TABLE


@settings(deadline=None, derandomize=True, max_examples=30)
@given(size=st.integers(1, 5), dimension=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_tables_keep_every_bit(tmp_path_factory: Any, size: int, dimension: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((size, dimension + 1)) * 10.0 ** rng.integers(
        -300, 300, (size, dimension + 1)
    )
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("\n".join(",".join(map(repr, row)) for row in numbers.tolist()))
    assert Dataset.from_csv(path) == Dataset(numbers[:, :-1], numbers[:, -1], name="t")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r": no data: expected lines of numbers, the target last$"),
        (b"\n \n\n", r": no data: "),
        (b"x,y\n", r": no data: "),
        (
            b"1\n2\n",
            r": needs at least two columns .*, got 1; columns are separated by commas$",
        ),
        (b"1,2\n3,abc\n", r": line 2: expected a finite number, got 'abc'$"),
        (b"x,y\n1,2\n\n3,abc\n", r": line 4: expected a finite number, got 'abc'$"),
        (b"1,x\n3,4\n", r": line 1: expected a finite number, got 'x'$"),
        (b"x,y\na,b\n", r": line 2: expected a finite number, got 'a'$"),
        (b"1,2\n3,4,5\n", r": line 2: expected 2 columns, got 3$"),
        (b"1,2,3\n4,5\n", r": line 2: expected 3 columns, got 2$"),
        (b"1,2\n3,\n", r": line 2: expected a finite number, got ''$"),
        (b"1,2\n3,nan\n", r": line 2: expected a finite number, got 'nan'$"),
        (b"nan,inf\n3,4\n", r": line 1: expected a finite number, got 'nan'$"),
        (b"1,2\n1e999,4\n", r": line 2: expected a finite number, got '1e999'$"),
        (
            b"1;2\n3;4\n",
            r": needs at least two columns .*, got 1; columns are separated by commas$",
        ),
        (b"1,2\n" + b"z" * 5000 + b",1\n", r": line 2: expected a finite number, got 'z{40}'$"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe\x80", r": is not a text file of comma-separated numbers$"),
        ("1,2\n3,4\n".encode("utf-16"), r": is not a text file of comma-separated numbers$"),
        (b"\x00\x01\x02\x03", r": no data: "),
        (b"1,\x00\n", r": line 1: expected a finite number, got '\\x00'$"),
        (b'1,"' + b"9" * 200_000 + b'"\n', r": is not a text file of comma-separated numbers$"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"bad\.csv{message}") as caught:
        Dataset.from_csv(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(content=st.binary(max_size=60) | st.text('0123456789.,-+einfa\n" \t;', max_size=60).map(str.encode))
def test_any_bytes_give_a_dataset_or_a_clear_error(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    try:
        dataset = Dataset.from_csv(path)
    except FileFormatError as error:
        dataset, message = None, str(error)
    if dataset is None:
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
    else:
        assert np.isfinite(dataset.inputs).all()


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none\.csv: cannot be read: No such file or directory$"):
        Dataset.from_csv(tmp_path / "none.csv")
    with pytest.raises(FileFormatError, match=r": cannot be read: Is a directory$"):
        Dataset.from_csv(tmp_path)


def test_a_device_is_no_table() -> None:
    with pytest.raises(FileFormatError, match="/dev/zero: must be a file, got a device"):
        Dataset.from_csv("/dev/zero")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "endless.csv"
    path.write_text("1," * (1 << 20))
    with pytest.raises(FileFormatError, match="has a line of more than 1048576 characters"):
        Dataset.from_csv(path)


def test_many_lines_are_read_in_little_memory(tmp_path: Path) -> None:
    """3·10⁵ lines of two numbers are 4.8 MB; as texts they would be 60 MB."""
    import tracemalloc

    path = tmp_path / "long.csv"
    path.write_text("x,y\n" + "0.123456789,0.987654321\n" * 300_000)
    tracemalloc.start()
    found = Dataset.from_csv(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.size == 300_000
    assert peak < 30e6


@pytest.mark.parametrize("seed", range(5))
def test_whitened_samples_are_orthonormal_and_new_inputs_follow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = Dataset(rng.standard_normal((4, 7)) @ np.diag([1, 1, 1, 1, 1, 1e-2, 1e-2]), rng.standard_normal(4))
    found = orthogonalised(data)
    moved = found.dataset
    np.testing.assert_allclose(moved.inputs @ moved.inputs.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(found.apply(data.inputs), moved.inputs, atol=1e-12)
    # Of all orthonormal sets it is the nearest: polar factor, checked against random rotations of it.
    for _ in range(20):
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        assert np.linalg.norm(moved.inputs - data.inputs) <= np.linalg.norm(turn @ moved.inputs - data.inputs)
    outside = rng.standard_normal(7)
    outside -= np.linalg.lstsq(data.inputs.T, outside)[0] @ data.inputs
    np.testing.assert_allclose(found.apply(outside[None])[0], outside, atol=1e-12)
    sizes = np.linalg.svd(data.inputs, compute_uv=False)
    assert found.condition == pytest.approx(sizes[0] / sizes[-1])
    assert f"{found.condition:.3g} times as much" in found.sentence


def test_dependent_samples_cannot_be_whitened() -> None:
    with pytest.raises(InvalidInputError, match=r"linearly independent .* got 3 of rank 2 in dimension 2"):
        orthogonalised(Dataset([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 1.0, 1.0]))
