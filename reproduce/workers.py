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
        jobs = min(jobs or os.cpu_count(), len(missing))
        progress = ProgressLine(len(missing))
        pool = concurrent.futures.ProcessPoolExecutor(
            jobs,
            # Not by fork, which TensorFlow does not survive.
            multiprocessing.get_context("spawn"),
            _use_one_thread,
            max_tasks_per_child=_RUNS_PER_PROCESS,
        )
        try:
            futures = {pool.submit(_execute, run): run for run in missing}
            for future in concurrent.futures.as_completed(futures):
                run = futures[future]
                result, seconds = future.result()
                file.add(run, result, seconds)
                progress.advance(run.title(), keep=True)
        finally:
            # The next session starts where this one was interrupted.
            pool.shutdown(cancel_futures=True)
            progress.close()
    return [file.find(run) for run in runs]


def _use_one_thread():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _execute(run):
    start = time.perf_counter()
    result = run.execute()
    return result, time.perf_counter() - start
