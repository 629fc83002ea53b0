"""Tensors in files of PyTorch, read without executing anything in them.

Such a file is a pickle beside the raw numbers. A pickle is a program: it may
call whatever it names. Here it may name the few things that a dictionary of
tensors needs, and everything else is refused before it is looked up.
"""

import collections
import io
import math
import pickle
import pickletools
import struct
import zipfile

import numpy as np

_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ByteStorage": "u1",
}
_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C


def read_tensors(path):
    """Returns the tensors that `torch.save(model.state_dict(), path)` wrote.

    Args:
        path: Path of the file, of either format that PyTorch has had.

    Returns:
        Dictionary from names to arrays.
    """
    try:
        if zipfile.is_zipfile(path):
            tensors = _read_zip(path)
        else:
            tensors = _read_stream(path)
    except UnsafeFile as error:
        raise ValueError(
            f"Expected a file with nothing but tensors. Received: {path}, "
            f"which {error}. Nothing of it was executed"
        ) from None
    except Exception as error:
        # Whatever a broken file breaks: pickle, struct, zipfile, indices.
        raise ValueError(
            "Expected a file that `torch.save` wrote. Received: "
            f"{path}, which cannot be read: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(tensors, dict) or not all(
        isinstance(value, np.ndarray) for value in tensors.values()
    ):
        raise ValueError(
            "Expected a file with a dictionary of tensors. Received: "
            f"{path} with a {type(tensors).__name__}"
        )
    return dict(tensors)


class UnsafeFile(Exception):
    """Says what a file asks for that is not to be given."""


def _read_zip(path):
    with zipfile.ZipFile(path) as archive:
        (pickled,) = [
            name for name in archive.namelist() if name.endswith("/data.pkl")
        ]
        folder = pickled.removesuffix("data.pkl")

        def read(name):
            entry = archive.getinfo(name)
            # PyTorch compresses nothing. Few bytes must not become many.
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"'{name}' is compressed")
            return archive.read(entry)

        def read_storage(dtype, key, count):
            content = read(f"{folder}data/{key}")
            _check_size(len(content), dtype, count)
            return np.frombuffer(content, dtype)

        return _load(io.BytesIO(read(pickled)), read_storage)


def _read_stream(path):
    """Reads the format of PyTorch before version 1.6."""
    with open(path, "rb") as file:
        content = io.BytesIO(file.read())
    magic = _load(content)
    if magic != _MAGIC_NUMBER:
        raise ValueError("it does not begin as such files do")
    for _ in ("the version of the protocol", "the sizes of integers"):
        _load(content)
    # Numbers come last: until then, tensors refer to them.
    storages = {}

    def read_storage(dtype, key, count):
        return storages.setdefault(key, _Storage(dtype, count))

    tensors = _load(content, read_storage)
    for key in _load(content):
        storage = storages[key]
        (count,) = struct.unpack("<q", content.read(8))
        raw = content.read(count * np.dtype(storage.dtype).itemsize)
        _check_size(len(raw), storage.dtype, storage.count)
        storage.values = np.frombuffer(raw, storage.dtype)
    return type(tensors)((name, v.array()) for name, v in tensors.items())


class _Storage:
    """Numbers that are still to be read."""

    def __init__(self, dtype, count):
        self.dtype = dtype
        self.count = count
        self.values = None


class _View:
    """A tensor of numbers that are still to be read."""

    def __init__(self, storage, *layout):
        self.storage = storage
        self.layout = layout

    def array(self):
        return _view(self.storage.values, *self.layout)


def _check_size(size, dtype, count):
    if size != count * np.dtype(dtype).itemsize:
        raise ValueError(f"{count} numbers are announced in {size} bytes")


def _load(file, read_storage=None):
    """Returns what is pickled at the place where a file in memory is."""
    start = file.tell()
    # Python makes room for as many objects as the numbers that they are
    # remembered by say, which in a broken file may be any.
    for count, (opcode, number, _) in enumerate(pickletools.genops(file)):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and number > count:
            raise ValueError(f"object {number} is remembered too early")
    file.seek(start)
    return _Unpickler(file, read_storage).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, read_storage):
        super().__init__(file, encoding="utf-8")
        self._read_storage = read_storage

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module in ("torch", "torch.storage") and name in _DTYPES:
            return _DTYPES[name]
        raise UnsafeFile(f"asks for '{module}.{name}'")

    def persistent_load(self, pid):
        kind, dtype, key, _, count = pid[:5]
        if (
            kind != "storage"
            or dtype not in _DTYPES.values()
            or self._read_storage is None
            or type(count) is not int
        ):
            raise UnsafeFile(f"refers to {pid!r}")
        return self._read_storage(dtype, str(key), count)


def _rebuild(storage, offset, size, stride, *_):
    """Returns a tensor, as the function of this place in PyTorch does."""
    if isinstance(storage, _Storage):
        return _View(storage, offset, size, stride)
    return _view(storage, offset, size, stride)


def _view(values, offset, size, stride):
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    if (
        offset < 0
        or any(n < 0 for n in size)
        or any(s < 0 for s in stride)
        or len(size) != len(stride)
        or (math.prod(size) and last >= len(values))
        # One number must not become many: that could fill any memory.
        or math.prod(size) > len(values)
    ):
        raise ValueError(f"a tensor of shape {tuple(size)} is out of bounds")
    strides = [s * values.itemsize for s in stride]
    view = np.lib.stride_tricks.as_strided(values[offset:], size, strides)
    return np.array(view)
