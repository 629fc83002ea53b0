"""The processes, on one machine each, that train a model together.

With `tf.distribute.MultiWorkerMirroredStrategy` each runs the same program.
With all other strategies, and without one, there is one process.
"""

import concurrent.futures
import contextlib
import functools
import zlib

import numpy as np
import tensorflow as tf

# The types that a worker can send.
_SENDABLE = (tf.bool, tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)


def num_workers(strategy):
    """Returns the number of processes."""
    return max(1, len(_places(strategy)))


def worker_index(strategy):
    """Returns the place of this process among them; the chief's is 0."""
    if num_workers(strategy) == 1:
        return 0
    resolver = strategy.cluster_resolver
    return _places(strategy).index((resolver.task_type, resolver.task_id))


def is_chief(strategy):
    """Whether this is the process that writes files."""
    return worker_index(strategy) == 0


def sum_over_workers(strategy, tensors):
    """Returns the sums over all processes of the tensors in a list.

    All processes get the same bits.
    """
    if num_workers(strategy) == 1:
        return tensors
    devices = strategy.num_replicas_in_sync // num_workers(strategy)

    def add():
        context = tf.distribute.get_replica_context()
        # Each process counts once, however many devices it has.
        counts = context.replica_id_in_sync_group % devices == 0
        return context.all_reduce(
            tf.distribute.ReduceOp.SUM,
            [t * tf.cast(counts, t.dtype) for t in tensors],
        )

    return _run(strategy, add)


def from_chief(strategy, numbers):
    """Returns the integers that the chief has in place of these.

    Args:
        strategy: `tf.distribute.Strategy`.
        numbers: List of integers, of the same length in all processes.
    """
    if num_workers(strategy) == 1:
        return numbers
    return [int(number) for number in _gather(strategy, numbers)[0]]


@contextlib.contextmanager
def variable_scope(strategy):
    """Makes variables of any type where those of a model are.

    A strategy of several workers gives all of them the chief's initial value.
    TensorFlow cannot send some types, such as that of keys; variables of these
    are made by each worker for itself, with values that are the same anyway.
    """

    def make(next_creator, **kwargs):
        dtype = kwargs["dtype"]
        if num_workers(strategy) == 1 or tf.as_dtype(dtype) in _SENDABLE:
            return next_creator(**kwargs)
        # A new thread is in the scope of no strategy.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(
                tf.Variable,
                kwargs["initial_value"],
                dtype=dtype,
                trainable=kwargs["trainable"],
                name=kwargs["name"],
            ).result()

    with strategy.scope(), tf.variable_creator_scope(make):
        yield


def check_same(strategy, description):
    """Raises where processes are not about to do the same.

    Args:
        strategy: `tf.distribute.Strategy`.
        description: Dictionary from what is described to a string.
    """
    if num_workers(strategy) == 1:
        return
    codes = [code(text.encode()) for text in description.values()]
    rows = _gather(strategy, codes)
    for name, text, column in zip(description, description.values(), rows.T):
        others = np.flatnonzero(column != column[0])
        if len(others):
            raise ValueError(
                f"Expected all workers to have the same {name}. Received: "
                f"{text} in worker {worker_index(strategy)}; different from "
                f"that of worker 0 in {[int(i) for i in others]}"
            )


def code(data):
    """Returns a number that tells bytes apart."""
    return zlib.crc32(data)


def _places(strategy):
    """Returns the types and numbers of the processes, the chief first."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return []
    spec = strategy.cluster_resolver.cluster_spec().as_dict()
    sizes = {job: len(spec.get(job, ())) for job in ("chief", "worker")}
    return [(job, i) for job, size in sizes.items() for i in range(size)]


def _gather(strategy, numbers):
    """Returns an array with a row of integers from each process."""
    rows = np.zeros((num_workers(strategy), len(numbers)), "int64")
    rows[worker_index(strategy)] = numbers
    (rows,) = sum_over_workers(strategy, [tf.constant(rows)])
    return rows.numpy()


def _run(strategy, function):
    """Runs a function in all replicas, and returns the first one's result."""
    run = tf.function(functools.partial(strategy.run, function))
    results = tf.nest.map_structure(strategy.experimental_local_results, run())
    return [result[0] for result in results]
