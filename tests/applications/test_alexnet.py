import hashlib

import keras
import numpy as np
import pytest

from keras_bpn.applications import AlexNet
from keras_bpn.applications import alexnet
from keras_bpn.applications import alexnet_weights
from keras_bpn.applications.alexnet_weights import load_torch_weights
from tests.applications.torch_writer import write

# The layers of torchvision's AlexNet with weights, in its layout.
SHAPES = {
    "features.0": (64, 3, 11, 11),
    "features.3": (192, 64, 5, 5),
    "features.6": (384, 192, 3, 3),
    "features.8": (256, 384, 3, 3),
    "features.10": (256, 256, 3, 3),
    "classifier.1": (4096, 9216),
    "classifier.4": (4096, 4096),
    "classifier.6": (1000, 4096),
}


def random_weights(names=SHAPES):
    """Returns weights under which activations keep their size."""
    generator = np.random.default_rng(0)
    weights = {}
    for name in names:
        shape = SHAPES[name]
        scale = np.sqrt(2 / np.prod(shape[1:]))
        kernel = generator.standard_normal(shape, "float32")
        weights[f"{name}.weight"] = kernel * np.float32(scale)
        bias = generator.standard_normal(shape[0], "float32")
        weights[f"{name}.bias"] = np.float32(0.1) * bias
    return weights


def reference(x, weights):
    """Yields the activations of torchvision's AlexNet, one image at a time,
    channels first, worked out with NumPy."""

    def convolve(x, name, stride, padding):
        kernel = weights[f"{name}.weight"]
        size = kernel.shape[-1]
        x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(
            x, (size, size), (1, 2)
        )[:, ::stride, ::stride]
        x = np.einsum("ihwab,oiab->ohw", windows, kernel, optimize=True)
        x += weights[f"{name}.bias"][:, None, None]
        return np.maximum(x, 0)

    def pool(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
        return windows[:, ::2, ::2].max((-1, -2))

    x = pool(convolve(x, "features.0", 4, 2))
    yield "pool1", x
    x = pool(convolve(x, "features.3", 1, 2))
    yield "pool2", x
    x = convolve(x, "features.6", 1, 1)
    yield "conv3", x
    x = convolve(x, "features.8", 1, 1)
    yield "conv4", x
    x = pool(convolve(x, "features.10", 1, 1))
    yield "pool5", x
    x = x.reshape(-1)
    for layer, name in (("fc6", "classifier.1"), ("fc7", "classifier.4")):
        x = weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]
        x = np.maximum(x, 0)
        yield layer, x
    name = "classifier.6"
    yield (
        "predictions",
        weights[f"{name}.weight"] @ x + weights[f"{name}.bias"],
    )


def outputs_of_layers(model, names, image):
    outputs = [model.get_layer(name).output for name in names]
    return keras.Model(model.inputs, outputs).predict(image[None], verbose=0)


@pytest.fixture(scope="module")
def converted():
    """The whole network with weights in the layout of torchvision."""
    weights = random_weights()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alexnet_weights, "read_tensors", lambda path: weights)
        model = AlexNet(weights=None, classifier_activation=None)
        load_torch_weights(model, "somewhere.pth")
    return model, weights


def test_sizes():
    model = AlexNet(weights=None)
    assert model.name == "alexnet"
    assert model.count_params() == 61_100_840
    assert model.output_shape == (None, 1000)


def test_layers_are_those_of_the_reference(converted):
    model, weights = converted
    image = np.random.default_rng(1).random((224, 224, 3), "float32")
    expected = dict(reference(image.transpose(2, 0, 1), weights))
    outputs = outputs_of_layers(model, expected, image)
    for (name, value), output in zip(expected.items(), outputs):
        if value.ndim == 3:
            value = value.transpose(1, 2, 0)
        assert np.std(value) > 0.1
        np.testing.assert_allclose(output[0], value, atol=1e-4, err_msg=name)


