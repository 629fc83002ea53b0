"""The paper's algorithms 1 to 4 against a NumPy step, line by line.

The network has one hidden layer. The NumPy code follows the notation of the
paper: V are activations, Grad are gradients of the loss at pre-activations.
"""

import keras
import numpy as np
import pytest

import keras_bpn
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import values

RATE, EPSILON, STRENGTH = 0.1, 0.02, 3.0
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


class NumpyNetwork:
    """One task of a two-layer network, step by step."""

    def __init__(self, model, keys=(1.0, 1.0)):
        dense = model.layers[1:]
        self.W = values(layer.kernel for layer in dense)
        self.b = values(layer.bias for layer in dense)
        self.M = values(layer.task_bias.perturbation for layer in dense)
        self.Wt = values(layer.task_bias.projection for layer in dense)
        self.keys = keys

    def forward(self, x):
        """Algorithm 1, and algorithm 3 where keys are given."""
        bias = [M @ Wt for M, Wt in zip(self.M, self.Wt)]
        self.V = [x * self.keys[0]]
        z = self.V[0] @ self.W[0] + self.b[0] + bias[0]
        self.active = z > 0
        self.V.append(np.maximum(z, 0) * self.keys[1])
        return self.V[1] @ self.W[1] + self.b[1] + bias[1]

    def gradients(self, x, y):
        """Algorithm 2, and algorithm 4 where keys are given."""
        logits = self.forward(x)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        grad = [None, (p - np.eye(p.shape[1])[y]) / len(y)]
        dV = grad[1] @ self.W[1].T * self.keys[1]
        grad[0] = dV * self.active
        total = [g.sum(0, keepdims=True) for g in grad]
        return {
            "Wt": [M.T @ g for M, g in zip(self.M, total)],
            "M": [g @ Wt.T for Wt, g in zip(self.Wt, total)],
            "W": [V.T @ g for V, g in zip(self.V, grad)],
            "b": [g[0] for g in total],
        }

    def step(self, x, y, direction, penalty=None):
        """One step of gradient descent, with the sign step for M."""
        d = self.gradients(x, y)
        for i in range(2):
            dW, db = d["W"][i], d["b"][i]
            if penalty is not None:
                # Gradient of lambda F (W - W*)^2, at the end of the step.
                (F_W, star_W), (F_b, star_b) = penalty[i]
                h_W, h_b = 2 * STRENGTH * F_W, 2 * STRENGTH * F_b
                dW = (dW + h_W * (self.W[i] - star_W)) / (1 + RATE * h_W)
                db = (db + h_b * (self.b[i] - star_b)) / (1 + RATE * h_b)
            self.W[i] = self.W[i] - RATE * dW
            self.b[i] = self.b[i] - RATE * db
            self.Wt[i] = self.Wt[i] - RATE * d["Wt"][i]
            if direction == "beneficial":
                self.M[i] = self.M[i] - EPSILON * np.sign(d["M"][i])
            else:
                self.M[i] = self.M[i] - RATE * d["M"][i]

    def check(self, model):
        for i, layer in enumerate(model.layers[1:]):
            np.testing.assert_allclose(layer.kernel, self.W[i], **TOLERANCE)
            np.testing.assert_allclose(layer.bias, self.b[i], **TOLERANCE)
            np.testing.assert_allclose(
                layer.task_bias.projection, self.Wt[i], **TOLERANCE
            )
            np.testing.assert_allclose(
                layer.task_bias.perturbation, self.M[i], **TOLERANCE
            )


def make_task_model(direction, consolidation):
    """A model in the middle of its first task, with factors far from zero."""
    model = make_model(units=(7,), hidden_dim=4)
    model.compile(
        optimizer=keras.optimizers.SGD(RATE),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        direction=direction,
        epsilon=EPSILON,
        consolidation=consolidation,
    )
    start(model, "a")
    return model


def start(model, task):
    """Opens a task with factors drawn from a normal distribution."""
    x, y = make_data()
    model.fit(x[:1], y[:1], task=task, verbose=0, consolidate=False)
    generator = np.random.default_rng(5)
    for bias in model.task_biases:
        for factor in bias.factors:
            factor.assign(0.5 * generator.normal(size=factor.shape))


