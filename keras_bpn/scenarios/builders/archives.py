"""Reads what extracted archives hold, and says what is wrong with them."""

import importlib.resources
import pathlib

import numpy as np
import tensorflow as tf
from etils import epath

_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"


def read_names(file_name: str) -> list[str]:
    """Returns the class names in a text file beside this module.

    Args:
        file_name: Name of a file with one class per line, in the order of
            the labels.
    """
    folder = importlib.resources.files("keras_bpn.scenarios.builders")
    return folder.joinpath(file_name).read_text("utf-8").splitlines()


def read_lines(path: epath.Path) -> list[str]:
    """Returns the lines of a list, without blank ones.

    Args:
        path: Path of a text file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(_missing("the list", path)) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected the list '{path}' to be text in UTF-8. "
            f"Received: a file in which {error}"
        ) from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def listed_file(folder: epath.Path, name: str, listed_in: str) -> epath.Path:
    """Returns the path of a file that a list names.

    Args:
        folder: The folder into which the archive was extracted.
        name: Path of the file in that folder, with parts from the list.
        listed_in: Name of the list, for errors.
    """
    # Windows paths know both kinds of slashes, and drives.
    parts = pathlib.PureWindowsPath(name)
    if parts.anchor or ".." in parts.parts or "\0" in name or not parts.name:
        raise ValueError(
            f"Expected '{listed_in}' to name files inside the archive. "
            f"Received: {name!r}"
        )
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(
            _missing(f"a file that '{listed_in}' names", path)
            + f" TFDS extracted the archive to '{folder}' and uses that folder "
            "again: delete it if you replace the archive."
        )
    return path


def read_image(path: epath.Path) -> bytes | np.ndarray:
    """Returns an image in a form that `tfds.features.Image` takes.

    JPEG and PNG files are kept as they are. What is in another format that
    TensorFlow decodes, whatever the name of the file says, is returned as an
    array.

    Args:
        path: Path of an image.
    """
    data = path.read_bytes()
    if data.startswith((_JPEG, _PNG)):
        return data
    try:
        image = tf.io.decode_image(data, channels=3, expand_animations=False)
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(
            f"Expected '{path}' to be an image. "
            f"Received: a file of {len(data)} bytes that begins with "
            f"{data[:8]!r}"
        ) from error
    return image.numpy()


def read_mat(path: epath.Path, variable: str) -> np.ndarray:
    """Returns a variable of a MATLAB file.

    Args:
        path: Path of a file in a MATLAB format before 7.3.
        variable: Name of an array of structures.
    """
    # Only those who prepare a data set wait for this import.
    import scipy.io

    if not path.exists():
        raise FileNotFoundError(_missing("the MATLAB file", path))
    try:
        with path.open("rb") as file:
            values = scipy.io.loadmat(file, variable_names=[variable])
    # SciPy has no common class for what it finds in broken files.
    except Exception as error:
        raise ValueError(
            f"Expected '{path}' to be a MATLAB file. "
            f"Received: a file that SciPy cannot read: {error}"
        ) from error
    if variable not in values or not values[variable].size:
        raise ValueError(
            f"Expected '{path}' to hold structures in the variable "
            f"`{variable}`. Received: a MATLAB file without them"
        )
    return values[variable]


def fields_of(
    record: np.void, names: tuple[str, ...], path: epath.Path
) -> list[np.ndarray]:
    """Returns fields of a MATLAB structure.

    Args:
        record: An element of what `read_mat` returned.
        names: Names of the fields.
        path: Path of the MATLAB file, for errors.
    """
    known = record.dtype.names or ()
    if not set(names) <= set(known):
        raise ValueError(
            f"Expected structures with the fields {list(names)} in '{path}'. "
            f"Received: fields {list(known)}"
        )
    return [record[name] for name in names]


def _missing(what: str, path: epath.Path) -> str:
    return (
        f"Expected {what} at '{path}'. Received: an archive without it. It may "
        "be incomplete, or another one than the official."
    )
