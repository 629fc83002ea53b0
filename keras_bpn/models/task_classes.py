"""The labels of a task: what is known of them, and whether the model fits."""

from keras_bpn.models import checks


def check_task_classes(model, task, classes):
    """Checks the labels of a task against the outputs of a model.

    Args:
        model: `BPNModel`.
        task: Name of the task.
        classes: Sequence of distinct labels, or their number.

    Returns:
        The labels as a sorted tuple of integers.
    """
    classes = checks.as_classes(classes)
    if not model.task_heads:
        checks.check_classes(classes, model.outputs)
        return classes
    if classes != tuple(range(len(classes))):
        raise ValueError(
            "Expected the labels of a task with a head of its own to count "
            f"from 0. Received: task={task!r} with classes={classes}"
        )
    width = min(heads.width for heads in model.task_heads)
    if len(classes) > width and model.open_task is not None:
        raise ValueError(
            f"A head with more than {width} outputs, those of the widest "
            "so far, can be added only while no task is open. End it with "
            f"`model.consolidate(x, y)` first. Received: task={task!r} "
            f"with {len(classes)} classes; the open task is "
            f"{model.open_task!r}"
        )
    return classes


def classes_to_train(model, task, data):
    """Returns the labels of a task, or `None` where they are not known.

    Args:
        model: `BPNModel`.
        task: Name of the task, which may be a new one.
        data: `TaskData` to train it on.
    """
    known = model._registry.classes.get(task)
    found = None
    if data.in_memory and checks.is_crossentropy(model.loss):
        one_hot = checks.is_crossentropy(model.loss, sparse=False)
        found = data.classes(one_hot)
    if not found:
        if known is None and any(t.needs_classes for t in model.task_tables):
            raise ValueError(
                "Expected the classes of the task to be known before it is "
                "trained. Add it with `model.add_task(name, classes=...)` "
                f"first. Received: task={task!r} without labels in memory"
            )
        return known
    if model.task_heads:
        found = tuple(range(found[-1] + 1))
    if known is None:
        return check_task_classes(model, task, found)
    outside = sorted(set(found) - set(known))
    # A task with one head for all may see further labels as it goes on.
    is_new = task != model.open_task
    if outside and (model.task_heads or is_new):
        raise ValueError(
            f"Expected labels among the classes of the task, {known}. "
            f"Received: task={task!r} with labels {outside}"
        )
    return tuple(sorted({*known, *found}))
