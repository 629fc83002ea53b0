"""Finding data sets of TFDS, and preparing those that are not there yet."""

import difflib
import pathlib
import shutil
import socket
import urllib.parse
import urllib.request

import tensorflow_datasets as tfds


class DatasetNotFoundError(FileNotFoundError, ValueError):
    """A data set is not on this machine and could not be had."""


def find_builder(
    name: str, data_dir: str | None = None
) -> tfds.core.DatasetBuilder:
    """Returns the builder of a data set, prepared or not.

    Args:
        name: Name of a data set.
        data_dir: Folder of prepared data sets, or `None` for that of TFDS.
    """
    try:
        return tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        known = tfds.list_builders(with_community_datasets=False)
        near = difflib.get_close_matches(name.split("/")[0], known, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise DatasetNotFoundError(
            "Expected the name of a data set that TFDS has a builder for or "
            "has prepared in its folder, which `data_dir` or the environment "
            f"variable TFDS_DATA_DIR names. Received: dataset={name!r}.{hint} "
            "`keras_bpn.scenarios.Digits()` needs no data set."
        ) from error


def prepare(builder: tfds.core.DatasetBuilder, download: bool = True) -> None:
    """Downloads and prepares a data set unless it is there.

    Args:
        builder: Builder of the data set.
        download: Boolean, whether this is allowed; it is an error otherwise.
    """
    # Builders that read foreign files have splits without being prepared.
    if builder.info.splits:
        return
    if not download:
        raise DatasetNotFoundError(_how_to_get(builder, "download=False"))
    host = _unreachable_host(builder)
    if host:
        reason = f"no connection to {host}"
        raise DatasetNotFoundError(_how_to_get(builder, reason))
    before = _folders(builder)
    try:
        builder.download_and_prepare()
        if not builder.info.splits:
            raise FileNotFoundError(f"no data in {builder.data_dir}")
    except Exception as error:
        _remove_leftovers(_folders(builder) - before)
        reason = f"it could not be prepared ({type(error).__name__}: {error})"
        raise DatasetNotFoundError(_how_to_get(builder, reason)) from error


def is_known(name: str) -> bool:
    """Whether TFDS has a builder of a name, or has prepared such data."""
    try:
        find_builder(name)
    except DatasetNotFoundError:
        return False
    return True


def how_to_prepare(builder: tfds.core.DatasetBuilder) -> str:
    """Returns in one line how to get a data set of TFDS."""
    name, imports = builder.name, ""
    if builder.builder_config:
        name += f"/{builder.builder_config.name}"
    command = f"tfds build {name}"
    if type(builder).__module__.startswith("keras_bpn."):
        command += " --imports keras_bpn.scenarios.builders"
        imports = "import keras_bpn.scenarios.builders; "
    return (
        f'`{imports}tfds.builder("{name}").download_and_prepare()` in Python, '
        f"or `{command}` in a shell"
    )


def _how_to_get(builder, reason):
    return (
        f"Expected the data set '{builder.info.full_name}' to be prepared in "
        f"{builder.data_dir}. Received: no such data set there, and {reason}. "
        "Prepare it where there is a network, with "
        f"{how_to_prepare(builder)}, and name the folder by `data_dir` or "
        "the environment variable TFDS_DATA_DIR. "
        "`keras_bpn.scenarios.Digits()` needs no network."
    )


def _unreachable_host(builder):
    """Returns a host that TFDS would ask in vain, for minutes.

    Not where a proxy answers for it, or where something was downloaded before,
    by TFDS or by hand: it may be what is needed.
    """
    downloads = pathlib.Path(builder.data_dir_root) / "downloads"
    if urllib.request.getproxies() or any(downloads.glob("*/*")):
        return None
    addresses = getattr(builder, "url_infos", None) or {}
    hosts = {urllib.parse.urlparse(url).hostname for url in addresses}
    for host in sorted(host for host in hosts if host):
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            return host
    return None


def _folders(builder):
    """Returns the folders that there are where TFDS writes."""
    root = pathlib.Path(builder.data_dir_root)
    patterns = ("downloads", "downloads/*", "downloads/*/*", builder.name)
    found = [root, *root.parents, *(root / builder.name).rglob("*")]
    for pattern in patterns:
        found += root.glob(pattern)
    return {path for path in found if path.is_dir()}


def _remove_leftovers(made):
    """Removes unfinished downloads and empty folders; keeps whole files."""
    for path in sorted(made, key=lambda path: -len(path.parts)):
        if ".tmp." in path.name or ".incomplete" in path.name:
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
