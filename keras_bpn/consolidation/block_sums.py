import math

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation import pieces
from keras_bpn.models import workers

# How many values the compiled function may write for one block, activations,
# gradients and what is computed from them: 128 MB in single precision, of which
# about a third is alive at any time. Products of matrices are fastest from
# several hundred examples on. The paper's network gets 1,024, images fewer.
_WRITTEN = 2**25


class BlockSums:
    """Means over the examples of a task, summed block after block.

    What is summed belongs to single examples, so that blocks need not be the
    batches of the user: they are larger where `_WRITTEN` allows that. Their
    size follows from shapes alone, and the same data gives the same bits. The
    loop over them is inside of the compiled function, which is traced once for
    any number of examples.

    Of several workers, each sums over its share of the examples.

    Args:
        model: `BPNModel`.
        sums_of: Function of `(x, y, weights, first)` that returns a list of
            weighted sums over the examples of a block. `weights` has the shape
            `(size,)`, and `first` is the number of examples before the block.
        shapes: List of the shapes of these sums.
    """

    def __init__(self, model, sums_of, shapes):
        self._strategy = model.distribute_strategy
        self._sums_of = sums_of
        self._shapes = [*map(tuple, shapes), ()]
        # Where examples differ in size, nothing is known of the next ones.
        self._same_size = all(None not in t.shape[1:] for t in model.inputs)
        self._loops = {}
        self._written = 0

    def mean(self, data):
        """Averages over the examples of a task's data.

        Args:
            data: Iterable of batches `(x, y, sample_weight)`, such as
                `TaskData`. The mean is weighted where weights are given.

        Returns:
            List of the sums over all examples, divided by the sum of all
            weights.
        """
        count = workers.num_workers(self._strategy)
        index = workers.worker_index(self._strategy)
        if self._same_size:
            parts = pieces.pieces(data, at_least=count)
        else:
            batches = map(pieces.as_tensors, data)
            parts = ((batch, pieces.num_examples(batch)) for batch in batches)
        totals = [tf.zeros(shape) for shape in self._shapes]
        first = 0
        for i, ((x, y, weights), batch_size) in enumerate(parts):
            size = pieces.num_examples(x)
            first += size
            if i % count != index:
                continue
            batch = (x, y, _one_per_example(weights, size))
            loop, block = self._loop_for(batch, batch_size)
            start = tf.constant(first - size)
            totals = loop(totals, batch, start, tf.constant(block))
        if not first:
            raise ValueError(
                "Expected the data of the task to hold at least one batch. "
                "Received: no batch. Data that can be read only once is used "
                "up when the task ends"
            )
        totals = workers.sum_over_workers(self._strategy, totals)
        return [total / totals[-1] for total in totals[:-1]]

    def _loop_for(self, batch, batch_size):
        """Returns the compiled loop over blocks, and their size."""
        if not (self._same_size and pieces.is_dense(batch)):
            if None not in self._loops:
                # XLA would compile it anew for each number of examples.
                self._loops[None] = tf.function(
                    self._add_blocks, autograph=False, reduce_retracing=True
                )
            return self._loops[None], pieces.num_examples(batch)
        specs = pieces.specs(batch)
        key = repr(specs)
        if key not in self._loops:
            loop = tf.function(self._add_blocks, autograph=False)
            totals = [tf.TensorSpec(shape) for shape in self._shapes]
            number = tf.TensorSpec((), "int32")
            loop.get_concrete_function(totals, specs, number, number)
            block = pieces.power_of_two(_WRITTEN // max(self._written, 1))
            self._loops[key] = loop, block
        loop, block = self._loops[key]
        return loop, max(block, batch_size)

    def _add_blocks(self, totals, batch, first, block):
        """Adds the sums over the blocks of a batch to `totals`."""
        _, _, weights = batch
        size = tf.shape(weights)[0]

        def add_block(start, totals):
            part = batch
            if pieces.is_dense(batch):
                part = keras.tree.map_structure(
                    lambda a: a if a is None else a[start : start + block],
                    batch,
                )
            sums = [
                *self._sums_of(*part, first + start),
                tf.reduce_sum(part[2]),
            ]
            self._written = _values_per_example(
                tf.compat.v1.get_default_graph()
            )
            return start + block, list(map(tf.add, totals, sums))

        # While one block leaves a core idle, the next one begins.
        _, totals = tf.while_loop(
            lambda start, _: start < size,
            add_block,
            (tf.constant(0), totals),
            parallel_iterations=2,
        )
        return totals


def _values_per_example(graph):
    """Returns how many values the operations of a graph give per example."""
    shapes = [
        output.shape
        for operation in graph.get_operations()
        for output in operation.outputs
    ]
    # The dimension of the examples is the one that is not known.
    return sum(
        math.prod(size or 1 for size in shape)
        for shape in shapes
        if shape.rank and None in shape
    )


def _one_per_example(weights, size):
    """Returns the weights of examples as a vector."""
    if weights is None:
        return tf.ones((size,))
    if keras.tree.is_nested(weights):
        weights = keras.tree.flatten(weights)[0]
    weights = ops.cast(weights, "float32")
    return ops.mean(ops.reshape(weights, (size, -1)), axis=1)
