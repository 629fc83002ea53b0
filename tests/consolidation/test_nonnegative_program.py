import collections

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from keras_bpn.consolidation.nonnegative_program import _minimize_free
from keras_bpn.consolidation.nonnegative_program import minimize_above
from keras_bpn.consolidation.nonnegative_program import project_gradients

SIZES = (1, 2, 5, 20)
KINDS = (
    "independent",
    "opposed",
    "duplicate",
    "zero",
    "collinear",
    "nearly collinear",
    "other scales",
)


def problem(i):
    """Returns a random gradient and memory gradients, often degenerate."""
    generator = np.random.default_rng(i)
    size, dims = SIZES[i % 4], (4, 60)[i // 4 % 2]
    kind = KINDS[i % len(KINDS)]
    G = generator.normal(size=(size, dims))
    G += generator.choice([0, 1, 3]) * generator.normal(size=dims)
    g = generator.normal(size=dims) - generator.choice([0, 2]) * G.mean(axis=0)
    if kind == "opposed":
        G[1::2] = -G[::2][: size // 2]
    if kind == "duplicate":
        G[size // 2 :] = G[0]
    if kind == "zero":
        G[::2] = 0.0
    if kind == "collinear":
        G = G[:1] * generator.normal(size=(size, 1))
    if kind == "nearly collinear":
        G = G[:1] + 1e-6 * G
    if kind == "other scales":
        G *= 10.0 ** generator.integers(-6, 7, size=(size, 1))
    scale = 10.0 ** generator.choice([-12, -4, -1, 0, 1, 4, 8])
    return scale * g, scale * G, float(generator.choice([0.0, 0.5]))


def reference(g, G, margin):
    """Solves the program by least squares, without products of gradients.

    With `u = v - margin`, the objective is half the squared length of
    `[G'; sqrt(r) I] u + [g + G' margin; sqrt(r) margin]`, up to a constant.
    """
    margins = np.full(len(G), margin)
    root = np.sqrt(1e-3)
    matrix = np.concatenate([G.T, root * np.eye(len(G))])
    target = -np.concatenate([g + G.T @ margins, root * margins])
    u, _ = scipy.optimize.nnls(matrix, target, maxiter=10_000)
    return margins + u


def project(g, G, margin):
    (result,), finite = project_gradients([g], [[row] for row in G], margin)
    return result, finite


@pytest.fixture(scope="module")
def compiled():
    """Functions that are traced once per shape, by whether XLA is used."""

    def run(g, G, margin):
        G = tf.ensure_shape(G, G.shape)
        return project(g, tf.unstack(G), margin)

    return {jit: tf.function(run, jit_compile=jit) for jit in (False, True)}


def check(project, i):
    """Compares one problem, and returns whether it had to be solved."""
    g, G, margin = problem(i)
    result, finite = project(
        tf.constant(g), tf.constant(G), tf.constant(margin, tf.float64)
    )
    assert finite
    if not (G @ g < 0).any():
        np.testing.assert_array_equal(result, g)
        return False
    added = G.T @ reference(g, G, margin)
    # `g` and what is added may cancel, so the error is measured by both.
    error = np.linalg.norm(result - (g + added))
    assert error <= 1e-6 * (np.linalg.norm(g) + np.linalg.norm(added)), i
    return True


def test_agrees_with_a_reference_solver_on_random_problems(compiled):
    solved = collections.Counter()
    for i in range(500):
        kind, size = KINDS[i % len(KINDS)], SIZES[i % 4]
        solved[kind, size] += check(compiled[False], i)
    assert sum(solved.values()) > 300
    kinds = {kind for (kind, size), n in solved.items() if n and size == 20}
    assert kinds == set(KINDS)


def test_agrees_with_a_reference_solver_with_xla(compiled):
    # Shapes repeat every eight problems; three of them are compiled.
    chosen = [i for i in range(400) if i % 8 in (0, 6, 7)]
    assert sum(check(compiled[True], i) for i in chosen) > 60


def test_multipliers_themselves_agree_where_they_are_unique():
    for i in range(60):
        generator = np.random.default_rng(i)
        G = generator.normal(size=(7, 30)) + generator.normal(size=30)
        g = generator.normal(size=30) - 2 * G.mean(axis=0)
        v = minimize_above(
            tf.constant(G @ G.T + 1e-3 * np.eye(7)), tf.constant(G @ g), 0.5
        )
        np.testing.assert_allclose(v, reference(g, G, 0.5), rtol=1e-6)
        assert v.numpy().min() == 0.5


def test_one_memory_by_hand():
    # v = -g'G / (G'G + 1e-3), with G = (2, 0) and g = (-3, 5).
    g, G = np.array([-3.0, 5.0]), np.array([[2.0, 0.0]])
    v = 6 / 4.001
    result, _ = project(tf.constant(g), tf.constant(G), 0.0)
    np.testing.assert_allclose(result, [-3 + 2 * v, 5.0], rtol=1e-12)
    # A margin above it is kept.
    result, _ = project(tf.constant(g), tf.constant(G), 4.0)
    np.testing.assert_allclose(result, [-3 + 2 * 4, 5.0], rtol=1e-12)


def test_a_memory_that_is_first_held_and_then_let_go_by_hand():
    # The first row has the steepest slope, 1.75 / 1.5 against 1, and is taken
    # first. Once both others are taken, its multiplier would be about -1.
    G = np.array([[1.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    g = np.array([-1.0, -1.0, 0.5])
    v = minimize_above(
        tf.constant(G @ G.T + 1e-3 * np.eye(3)), tf.constant(G @ g), 0.0
    )
    np.testing.assert_allclose(v, [0, 1 / 1.001, 1 / 1.001], rtol=1e-12)


def test_elimination_leaves_out_what_depends_on_others():
    # Rows one and two are the same. Row three is not free.
    matrix = tf.constant(
        [
            [1.0, 1.0, 0.3, 0.5],
            [1.0, 1.0, 0.3, 0.5],
            [0.3, 0.3, 1.0, 0.1],
            [0.5, 0.5, 0.1, 1.0],
        ],
        tf.float64,
    )
    target = tf.constant([2.0, 2.0, 9.0, 1.75], tf.float64)
    free = tf.constant([True, True, False, True])
    # a + d / 2 = 2 and a / 2 + d = 1.75
    solution = _minimize_free(matrix, target, free)
    np.testing.assert_allclose(solution, [1.5, 0, 0, 1], atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gradient_that_agrees_with_all_memories_is_returned_as_it_is(dtype):
    generator = np.random.default_rng(0)
    g = generator.normal(size=1000).astype(dtype)
    result, finite = project(tf.constant(g), [tf.constant(g)] * 3, 0.5)
    assert finite and result.dtype == dtype
    np.testing.assert_array_equal(result, g)


def test_single_precision_is_solved_in_double_precision():
    g, G, margin = problem(16)
    result, _ = project(
        tf.constant(g, tf.float32), tf.constant(G, tf.float32), margin
    )
    g, G = g.astype("float32"), G.astype("float32")
    assert (G @ g < 0).any() and result.dtype == "float32"
    added = G.T.astype("float64") @ reference(g, G, margin)
    np.testing.assert_allclose(result, g + added, rtol=2e-7, atol=1e-12)


def test_parts_are_one_vector():
    g, G, margin = problem(3)
    expected, _ = project(tf.constant(g), tf.constant(G), margin)
    parts = [(0, 1), (1, 3), (3, 4)]
    (a, b, c), _ = project_gradients(
        [tf.constant(g[i:j]) for i, j in parts],
        [[tf.constant(row[i:j]) for i, j in parts] for row in G],
        margin,
    )
    np.testing.assert_allclose(
        np.concatenate([a, b, c]), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["gradient", "memory"])
def test_what_is_not_finite_is_left_alone(compiled, bad, place):
    g, G, _ = problem(4 * 4)
    (g if place == "gradient" else G[0])[1] = bad
    for function in compiled.values():
        result, finite = function(
            tf.constant(g), tf.constant(G), tf.constant(0.5, tf.float64)
        )
        assert not finite
        np.testing.assert_array_equal(result, g)


@pytest.mark.parametrize("scale", [1e-38, 1e18, 1e37])
def test_extreme_single_precision_does_not_break_the_solver(scale):
    generator = np.random.default_rng(0)
    G = (scale * generator.normal(size=(4, 9))).astype("float32")
    G = np.concatenate([G, G[:2], 0 * G[:1]])
    g = -G[0]
    result, finite = project(tf.constant(g), tf.constant(G), 0.0)
    assert finite and np.isfinite(result).all()