def test_pytorch_gives_the_same(converted):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    model, weights = converted
    relu, pool = nn.ReLU(), nn.MaxPool2d(3, 2)
    network = nn.ModuleDict(
        {
            "features": nn.Sequential(
                *(nn.Conv2d(3, 64, 11, 4, 2), relu, pool),
                *(nn.Conv2d(64, 192, 5, 1, 2), relu, pool),
                *(nn.Conv2d(192, 384, 3, 1, 1), relu),
                *(nn.Conv2d(384, 256, 3, 1, 1), relu),
                *(nn.Conv2d(256, 256, 3, 1, 1), relu, pool),
            ),
            "classifier": nn.Sequential(
                *(nn.Dropout(), nn.Linear(9216, 4096), relu),
                *(nn.Dropout(), nn.Linear(4096, 4096), relu),
                nn.Linear(4096, 1000),
            ),
        }
    ).eval()
    tensors = {name: torch.from_numpy(w) for name, w in weights.items()}
    network.load_state_dict(tensors)
    image = np.random.default_rng(1).random((2, 224, 224, 3), "float32")
    with torch.no_grad():
        x = torch.from_numpy(image.transpose(0, 3, 1, 2).copy())
        x = network["features"](x).flatten(1)
        expected = network["classifier"](x).numpy()
    outputs = model.predict(image, verbose=0)
    np.testing.assert_allclose(outputs, expected, atol=1e-4)


def features(**kwargs):
    return AlexNet(include_top=False, **kwargs)


def test_files_of_weights(tmp_path):
    names = [name for name in SHAPES if name.startswith("features")]
    weights = random_weights(names)
    path = tmp_path / "alexnet.pth"
    write(path, weights)
    model = features(weights=str(path), input_shape=(63, 63, 3))
    kernel = model.get_layer("conv2").kernel
    np.testing.assert_array_equal(
        kernel, weights["features.3.weight"].transpose(2, 3, 1, 0)
    )
    model.save_weights(tmp_path / "alexnet.weights.h5")
    again = features(weights=str(tmp_path / "alexnet.weights.h5"))
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_files_that_do_not_fit_change_nothing(tmp_path):
    names = [name for name in SHAPES if name.startswith("features")]
    weights = random_weights(names)
    model = features(weights=None, input_shape=(63, 63, 3))
    before = model.get_weights()
    path = tmp_path / "alexnet.pth"
    for change, match in (
        ({"features.10.weight": np.zeros((3, 3), "float32")}, "'conv5'"),
        ({"features.10.bias": np.zeros(3, "float32")}, "'conv5'"),
        ({"features.10.bias": None}, "torchvision's AlexNet"),
    ):
        changed = {**weights, **change}
        write(path, {k: v for k, v in changed.items() if v is not None})
        with pytest.raises(ValueError, match=match):
            load_torch_weights(model, path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="that `torch.save` wrote"):
        load_torch_weights(model, path)
    for a, b in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_download_with_another_hash_is_removed(tmp_path, monkeypatch):
    path = tmp_path / "alexnet.pth"
    monkeypatch.setattr(keras.utils, "get_file", lambda *a, **k: str(path))
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="begins with 7be5be79"):
        AlexNet()
    assert not path.exists()
    write(path, random_weights([n for n in SHAPES if n.startswith("feat")]))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(alexnet_weights, "_SHA256_PREFIX", digest[:8])
    assert features().name == "alexnet"


@pytest.mark.parametrize("pooling", ["avg", "max"])
def test_pooled_features(pooling):
    model = features(weights=None, pooling=pooling, input_shape=(80, 70, 3))
    assert model.output_shape == (None, 256)


def test_a_tensor_to_begin_with():
    inputs = keras.Input((96, 96, 3))
    model = features(weights=None, input_tensor=keras.layers.Identity()(inputs))
    assert model.input is inputs or model.inputs[0] is inputs
    assert model.name == "alexnet"


def test_preprocessing():
    x = np.full((1, 2, 2, 3), 255.0, "float32")
    # (1 - mean) / standard deviation, of red, green and blue.
    expected = [(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    np.testing.assert_allclose(
        alexnet.preprocess_input(x)[0, 0, 0], expected, rtol=1e-5
    )


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"input_shape": (224, 224, 1)}, "three color channels"),
        ({"input_shape": (224, 224)}, "three color channels"),
        ({"input_shape": (62, 224, 3)}, "at least 63"),
        ({"input_shape": (None, None, 3)}, "at least 63"),
        ({"weights": "nowhere.pth"}, "path of a file"),
        ({"pooling": "min"}, "'avg' or 'max'"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        AlexNet(**{"weights": None, "include_top": False, **arguments})


def test_bad_arguments_of_the_top(tmp_path):
    path = tmp_path / "x.pth"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="`classes` to be 1000"):
        AlexNet(classes=10)
    with pytest.raises(ValueError, match="None or 'softmax'"):
        AlexNet(weights=str(path), classifier_activation="relu")
    with pytest.raises(ValueError, match="from 223 to 254"):
        AlexNet(weights=str(path), input_shape=(222, 222, 3))
