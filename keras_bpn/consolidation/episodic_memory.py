"""Choosing the examples of a task that are kept."""

import heapq
import itertools

import keras
import numpy as np


def choose_examples(data, per_class, seed):
    """Draws examples of each class, uniformly and without replacement.

    The data is read once, and little more of it is held than is chosen. The
    draw depends on the seed and on the order of the examples, not on how they
    are cut into batches.

    Args:
        data: Iterable of batches `(x, y, sample_weight)`. `x` may be nested;
            `y` are integer labels of shape `(n,)` or `(n, 1)`, or one-hot.
        per_class: Integer, how many examples of each class to draw. Of a class
            with fewer, all are taken.
        seed: Seed of `numpy.random.default_rng`.

    Returns:
        `x` and `y` of the chosen examples, ordered by class, and a dictionary
        from each class to how many examples of it the data holds.
    """
    generator = np.random.default_rng(seed)
    structure, counts, heaps = None, {}, {}
    order = itertools.count()
    for x, y, _ in data:
        structure = x
        arrays = [np.asarray(a) for a in keras.tree.flatten((x, y))]
        classes = _classes(y)
        numbers = generator.random(len(classes))
        for i, (c, number) in enumerate(zip(classes, numbers)):
            counts[c] = counts.get(c, 0) + 1
            heap = heaps.setdefault(c, [])
            # The examples with the smallest random numbers are chosen. The
            # first entry of a heap is the next to give way to a smaller one.
            if len(heap) == per_class and -number < heap[0][0]:
                continue
            # A copy, which does not keep its whole batch in memory.
            example = [a[i].copy() for a in arrays]
            heapq.heappush(heap, (-number, next(order), example))
            if len(heap) > per_class:
                heapq.heappop(heap)
    if structure is None:
        raise ValueError(
            "Expected the data of the task to hold at least one batch. "
            "Received: no batch. Data that can be read only once is used up "
            "when the task ends"
        )
    chosen = [
        example
        for c in sorted(heaps)
        for _, _, example in sorted(heaps[c], key=lambda entry: entry[1])
    ]
    *inputs, labels = [np.stack(arrays) for arrays in zip(*chosen)]
    return keras.tree.pack_sequence_as(structure, inputs), labels, counts


def _classes(y):
    """Returns the class of each example as a list of integers."""
    if y is None or keras.tree.is_nested(y):
        raise ValueError(
            "Expected the labels to be one array. Received: labels of type "
            f"{type(y).__name__}"
        )
    y = np.asarray(y)
    rows = y.reshape((len(y), -1))
    if rows.shape[1] == 1:
        classes = rows[:, 0].astype("int64")
        is_valid = y.ndim <= 2 and np.array_equal(classes, rows[:, 0])
    else:
        classes = rows.argmax(axis=1)
        one_hot = np.eye(rows.shape[1])[classes]
        is_valid = y.ndim == 2 and np.array_equal(rows, one_hot)
    if not is_valid:
        raise ValueError(
            "Expected labels to be integers of shape (n,) or (n, 1), or "
            "one-hot, because examples are chosen by class. "
            f"Received: labels of shape {y.shape} and type {y.dtype} that are "
            "neither"
        )
    return classes.tolist()
