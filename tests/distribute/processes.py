"""Runs scripts in processes of their own: devices have to be set up before
TensorFlow starts, and a strategy of several workers needs several processes."""

import json
import os
import pathlib
import socket
import subprocess
import sys

_FOLDER = pathlib.Path(__file__).parent


def run(script, *arguments, workers=1, timeout=900):
    """Runs a script of this folder.

    Args:
        script: Name of the module.
        *arguments: Strings.
        workers: Integer, how many processes run it together, on ports of this
            machine.
        timeout: Seconds.

    Returns:
        List with what each of them reported.
    """
    command = [sys.executable, "-m", f"tests.distribute.{script}", *arguments]
    running = []
    try:
        for environment in _environments(workers):
            running.append(
                subprocess.Popen(
                    command,
                    cwd=_FOLDER.parents[1],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return [_report(process, timeout) for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()


def report(results):
    """Writes what a script has found, as its last line."""
    print(json.dumps(results), flush=True)


def _report(process, timeout):
    output, errors = process.communicate(timeout=timeout)
    if process.returncode:
        raise AssertionError(f"{output}\n{errors[-5000:]}")
    return json.loads(output.splitlines()[-1])


def _environments(workers):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_CONFIG", None)
    if workers == 1:
        return [environment]
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(workers)]
    cluster = {"worker": addresses}
    return [
        {
            **environment,
            "TF_CONFIG": json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": i}}
            ),
        }
        for i in range(workers)
    ]


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
