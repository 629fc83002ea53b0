"""Processes that execute runs, one thread each.

Small networks leave most of a core idle if they are shared out over several,
and with one thread a result does not depend on how many cores there are.
"""

import concurrent.futures
import multiprocessing
import os
import time

from reproduce.progress import ProgressLine
from reproduce.run_file import RunFile

# What earlier runs leave behind in a process slows later ones down.
_RUNS_PER_PROCESS = 20


def execute_all(runs, file: RunFile, jobs: int | None = None) -> list[dict]:
    """Executes the runs that a file does not have yet, and adds them to it.

    Args:
        runs: List of runs: objects with `key()`, `execute()` and `title()`.
        file: `RunFile`.
        jobs: How many processes to use, `None` for one per core.

    Returns:
        The results of all runs, in their order.
    """
    missing = [run for run in runs if file.find(run) is None]
    if missing:
        progress = ProgressLine(len(missing))
        workers = [
            _Worker() for _ in range(min(jobs or os.cpu_count(), len(missing)))
        ]
        try:
            for run, result, seconds in _execute(missing, workers):
                file.add(run, result, seconds)
                progress.advance(run.title(), keep=True)
        finally:
            for worker in workers:
                worker.stop()
            progress.close()
    return [file.find(run) for run in runs]


def _execute(runs, workers):
    """Yields each run with its result and its seconds, as they are done."""
    waiting = list(reversed(runs))
    busy = {}
    idle = list(workers)
    while waiting or busy:
        while waiting and idle:
            worker, run = idle.pop(), waiting.pop()
            busy[worker.start(run)] = worker, run
        done, _ = concurrent.futures.wait(
            busy, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in done:
            worker, run = busy.pop(future)
            idle.append(worker)
            yield run, *future.result()


class _Worker:
    """A process that is replaced by a new one after some runs.

    `ProcessPoolExecutor(max_tasks_per_child=...)` is for this, but in Python
    3.11 it may wait forever for the new one.
    """

    def __init__(self):
        self._pool = None
        self._runs = 0

    def start(self, run):
        """Returns the future of a run."""
        if self._pool is None or self._runs == _RUNS_PER_PROCESS:
            self.stop()
            self._runs = 0
            self._pool = concurrent.futures.ProcessPoolExecutor(
                1,
                # Not by fork, which TensorFlow does not survive.
                multiprocessing.get_context("spawn"),
                _use_one_thread,
            )
        self._runs += 1
        return self._pool.submit(_execute_one, run)

    def stop(self):
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _use_one_thread():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _execute_one(run):
    # Of the core, which may be shared or at rest in between.
    start = time.process_time()
    result = run.execute()
    return result, time.process_time() - start
