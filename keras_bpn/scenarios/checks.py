"""Checks of arguments that scenarios share."""

import numbers


def check_count(name, value, minimum=1):
    """Checks for an integer of at least `minimum`."""
    if (
        not isinstance(value, numbers.Integral)
        or isinstance(value, bool)
        or value < minimum
    ):
        raise ValueError(
            f"Expected `{name}` to be an integer of at least {minimum}. "
            f"Received: {name}={value!r}"
        )
    return int(value)


def check_seed(seed):
    """Checks for an integer that random generators take as a seed."""
    seed = check_count("seed", seed, minimum=0)
    if seed >= 2**63:
        raise ValueError(
            f"Expected `seed` to be below 2**63. Received: seed={seed!r}"
        )
    return seed


def check_fraction(name, value, allow_zero=False):
    """Checks for a number between 0 and 1."""
    valid = isinstance(value, numbers.Real) and not isinstance(value, bool)
    valid = valid and (0 < value < 1 or (allow_zero and value == 0))
    if not valid:
        lower = "at least 0" if allow_zero else "above 0"
        raise ValueError(
            f"Expected `{name}` to be a fraction, {lower} and below 1. "
            f"Received: {name}={value!r}"
        )
    return float(value)


def check_image_size(image_size):
    """Checks for a height and a width, or `None`."""
    if image_size is None:
        return None
    try:
        height, width = image_size
        return check_count("height", height), check_count("width", width)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Expected `image_size` to be a pair of positive integers, height "
            f"and width. Received: image_size={image_size!r}"
        ) from error


def check_options(
    seed, batch_size, validation_split, test_split, image_size, memory_limit
) -> dict:
    """Returns the arguments that scenarios share, checked."""
    return {
        "seed": check_seed(seed),
        "batch_size": check_count("batch_size", batch_size),
        "validation_split": check_fraction(
            "validation_split", validation_split, allow_zero=True
        ),
        "test_split": check_fraction("test_split", test_split),
        "image_size": check_image_size(image_size),
        "memory_limit": memory_limit
        if memory_limit is None
        else check_count("memory_limit", memory_limit, minimum=0),
    }
