"""The paper's effect in small, on some of the real MNIST."""

import keras
import pytest

import keras_bpn
from tests.helpers import compile_model
from tests.helpers import make_model

pytestmark = pytest.mark.data


def first_task_after_three(mnist, **kwargs):
    """Returns the accuracy of the first of three tasks after all of them."""
    keras.utils.set_random_seed(0)
    model = make_model((100, 100), inputs=784, outputs=10, hidden_dim=100)
    compile_model(model, keras.optimizers.Adam(1e-3), **kwargs)
    (x, y), (x_test, y_test) = mnist
    for t in range(3):
        chosen = y // 2 == t
        model.fit(
            x[chosen][:2000],
            y[chosen][:2000],
            task=str(t),
            batch_size=32,
            epochs=2,
            verbose=0,
        )
    chosen = y_test // 2 == 0
    return model.evaluate(x_test[chosen], y_test[chosen], task="0", verbose=0)[
        1
    ]


def test_beneficial_perturbations_keep_the_first_task(mnist):
    kept = first_task_after_three(
        mnist,
        direction="beneficial",
        consolidation=keras_bpn.consolidation.EWC(2e3),
    )
    forgotten = first_task_after_three(
        mnist, direction=None, consolidation=None
    )
    assert kept > 0.95
    assert forgotten < 0.05