def steps(model, network, direction, penalty=None):
    x, y = make_data(1)
    for i in range(0, 40, 8):
        batch = x[i : i + 8], y[i : i + 8]
        model.train_on_batch(*batch)
        network.step(*batch, direction, penalty)
        network.check(model)


def psp_keys(model):
    row = len(model.tasks)
    return [np.array(layer.task_keys.table)[row] for layer in model.layers[1:]]


@pytest.mark.parametrize("psp", [False, True])
def test_forward_rules_of_algorithms_1_and_3(psp):
    method = keras_bpn.consolidation.PSP(seed=3) if psp else None
    model = make_task_model("beneficial", method)
    network = NumpyNetwork(model, psp_keys(model) if psp else (1.0, 1.0))
    x, _ = make_data(2)
    np.testing.assert_allclose(
        model(x, task="a"), network.forward(x), **TOLERANCE
    )


@pytest.mark.parametrize("direction", ["beneficial", "gradient"])
def test_backward_rules_of_algorithm_2_for_the_first_task(direction):
    model = make_task_model(direction, keras_bpn.consolidation.EWC(STRENGTH))
    steps(model, NumpyNetwork(model), direction)


@pytest.mark.parametrize("direction", ["beneficial", "gradient"])
def test_backward_rules_of_algorithm_2_for_later_tasks(direction):
    ewc = keras_bpn.consolidation.EWC(STRENGTH)
    model = make_task_model(direction, ewc)
    model.consolidate(*make_data())
    penalty = [
        [
            (np.array(ewc.importance(v)), np.array(ewc.anchor(v)))
            for v in (layer.kernel, layer.bias)
        ]
        for layer in model.layers[1:]
    ]
    assert all(F.max() > 0 for layer in penalty for F, _ in layer)
    start(model, "b")
    steps(model, NumpyNetwork(model), direction, penalty)


@pytest.mark.parametrize("direction", ["beneficial", "gradient"])
def test_backward_rules_of_algorithm_4(direction):
    model = make_task_model(direction, keras_bpn.consolidation.PSP(seed=3))
    steps(model, NumpyNetwork(model, psp_keys(model)), direction)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "lion"])
def test_sign_steps_are_exact_for_every_optimizer(optimizer):
    model = make_task_model("beneficial", None)
    model.compile(
        optimizer=optimizer,
        loss=model.loss,
        epsilon=EPSILON,
        direction="beneficial",
    )
    x, y = make_data(1)
    before = values(model.perturbations)
    network = NumpyNetwork(model)
    signs = [np.sign(g) for g in network.gradients(x, y)["M"]]
    model.train_on_batch(x, y)
    for old, sign, new in zip(before, signs, values(model.perturbations)):
        step = np.float32(EPSILON) * sign.astype("float32")
        np.testing.assert_array_equal(new, old - step)


def test_no_sign_step_where_the_gradient_is_zero():
    model = make_task_model("beneficial", None)
    hidden = model.layers[1]
    # No unit of the hidden layer is active, so nothing flows back through it.
    hidden.bias.assign(np.full(7, -100.0))
    before = np.array(hidden.task_bias.perturbation)
    model.train_on_batch(*make_data(1))
    np.testing.assert_array_equal(hidden.task_bias.perturbation, before)


def test_after_a_task_the_product_is_frozen_and_the_factors_are_gone():
    model = make_task_model("beneficial", keras_bpn.consolidation.EWC(STRENGTH))
    products = [
        np.array(bias.perturbation) @ np.array(bias.projection)
        for bias in model.task_biases
    ]
    before = np.array(model(make_data(2)[0], task="a"))
    model.consolidate(*make_data())
    for bias, product in zip(model.task_biases, products):
        np.testing.assert_allclose(bias.table[1], product[0], **TOLERANCE)
        assert not np.any(bias.perturbation) and not np.any(bias.projection)
    np.testing.assert_array_equal(model(make_data(2)[0], task="a"), before)
