import dataclasses
import hashlib
import math

import numpy as np

# Sums in the sketch of a weight; a power of two of at most 128.
_SUMS = 8
_HASH_BYTES = 8
# Elements that are sketched at once, a multiple of eight.
_PIECE = 2**20
_SKETCH_SEED = 20210401


@dataclasses.dataclass(frozen=True)
class WeightsFingerprint:
    """A few numbers that tell how far sets of weights are apart.

    Of each weight there is a hash, by which equal weights are known, its norm,
    and a sketch: every element gets a sign and one of eight sums at random, the
    same ones in every process, and is added to it. With `d` the difference of
    two weights, of which only the sketches are known,

    `|d|^2 ~ sum over the eight of (difference of the sums)^2`

    The right side has the mean `|d|^2` over signs and places, because products
    of different elements cancel out, and a standard deviation of at most
    `sqrt(2 / 8) |d|^2`. So the distance of single weights is an estimate that
    is off by a quarter, and that of whole networks, which adds up the squares
    of all of their weights, a better one.

    Attributes:
        shapes: Dictionary from the path of each weight to its shape.
        hashes: Array of type uint8 and shape `(weights, 8)`.
        sketches: Array of type float32 and shape `(weights, 9)`: the norm of
            each weight, and its sketch.

    Reference:

    - [Charikar et al., 2002](https://doi.org/10.1007/3-540-45465-9_59)
    """

    shapes: dict
    hashes: np.ndarray
    sketches: np.ndarray

    @classmethod
    def of(cls, weights):
        """Returns the fingerprint of weights.

        Args:
            weights: Dictionary from a path to a function that returns an
                array, so that not all of them have to be there at once.
        """
        shapes, hashes, sketches = {}, [], []
        for path, read in weights.items():
            array = np.asarray(read())
            shapes[path] = array.shape
            hashes.append(_hash(array))
            sketches.append(_norm_and_sketch(array.reshape(-1)))
        return cls(
            shapes,
            np.array(hashes, "uint8").reshape(-1, _HASH_BYTES),
            np.array(sketches, "float32").reshape(-1, 1 + _SUMS),
        )

    @staticmethod
    def sizes(num_weights):
        """Returns the shapes of the arrays for a number of weights."""
        return (num_weights, _HASH_BYTES), (num_weights, 1 + _SUMS)

    def differing(self, other):
        """Returns the paths of the weights that are not equal to those of
        another fingerprint, of weights with the same paths."""
        places = {path: i for i, path in enumerate(other.shapes)}
        return [
            path
            for path, own in zip(self.shapes, self.hashes)
            if not np.array_equal(own, other.hashes[places[path]])
        ]

    def distance(self, other):
        """Returns an estimate of how far weights are from those of another
        fingerprint, as a fraction of the norm of these here.

        Args:
            other: `WeightsFingerprint` of weights with the same paths.
        """
        places = {path: i for i, path in enumerate(other.shapes)}
        there = other.sketches[[places[path] for path in self.shapes]]
        # Equal weights have equal sketches.
        difference = np.subtract(self.sketches, there, dtype="float64")[:, 1:]
        distance = math.sqrt(np.square(difference).sum())
        norm = math.sqrt(np.square(self.sketches[:, 0], dtype="float64").sum())
        if not distance:
            return 0.0
        return distance / norm if norm else math.inf


def _hash(array):
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    header = f"{array.dtype.name} {array.shape}".encode()
    digest = hashlib.blake2b(header, digest_size=_HASH_BYTES)
    digest.update(array.tobytes())
    return list(digest.digest())


def _norm_and_sketch(values):
    sums, square = np.zeros(_SUMS), 0.0
    # NumPy keeps the raw output of a bit generator stable.
    generator = np.random.Philox(key=np.array([_SKETCH_SEED, 0], "uint64"))
    for start in range(0, len(values), _PIECE):
        piece = values[start : start + _PIECE].astype("float64")
        words = generator.random_raw(-(-len(piece) // 8)).astype("<u8")
        # A byte for each element: the highest bit is its sign.
        codes = words.view("uint8")[: len(piece)]
        signs = 1.0 - 2.0 * (codes >> 7)
        sums += np.bincount(codes & (_SUMS - 1), signs * piece, _SUMS)
        square += float(np.square(piece).sum())
    return [math.sqrt(square), *sums]
