import keras
import tensorflow as tf

from keras_bpn.models.workers import num_workers


class MultiWorkerTrainer(keras.Model):
    """A model that `tf.distribute` strategies of several processes can train.

    Keras 3.15 cannot, because of two faults in its trainer for TensorFlow
    (https://github.com/keras-team/keras/issues/20585, open, and
    https://github.com/tensorflow/tensorflow/issues/72388):

    - `_maybe_symbolic_build` averages a batch over the replicas, only to know
      its shapes. That fails where parts of a batch differ in size, as those of
      a small batch do, and where several processes take part.
    - `reduce_per_replica` averages the logs of a step over an axis that scalars
      do not have, where several processes take part.

    Both are mended here and nowhere else. Without a strategy nothing changes.
    `tests/distribute/test_keras_faults.py` fails once Keras has mended them.
    """

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        if self._distribute_strategy is not None and iterator is not None:
            # Any replica's part tells the shapes.
            strategy = self.distribute_strategy
            for _, _, batches in iterator:
                data_batch = tf.nest.map_structure(
                    lambda part: strategy.experimental_local_results(part)[0],
                    next(batches),
                )
                break
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def _make_function(self, step_function):
        if num_workers(self.distribute_strategy) > 1:
            scalar_logs = step_function

            def step_function(data):
                logs = scalar_logs(data)
                return {
                    name: keras.ops.reshape(value, (1,))
                    for name, value in logs.items()
                }

        return super()._make_function(step_function)
