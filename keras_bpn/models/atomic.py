import contextlib
import os
import pathlib
import re
import shutil
import uuid

_LEFTOVER = re.compile(r"\.[0-9a-f]{32}-")


@contextlib.contextmanager
def written_beside(path):
    """Gives a temporary path, and moves what is written there to `path`.

    The temporary path lies in the same folder and has the same ending. If the
    block fails, it is removed, and what was at `path` stays as it was.

    Args:
        path: Path of a file or folder to write.
    """
    path = pathlib.Path(path)
    temporary = _leftover_of(path)
    try:
        yield temporary
        _flush_all(temporary)
        if temporary.is_dir():
            _replace_folder(temporary, path)
        else:
            os.replace(temporary, path)
        _flush(path.parent)
    finally:
        _remove(temporary)


def remove_whole(path):
    """Removes a file or folder. A kill leaves no part of it at `path`."""
    doomed = _leftover_of(pathlib.Path(path))
    os.rename(path, doomed)
    _remove(doomed)


def remove_leftovers(folder):
    """Removes what a kill in the functions above left in a folder."""
    for path in pathlib.Path(folder).iterdir():
        if _LEFTOVER.match(path.name):
            _remove(path)


def _leftover_of(path):
    return path.with_name(f".{uuid.uuid4().hex}-{path.name}")


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


def _flush_all(path):
    for file in path.rglob("*") if path.is_dir() else ():
        _flush(file)
    _flush(path)


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
