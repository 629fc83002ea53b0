"""What `compile` is given, for several models."""

import keras


def copy_arguments(arguments):
    """Returns compile arguments with optimizers and metrics of their own."""
    stateful = (keras.optimizers.Optimizer, keras.metrics.Metric)

    def copy(argument):
        if not isinstance(argument, stateful):
            return argument
        return type(argument).from_config(argument.get_config())

    return keras.tree.map_structure(copy, arguments)
