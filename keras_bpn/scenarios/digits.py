from collections.abc import Sequence

from sklearn.datasets import load_digits

from keras_bpn.scenarios.array_data import ArrayData
from keras_bpn.scenarios.split_classes import SplitClasses


class Digits(SplitClasses):
    """The 1,797 handwritten digits of scikit-learn, some classes in each task.

    The images have shape `(8, 8, 1)` and values in [0, 1]. They are part of
    scikit-learn, so that nothing has to be downloaded. A quarter of them is
    held out for test.

    Args:
        classes_per_task, classes, order, multi_head, validation_split,
            test_split, preprocess, batch_size, seed: See
            `keras_bpn.scenarios.SplitClasses`.

    Example:

    >>> scenario = keras_bpn.scenarios.Digits()
    >>> [task.name for task in scenario]
    ['0/1', '2/3', '4/5', '6/7', '8/9']
    >>> x, y = scenario[0].examples("test").reshape((64,)).arrays()
    >>> x.shape
    (90, 64)
    """

    def __init__(
        self,
        classes_per_task: int | Sequence[int] = 2,
        classes: Sequence[int] | None = None,
        order: Sequence[int] | str | None = None,
        multi_head: bool = False,
        validation_split: float = 0.1,
        test_split: float = 0.25,
        preprocess=None,
        batch_size: int = 32,
        seed: int = 0,
    ):
        x, y = load_digits(return_X_y=True)
        x = (x / 16).astype("float32").reshape((-1, 8, 8, 1))
        names = tuple(str(label) for label in range(10))
        super().__init__(
            ArrayData((x, y), name="digits", class_names=names),
            classes_per_task,
            classes,
            order,
            multi_head,
            validation_split,
            test_split,
            preprocess=preprocess,
            batch_size=batch_size,
            seed=seed,
        )
