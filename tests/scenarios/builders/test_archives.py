import os

import pytest
import tensorflow_datasets as tfds
from hypothesis import given
from hypothesis import strategies as st

from keras_bpn.scenarios.builders import archives

PARTS = ["..", ".", "", "a", "b", "secret", "C:", " "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with files in it, and files of the same names around it."""
    outside = tmp_path_factory.mktemp("outside")
    for path in ("b", "secret", "a/secret", "x/b", "x/a/b", "x/a/secret"):
        (outside / path).parent.mkdir(parents=True, exist_ok=True)
        (outside / path).touch()
    return outside / "x"


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=6),
    st.sampled_from("/\\"),
    st.booleans(),
)
def test_listed_files_are_inside_the_folder(folder, parts, slash, absolute):
    name = slash.join(parts)
    if absolute:
        name = os.fspath(folder.parent) + "/" + name
    try:
        path = archives.listed_file(tfds.core.Path(folder), name, "list.txt")
    except (ValueError, FileNotFoundError):
        return
    inside = os.path.realpath(path)
    assert inside.startswith(f"{os.path.realpath(folder)}{os.sep}")


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        r"\\server\share",
        "C:/secret",
        r"a\..\..\secret",
        "a\0b",
        "",
        "..",
    ],
)
def test_names_outside_the_folder(folder, name):
    with pytest.raises(ValueError, match="'list.txt' to name files inside"):
        archives.listed_file(tfds.core.Path(folder), name, "list.txt")


def test_listed_file(folder):
    path = archives.listed_file(tfds.core.Path(folder), "a/b", "list.txt")
    assert os.fspath(path) == os.fspath(folder / "a" / "b")


def test_names_have_no_blanks():
    for file_name, size in (
        ("fgvc_aircraft_families.txt", 70),
        ("fgvc_aircraft_manufacturers.txt", 30),
        ("fgvc_aircraft_variants.txt", 100),
        ("mit_indoor_scenes_labels.txt", 67),
        ("stanford_cars_labels.txt", 196),
    ):
        names = archives.read_names(file_name)
        assert len(set(names)) == len(names) == size
        assert all(name and name == name.strip() for name in names)


def test_names_are_those_of_cars196():
    expected = tfds.builder_cls("cars196")().info.features["label"].names
    assert archives.read_names("stanford_cars_labels.txt") == expected
