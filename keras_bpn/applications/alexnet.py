"""AlexNet, and how its inputs and outputs are to be read."""

import os

import keras
from keras import layers
from keras.applications import imagenet_utils

from keras_bpn.applications.alexnet_weights import download_weights
from keras_bpn.applications.alexnet_weights import load_torch_weights

# By block: filters, size of the kernel, strides, and what is added around.
_CONVOLUTIONS = ((64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1))
_CONVOLUTIONS += ((256, 3, 1, 1),)
_POOLED = (1, 2, 5)
# The least height and width that leave a pixel at the end.
_MIN_SIZE = 63
# What the fully connected layers of the ImageNet weights take.
_FEATURE_SHAPE = (6, 6, 256)


def AlexNet(
    include_top=True,
    weights="imagenet",
    input_tensor=None,
    input_shape=None,
    pooling=None,
    classes=1000,
    classifier_activation="softmax",
    name="alexnet",
):
    """Instantiates the AlexNet architecture.

    This is the variant of "one weird trick", with one column of layers and
    without local response normalization: the one that ImageNet weights are
    shared of. It has 61.1 million parameters.

    Inputs are to be prepared with `keras_bpn.applications.alexnet.
    preprocess_input`, which expects RGB images with values from 0 to 255.

    Args:
        include_top: Whether to include the three fully-connected layers at the
            top of the network.
        weights: `None` for random initialization; `"imagenet"`, which downloads
            the weights of torchvision once and converts them; or the path of a
            file, either what `model.save_weights()` wrote or one of
            torchvision's (`.pth`), in which nothing is executed.
        input_tensor: Optional Keras tensor to use as image input of the model.
        input_shape: Optional shape tuple, `(224, 224, 3)` by default. Height
            and width have to be at least 63, and with `include_top` and given
            weights such that the features are 6 x 6, from 223 to 254.
        pooling: Pooling of the features where `include_top` is `False`: `None`
            for a 4D tensor, `"avg"` or `"max"`.
        classes: Number of classes, where `include_top` is `True` and no
            weights are given.
        classifier_activation: The activation of the last layer. `None` gives
            the logits. With given weights, `None` or `"softmax"`.
        name: The name of the model.

    Returns:
        A `keras.Model`.

    Reference:

    - [Krizhevsky, 2014](https://arxiv.org/abs/1404.5997)
    """
    is_file = _check_weights(weights)
    if weights == "imagenet" and include_top and classes != 1000:
        raise ValueError(
            'Expected `classes` to be 1000 for weights="imagenet" with '
            f"`include_top=True`. Received: classes={classes}"
        )
    if pooling not in (None, "avg", "max"):
        raise ValueError(
            "Expected `pooling` to be None, 'avg' or 'max'. "
            f"Received: pooling={pooling!r}"
        )
    activation = keras.activations.get(classifier_activation)
    known = (keras.activations.linear, keras.activations.softmax)
    if include_top and weights is not None and activation not in known:
        raise ValueError(
            "Expected `classifier_activation` to be None or 'softmax' where "
            "weights are given. "
            f"Received: classifier_activation={classifier_activation!r}"
        )
    image = _image_input(input_tensor, input_shape)
    x = _features(image)
    if include_top:
        if weights is not None and tuple(x.shape[1:]) != _FEATURE_SHAPE:
            raise ValueError(
                "Expected images whose features are 6 x 6, with a height and "
                "width from 223 to 254, because the fully-connected layers of "
                "the weights take no others. "
                f"Received: input_shape={tuple(image.shape[1:])}"
            )
        x = _classifier(x, classes, activation)
    elif pooling == "avg":
        x = layers.GlobalAveragePooling2D()(x)
    elif pooling == "max":
        x = layers.GlobalMaxPooling2D()(x)
    inputs = image
    if input_tensor is not None:
        inputs = keras.utils.get_source_inputs(input_tensor)
    model = keras.Model(inputs, x, name=name)
    if weights == "imagenet":
        load_torch_weights(model, download_weights())
    elif is_file and str(weights).endswith(".pth"):
        load_torch_weights(model, weights)
    elif is_file:
        model.load_weights(weights)
    return model


def preprocess_input(x, data_format=None):
    """Prepares images for `AlexNet`.

    Args:
        x: Array or tensor of RGB images with values from 0 to 255. An array of
            floating point numbers is changed in place.
        data_format: As in `keras.applications`.

    Returns:
        The images scaled to values from 0 to 1, less the mean of ImageNet and
        divided by its standard deviation, by channel.
    """
    return imagenet_utils.preprocess_input(
        x, data_format=data_format, mode="torch"
    )


def decode_predictions(preds, top=5):
    """Returns the most probable classes of ImageNet, as
    `keras.applications.imagenet_utils.decode_predictions` does.

    Args:
        preds: Array of shape `(examples, 1000)`, the outputs of the model.
        top: Integer, how many classes to return.

    Returns:
        A list for each example with tuples of the WordNet name, the name and
        the score of a class.
    """
    return imagenet_utils.decode_predictions(preds, top=top)


def _check_weights(weights):
    """Returns whether the weights are a file, which has to be there."""
    if weights is None or weights == "imagenet":
        return False
    if not os.path.isfile(weights):
        raise ValueError(
            "Expected `weights` to be None, 'imagenet' or the path of a file. "
            f"Received: weights={weights!r}"
        )
    return True


def _image_input(input_tensor, input_shape):
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            "`AlexNet` needs the image data format 'channels_last'. "
            f"Received: {keras.config.image_data_format()!r}"
        )
    if input_tensor is not None:
        input_shape = tuple(input_tensor.shape[1:])
    input_shape = tuple(input_shape or (224, 224, 3))
    if len(input_shape) != 3 or input_shape[-1] != 3:
        raise ValueError(
            "Expected images with three color channels, in the shape (height, "
            "width, 3). Grey images can be given three equal channels. "
            f"Received: input_shape={input_shape}"
        )
    if any(size is None or size < _MIN_SIZE for size in input_shape[:2]):
        raise ValueError(
            f"Expected a height and width of at least {_MIN_SIZE}. "
            f"Received: input_shape={input_shape}"
        )
    if input_tensor is None:
        return keras.Input(input_shape)
    if not keras.utils.is_keras_tensor(input_tensor):
        return keras.Input(tensor=input_tensor)
    return input_tensor


def _features(x):
    for i, (filters, size, strides, padding) in enumerate(_CONVOLUTIONS, 1):
        # Of its own, because with strides "same" would pad other sides.
        x = layers.ZeroPadding2D(padding, name=f"conv{i}_pad")(x)
        x = layers.Conv2D(
            filters, size, strides, activation="relu", name=f"conv{i}"
        )(x)
        if i in _POOLED:
            x = layers.MaxPooling2D(3, 2, name=f"pool{i}")(x)
    return x


def _classifier(x, classes, activation):
    x = layers.Flatten(name="flatten")(x)
    for name in ("fc6", "fc7"):
        x = layers.Dropout(0.5, name=f"{name}_dropout")(x)
        x = layers.Dense(4096, activation="relu", name=name)(x)
    return layers.Dense(classes, activation=activation, name="predictions")(x)
