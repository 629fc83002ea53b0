import functools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bpn.scenarios.checks import check_count
from keras_bpn.scenarios.checks import check_seed
from keras_bpn.scenarios.sources import Source
from keras_bpn.scenarios.transform import Transform


class Examples:
    """Some examples of a data set, as a task presents them.

    They are not copied: batches of indices are drawn, gathered from the data
    that all tasks of a scenario share, and only then transformed, a batch at a
    time. Where the data is too large for memory it is read and decoded anew
    for every pass instead.

    The fixed order is that of a hash of the content, so that it does not depend
    on where the data comes from; of data that is streamed, it is the order of
    the stream.

    Args:
        source: `keras_bpn.scenarios.sources.Source` with the data as it was
            decoded.
        indices: Vector of integers: which examples of the source these are, in
            the order that `source.fixed_order` gives.
        transform: Function from a stored batch `(x, y)` to the one that a
            network sees.

    Attributes:
        source: See above. Where `source.in_memory`, `source.x` and `source.y`
            are all stored examples and labels.
        indices: int64 vector, in the fixed order of the examples.
        transform: See above.

    Example:

    >>> task = keras_bpn.scenarios.Digits()[0]
    >>> examples = task.examples("train").reshape((64,))
    >>> len(examples), examples.shape
    (234, (64,))
    >>> dataset = examples.batches(32, seed=0)
    """

    def __init__(
        self,
        source: Source,
        indices: np.ndarray,
        transform: Transform | None = None,
    ):
        self.source = source
        self.indices = np.asarray(indices, "int64")
        self.transform = Transform() if transform is None else transform

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def in_memory(self) -> bool:
        """Whether the data is in memory; otherwise it is streamed."""
        return self.source.in_memory

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of one `x`."""
        return self.transform.output_shape(self.source.shape, self.source.dtype)

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """int32 vector of the labels, in the fixed order."""
        return self.transform.relabel(self.source.y[self.indices]).numpy()

    def batches(
        self,
        batch_size: int,
        seed: int | None = None,
        epoch: int | tf.Variable | Callable[[], tf.Tensor] = 0,
        skip: int | tf.Variable | Callable[[], tf.Tensor] = 0,
    ) -> tf.data.Dataset:
        """Returns batches `(x, y)`, `x` in float32 and `y` in int32.

        The last batch may be smaller than the others.

        Args:
            batch_size: Positive integer.
            seed: Integer of at least 0, or `None` for the fixed order. The
                random order of an epoch depends on `seed` and `epoch` alone.
            epoch: Integer, or scalar int64 `tf.Variable` that is read whenever
                the dataset is iterated over, or function without arguments
                that is called then and returns a scalar int64 tensor.
            skip: Number of batches to leave out at the start, like `epoch`.
        """
        batch_size = check_count("batch_size", batch_size)
        if seed is not None:
            seed = check_seed(seed)
        return self.source.batches(
            self.indices,
            self.transform,
            batch_size,
            seed,
            _check_position("epoch", epoch),
            _check_position("skip", skip),
        )

    def order(
        self, seed: int | None = None, epoch: int | tf.Variable = 0
    ) -> tf.Tensor:
        """Returns the order of the examples in an epoch, for `take()`.

        It is that in which `batches()` has them. Only for data in memory.

        Args:
            seed, epoch: As in `batches()`.
        """
        return self.source.order(self.indices, seed, epoch)

    def take(self, order: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a part of what `order()` returned as one batch `(x, y)`."""
        return self.source.take(order, self.transform)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns all examples as NumPy arrays `(x, y)`, in fixed order."""
        x = np.empty((len(self), *self.shape), "float32")
        start = 0
        for batch, _ in self.batches(1024):
            x[start : start + len(batch)] = batch
            start += len(batch)
        return x, self.labels.copy()

    def reshape(self, shape: tuple[int, ...]) -> "Examples":
        """Returns the same examples with `x` of another shape.

        Args:
            shape: Tuple of integers with the same number of entries, such as
                `(784,)` for images of shape `(28, 28, 1)`.
        """
        shape = tuple(shape)
        if any(n < 1 for n in shape) or math.prod(shape) != math.prod(
            self.shape
        ):
            raise ValueError(
                f"Expected a shape of {math.prod(self.shape)} entries, those "
                f"of examples of shape {self.shape}. Received: shape={shape}"
            )
        return Examples(
            self.source, self.indices, self.transform.replace(shape=shape)
        )


def _check_position(name, value):
    if callable(value):
        return value
    if isinstance(value, tf.Variable):
        valid = value.dtype == tf.int64 and value.shape.rank == 0
    else:
        valid = isinstance(value, (int, np.integer)) and value >= 0
        valid = valid and not isinstance(value, bool)
    if not valid:
        raise ValueError(
            f"Expected `{name}` to be an integer of at least 0, a scalar "
            f"int64 tf.Variable or a function. Received: {name}={value!r}"
        )
    return value if isinstance(value, tf.Variable) else int(value)
