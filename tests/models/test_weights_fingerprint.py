import numpy as np
import pytest

from keras_bpn.models.weights_fingerprint import WeightsFingerprint

SHAPES = {"a/kernel": (40, 30), "a/bias": (30,), "b/kernel": (30, 5)}


def fingerprint(weights):
    return WeightsFingerprint.of({p: lambda w=w: w for p, w in weights.items()})


def random_weights(seed, scale=1.0):
    generator = np.random.default_rng(seed)
    return {
        path: (scale * generator.normal(size=shape)).astype("float32")
        for path, shape in SHAPES.items()
    }


def added(first, second):
    return {path: first[path] + second[path] for path in first}


def norm(weights):
    return np.sqrt(
        sum((w.astype("float64") ** 2).sum() for w in weights.values())
    )


def test_equal_weights_are_known_by_their_hashes():
    weights = random_weights(0)
    print_ = fingerprint(weights)
    assert print_.differing(fingerprint(random_weights(0))) == []
    assert print_.distance(fingerprint(random_weights(0))) == 0
    weights["a/bias"][3] = np.nextafter(weights["a/bias"][3], np.float32(9))
    assert print_.differing(fingerprint(weights)) == ["a/bias"]
    reshaped = {**random_weights(0)}
    reshaped["a/bias"] = reshaped["a/bias"][:, None]
    assert print_.differing(fingerprint(reshaped)) == ["a/bias"]


def test_norms_are_exact():
    weights = random_weights(0)
    norms = fingerprint(weights).sketches[:, 0]
    np.testing.assert_allclose(
        norms, [np.linalg.norm(w) for w in weights.values()], rtol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-4, 0.1, 3.0])
def test_the_estimate_is_near_the_distance(scale):
    first = random_weights(0)
    ratios = []
    for seed in range(1, 201):
        difference = random_weights(seed, scale)
        estimate = fingerprint(first).distance(
            fingerprint(added(first, difference))
        )
        ratios.append(estimate / (norm(difference) / norm(first)))
    squares = np.square(ratios)
    # One of eight sums in three weights, of which the first has 1200 of 1380
    # elements: a variance of 2 / 8 * (1200^2 + 150^2 + 30^2) / 1380^2 = 0.192,
    # and with 200 draws a standard deviation of the mean of 0.031. Rounding to
    # float32 adds what cannot be seen here.
    assert abs(squares.mean() - 1) < 4 * 0.031
    assert abs(squares.std() - 0.192**0.5) < 0.15


def test_order_does_not_matter():
    first, second = random_weights(0), random_weights(1)
    turned = dict(reversed(second.items()))
    expected = fingerprint(first).distance(fingerprint(second))
    assert fingerprint(first).distance(fingerprint(turned)) == expected
    assert fingerprint(first).differing(fingerprint(turned)) == list(SHAPES)


def test_large_weights_are_sketched_in_pieces(monkeypatch):
    weights = {"w": np.arange(1000, dtype="float32")}
    whole = fingerprint(weights)
    name = "keras_bpn.models.weights_fingerprint._PIECE"
    monkeypatch.setattr(name, 64)
    np.testing.assert_allclose(fingerprint(weights).sketches, whole.sketches)


def test_sketches_are_the_same_in_every_version():
    weight = (2.0 ** np.arange(12)).astype("float32")
    (numbers,) = fingerprint({"w": weight}).sketches
    # The sum of 4^k for k below 12 is (4^12 - 1) / 3. Each power of two stands
    # in one of the sums, with a sign.
    np.testing.assert_allclose(numbers[0], ((4**12 - 1) / 3) ** 0.5, rtol=1e-6)
    sums = [32, -1002, 1664, -1, 0, 0, 520, 0]
    assert numbers[1:].tolist() == sums


def test_weights_without_elements_and_of_other_types():
    weights = {
        "empty": np.zeros((0, 3), "float32"),
        "count": np.int32(7),
        "half": np.float16([1, 2]),
    }
    first = fingerprint(weights)
    assert first.shapes == {"empty": (0, 3), "count": (), "half": (2,)}
    assert first.distance(fingerprint(weights)) == 0
    zeros = {"w": np.zeros(3, "float32")}
    ones = {"w": np.ones(3, "float32")}
    assert fingerprint(zeros).distance(fingerprint(ones)) == np.inf
