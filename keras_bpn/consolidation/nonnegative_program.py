"""The quadratic program of gradient episodic memory, in TensorFlow ops.

Shapes are static and the number of steps is bounded, so that it can be part of
a compiled training step.
"""

import tensorflow as tf

# The ridge of the official code of GEM, which makes the solution unique.
RIDGE = 1e-3

# What rounding in double precision may leave of numbers of size one.
_SMALLEST_PIVOT = 1e-14
_TOLERANCE = 1e-13


def project_gradients(gradients, memory_gradients, margin=0.0):
    """Turns a gradient so that it agrees with the gradients of memories.

    Let `g` be the gradient, and `G` the matrix that has the gradients of the
    memories as its rows. If `g` has a negative product with any of them, the
    result is

    `g + G' v`, `v = argmin_v 1/2 v' (G G' + 1e-3 I) v + g' G' v`, `v >= margin`

    Otherwise, and where anything is not finite, it is `g` to the bit.

    Args:
        gradients: List of tensors, the parts of `g`. Together they are one
            vector.
        memory_gradients: List of such lists, one per memory.
        margin: Number of at least 0.

    Returns:
        A list of tensors like `gradients`, and a boolean scalar, whether all
        that was given is finite.
    """
    products, overlaps, square = 0.0, 0.0, 0.0
    for i, gradient in enumerate(gradients):
        # Part by part, so that not all of `G` is held in double precision.
        rows = _rows(memory_gradients, i)
        vector = tf.reshape(tf.cast(gradient, tf.float64), (-1,))
        products += tf.matmul(rows, rows, transpose_b=True)
        overlaps += tf.linalg.matvec(rows, vector)
        square += tf.tensordot(vector, vector, 1)
    # Squares of single precision do not overflow in double precision.
    finite = tf.math.is_finite(square + tf.reduce_sum(products))
    turns = finite & tf.reduce_any(overlaps < 0.0)

    # Where the gradient stays as it is, this ends with the first step.
    v = minimize_above(
        tf.where(turns, products, tf.zeros_like(products))
        + RIDGE * tf.eye(len(memory_gradients), dtype=tf.float64),
        tf.where(turns, overlaps, tf.zeros_like(overlaps)),
        margin,
    )
    adjusted = []
    for i, gradient in enumerate(gradients):
        rows = _rows(memory_gradients, i)
        added = tf.linalg.matvec(rows, v, transpose_a=True)
        total = tf.reshape(added, gradient.shape)
        total = total + tf.cast(gradient, tf.float64)
        total = tf.cast(total, gradient.dtype)
        adjusted.append(tf.where(turns, total, gradient))
    return adjusted, finite


def minimize_above(matrix, vector, bound):
    """Returns `argmin_v 1/2 v' matrix v + vector' v` under `v >= bound`.

    This is the active-set method of Lawson and Hanson on the products instead
    of their factors. It ends at the solution after finitely many steps. Steps
    are counted nevertheless, so that rounding cannot keep it going.

    Args:
        matrix: Symmetric tensor of shape `(size, size)` and type `float64`,
            positive definite but for rounding.
        vector: Tensor of shape `(size,)` and type `float64`.
        bound: Number.

    Reference:

    - [Lawson and Hanson, 1995](https://doi.org/10.1137/1.9781611971217),
      chapter 23
    - Bro and de Jong, 1997, "A fast non-negativity-constrained least squares
      algorithm", Journal of Chemometrics 11(5)
    """
    size = matrix.shape[0]
    bound = tf.cast(bound, tf.float64)
    target = -(vector + bound * tf.reduce_sum(matrix, axis=1))
    # In the variables `w = (v - bound) / scale >= 0` the matrix has ones on
    # its diagonal: a memory counts however short its gradient is.
    scale = 1.0 / tf.sqrt(tf.linalg.diag_part(matrix))
    matrix = matrix * scale[:, None] * scale
    target = target * scale
    largest = tf.reduce_max(tf.abs(target))
    largest = tf.where(largest > 0.0, largest, tf.ones_like(largest))
    target = target / largest

    def is_running(step, running, w, free, barred):
        return running & (step < 10 * (size + 1))

    def body(step, running, w, free, barred):
        # `free` are the variables off their bound.
        goal = _minimize_free(matrix, target, free)
        stopped = free & (goal <= 0.0)
        stops = tf.reduce_any(stopped)
        # Go towards the goal until the first variable is at its bound.
        lengths = tf.where(
            stopped, tf.math.divide_no_nan(w, w - goal), tf.ones_like(w)
        )
        length = tf.reduce_min(lengths)
        at_bound = stopped & (lengths <= length)
        free = free & ~at_bound
        new_w = tf.where(stops, w + length * (goal - w), goal)
        new_w = tf.where(free, tf.maximum(new_w, 0.0), tf.zeros_like(w))
        # A variable that was freed and could not move would be freed again
        # and again. It has to wait until another one has moved.
        moved = tf.reduce_any(new_w != w)
        barred = (barred & ~moved) | (at_bound & ~moved)

        slopes = target - tf.linalg.matvec(matrix, new_w)
        smallest = _TOLERANCE * (1.0 + tf.reduce_sum(new_w))
        candidates = ~free & ~barred & (slopes > smallest) & ~stops
        chosen = tf.argmax(
            tf.where(candidates, slopes, tf.zeros_like(slopes)),
            output_type=tf.int32,
        )
        free = free | (candidates & (tf.range(size) == chosen))
        running = stops | tf.reduce_any(candidates)
        return step + 1, running, new_w, free, barred

    none = tf.zeros((size,), tf.bool)
    _, _, w, _, _ = tf.while_loop(
        is_running,
        body,
        (
            tf.constant(0),
            tf.constant(True),
            tf.zeros((size,), tf.float64),
            none,
            none,
        ),
    )
    return bound + largest * scale * w


def _minimize_free(matrix, target, free):
    """Solves for the free variables, with all others at zero.

    By elimination. A Cholesky decomposition would raise an error where two
    memories have the same gradient; here the second is left out.
    """
    size = matrix.shape[0]
    indices = tf.range(size)
    table = tf.concat([matrix, target[:, None]], axis=1)
    solved = tf.zeros((size,), tf.bool)

    def body(i, table, solved):
        here = indices == i
        usable = free[i] & (table[i, i] > _SMALLEST_PIVOT)
        row = table[i] / tf.where(usable, table[i, i], 1.0)
        reduced = table - table[:, i, None] * row
        reduced = tf.where(here[:, None], row, reduced)
        table = tf.where(usable, reduced, table)
        return i + 1, table, solved | (here & usable)

    _, table, solved = tf.while_loop(
        lambda i, *_: i < size, body, (tf.constant(0), table, solved)
    )
    return tf.where(solved, table[:, -1], tf.zeros_like(target))


def _rows(memory_gradients, i):
    rows = [tf.reshape(parts[i], (-1,)) for parts in memory_gradients]
    return tf.cast(tf.stack(rows), tf.float64)
