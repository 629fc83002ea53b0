import re

# Taken by TensorFlow, or by the attributes that a loaded SavedModel has.
_RESERVED = ("serve", "serving_default", "signatures", "variables")
_LONGEST = 60


def signature_names(tasks):
    """Returns a name for the signature of each task.

    A signature has to be named as a Python variable would be. What is not
    allowed becomes an underscore, and what is the same afterwards is numbered.

    Args:
        tasks: Sequence of names.

    Returns:
        Dictionary from tasks to names of signatures.

    Example:

    >>> signature_names(["birds", "0/1", "0-1"])
    {'birds': 'birds', '0/1': 'task_0_1', '0-1': 'task_0_1_2'}
    """
    taken, names = set(), {}
    for task in tasks:
        first = name = _valid(task)
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{first}_{number}"
        # Some tools tell upper and lower case apart and some do not.
        taken.add(name.lower())
        names[task] = name
    return names


def _valid(task):
    name = re.sub(r"[^A-Za-z0-9_]+", "_", task)[:_LONGEST].strip("_")
    if not re.match("[A-Za-z]", name):
        name = f"task_{name}".rstrip("_")
    if name.lower() in _RESERVED or name.endswith("variables"):
        name = f"task_{name}"
    return name
