import os
import pickle
import random

import numpy as np
import pytest

from keras_bpn.applications.torch_file import read_tensors
from tests.applications.torch_writer import write


def some_arrays():
    generator = np.random.default_rng(0)
    return {
        "a.weight": generator.normal(size=(3, 4)).astype("float32"),
        "a.bias": generator.normal(size=3),
        "steps": np.array(7, "int64"),
    }


@pytest.mark.parametrize("legacy", [False, True])
def test_tensors_come_back(tmp_path, legacy):
    arrays = some_arrays()
    write(tmp_path / "x.pth", arrays, legacy)
    read = read_tensors(tmp_path / "x.pth")
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize("legacy", [False, True])
def test_views_of_a_storage(tmp_path, legacy):
    array = np.arange(12, dtype="float32")
    view = (1, (2, 3), (4, 2))
    write(tmp_path / "x.pth", {"x": array}, legacy, view)
    # Elements 1 + 4i + 2j.
    expected = [[1, 3, 5], [5, 7, 9]]
    np.testing.assert_array_equal(
        read_tensors(tmp_path / "x.pth")["x"], expected
    )


def test_files_of_pytorch_itself(tmp_path):
    torch = pytest.importorskip("torch")
    arrays = some_arrays()
    tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
    for legacy in (False, True):
        torch.save(
            tensors,
            tmp_path / "x.pth",
            _use_new_zipfile_serialization=not legacy,
        )
        read = read_tensors(tmp_path / "x.pth")
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array)


class Hostile:
    """Would make a folder if it were unpickled as pickles usually are."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_file_is_refused_and_not_executed(tmp_path, legacy):
    path, made = tmp_path / "x.pth", tmp_path / "made"
    write(path, some_arrays(), legacy, extra=Hostile(made))
    with pytest.raises(ValueError, match="mkdir'. Nothing of it was executed"):
        read_tensors(path)
    assert not made.exists()
    path.write_bytes(pickle.dumps(Hostile(made)))
    with pytest.raises(ValueError, match="mkdir'. Nothing of it was executed"):
        read_tensors(path)
    assert not made.exists()
    # The file was hostile indeed.
    pickle.loads(path.read_bytes())
    assert made.exists()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "view",
    [(0, (13,), (1,)), (-1, (2,), (1,)), (0, (10**9,), (0,)), (3, (2,), (-1,))],
)
def test_tensors_beyond_their_storage_are_refused(tmp_path, legacy, view):
    write(tmp_path / "x.pth", {"x": np.zeros(12, "float32")}, legacy, view)
    with pytest.raises(ValueError, match="out of bounds"):
        read_tensors(tmp_path / "x.pth")


@pytest.mark.parametrize("legacy", [False, True])
def test_broken_files(tmp_path, legacy):
    path = tmp_path / "x.pth"
    write(path, some_arrays(), legacy)
    content = path.read_bytes()
    generator = random.Random(0)
    refused = 0
    for i in range(200):
        broken = bytearray(content)
        if i % 2:
            del broken[generator.randrange(len(broken)) :]
        else:
            broken[generator.randrange(len(broken))] ^= 1 << i % 8
        path.write_bytes(broken)
        try:
            read_tensors(path)
        except ValueError as error:
            assert "Expected a file" in str(error)
            refused += 1
    # A flipped bit may change a number or a name, which no reader can tell.
    assert refused >= 100


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"hello", b"\x80\x02."]
)
def test_other_files(tmp_path, content):
    path = tmp_path / "x.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="that `torch.save` wrote"):
        read_tensors(path)


def test_something_else_than_a_dictionary_of_tensors(tmp_path):
    write(tmp_path / "x.pth", some_arrays(), extra="a string")
    with pytest.raises(ValueError, match="a dictionary of tensors"):
        read_tensors(tmp_path / "x.pth")
