"""Writes files as PyTorch does, without PyTorch.

The layout of both formats follows `torch/serialization.py`.
"""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np

_STORAGES = {
    "<f4": "FloatStorage",
    "<f8": "DoubleStorage",
    "<i8": "LongStorage",
}


class _Tensor:
    """An array that is pickled as PyTorch pickles a tensor."""

    def __init__(self, key, array, view=None):
        self.key = key
        self.array = np.ascontiguousarray(array)
        strides = [s // self.array.itemsize for s in self.array.strides]
        self.view = view or (0, self.array.shape, tuple(strides))

    def __reduce__(self):
        offset, size, stride = self.view
        arguments = (_Storage(self), offset, size, stride, False)
        hooks = collections.OrderedDict()
        return _modules()["torch._utils"]._rebuild_tensor_v2, (
            *arguments,
            hooks,
        )


class _Storage:
    def __init__(self, tensor):
        self.tensor = tensor


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, _Storage):
            return None
        array = obj.tensor.array
        dtype = getattr(_modules()["torch"], _STORAGES[array.dtype.str])
        return ("storage", dtype, obj.tensor.key, "cpu", array.size)


def _modules():
    """Returns what has the names of PyTorch's modules, to refer to."""
    torch = types.ModuleType("torch")
    for name in _STORAGES.values():
        storage = type(name, (), {"__module__": "torch"})
        setattr(torch, name, storage)
    utils = types.ModuleType("torch._utils")

    def _rebuild_tensor_v2(*args):
        raise NotImplementedError

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    cached = {"torch": torch, "torch._utils": utils}
    return {n: sys.modules.setdefault(f"{n}", m) for n, m in cached.items()}


def write(path, arrays, legacy=False, view=None, extra=None):
    """Writes a dictionary of arrays as a dictionary of tensors.

    Args:
        path: Where to write.
        arrays: Dictionary from names to arrays.
        legacy: Whether to write the format of PyTorch before version 1.6.
        view: Offset, size and stride of every tensor, if not all of its array.
        extra: Anything to be pickled as one more entry.
    """
    before = {n: sys.modules.get(n) for n in ("torch", "torch._utils")}
    for name in before:
        sys.modules.pop(name, None)
    try:
        tensors = {
            name: _Tensor(str(i), array, view)
            for i, (name, array) in enumerate(arrays.items())
        }
        state = collections.OrderedDict(tensors)
        if extra is not None:
            state["extra"] = extra
        # A state dictionary of PyTorch has this attribute.
        state._metadata = collections.OrderedDict(version=1)
        if legacy:
            _write_stream(path, state, tensors)
        else:
            _write_zip(path, state, tensors)
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def _pickled(obj):
    file = io.BytesIO()
    _Pickler(file, protocol=2).dump(obj)
    return file.getvalue()


def _write_zip(path, state, tensors):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", _pickled(state))
        for tensor in tensors.values():
            archive.writestr(
                f"archive/data/{tensor.key}", tensor.array.tobytes()
            )


def _write_stream(path, state, tensors):
    with open(path, "wb") as file:
        for value in (
            0x1950A86A20F9469CFC6C,
            1001,
            {"protocol_version": 1001, "little_endian": True},
        ):
            pickle.dump(value, file, protocol=2)
        file.write(_pickled(state))
        pickle.dump([t.key for t in tensors.values()], file, protocol=2)
        for tensor in tensors.values():
            file.write(struct.pack("<q", tensor.array.size))
            file.write(tensor.array.tobytes())
