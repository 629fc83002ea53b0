import contextlib
import os
import pathlib
import shutil
import uuid


@contextlib.contextmanager
def written_beside(path):
    """Gives a temporary path, and moves what is written there to `path`.

    The temporary path lies in the same folder and has the same ending. If the
    block fails, it is removed, and what was at `path` stays as it was.

    Args:
        path: Path of a file or folder to write.
    """
    path = pathlib.Path(path)
    mark = uuid.uuid4().hex
    temporary = path.with_name(f".{mark}-{path.name}")
    try:
        yield temporary
        if temporary.is_dir():
            _replace_folder(temporary, path)
        else:
            _flush(temporary)
            os.replace(temporary, path)
            _flush(path.parent)
    finally:
        _remove(temporary)


def _replace_folder(temporary, path):
    if not path.exists():
        temporary.rename(path)
        return
    previous = temporary.with_name(f"{temporary.name}.previous")
    path.rename(previous)
    try:
        temporary.rename(path)
    except OSError:
        previous.rename(path)
        raise
    _remove(previous)


def _flush(path):
    """Waits until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
