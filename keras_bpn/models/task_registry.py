import difflib

NEW, OPEN, ENDED = "new", "open", "ended"


class TaskRegistry:
    """The names of a model's tasks, in order, and how far each has come.

    A task is `"new"` until it is first trained, `"open"` while it is, and
    `"ended"` once its bias units are stored. At most one task is open. Names
    are resolved and checked here, in Python: inside a compiled function a
    wrong row would be read silently.

    Attributes:
        open_task: Name of the open task, or `None`.
        classes: Dictionary from the name of a task to the tuple of its labels,
            where they are known.
    """

    def __init__(self):
        self._names = []
        self._rows = {}
        self._states = {}
        self.open_task = None
        self.classes = {}

    def __len__(self):
        return len(self._names)

    def __contains__(self, name):
        return name in self._rows

    @property
    def names(self):
        return tuple(self._names)

    def is_new(self, name):
        """Whether a task was not trained yet, or is not there at all."""
        return self._states.get(name, NEW) == NEW

    def any_started(self):
        """Whether any task was trained, to its end or not."""
        return any(state != NEW for state in self._states.values())

    def check_name(self, name):
        if not isinstance(name, str) or not name:
            raise ValueError(
                "Expected the name of a task to be a non-empty string. "
                f"Received: task={name!r}"
            )

    def row(self, name):
        """Returns the row of a task in the tables; row 0 is no task."""
        if name is None:
            return 0
        self.check_name(name)
        if name not in self._rows:
            raise ValueError(self._unknown(name))
        return self._rows[name]

    def name(self, row):
        """Returns the name of the task of a row, `None` for row 0."""
        return self._names[row - 1] if row else None

    def add(self, name):
        self.check_name(name)
        if name in self._rows:
            raise ValueError(
                "Expected the name of a task that does not exist yet. "
                f"Received: name={name!r}; tasks are {list(self.names)}"
            )
        self._names.append(name)
        self._rows[name] = len(self._names)
        self._states[name] = NEW

    def check_trainable(self, name):
        """Raises unless the task is new, unknown, or the open one."""
        self.check_name(name)
        if self._states.get(name) == ENDED:
            raise ValueError(
                "A task that has ended cannot be trained again: its bias "
                "units are stored and frozen. Train the new data as a task of "
                "its own, or leave a task open with `fit(..., "
                f"consolidate=False)`. Received: task={name!r}"
            )
        if self.open_task not in (None, name):
            raise ValueError(
                "Only one task can be open at a time. End it with "
                "`model.consolidate(x, y)` first. "
                f"Received: task={name!r}; the open task is "
                f"{self.open_task!r}"
            )

    def start(self, name):
        self.row(name)
        self.check_trainable(name)
        self._states[name] = OPEN
        self.open_task = name

    def cancel_start(self):
        """Makes the open task, if there is one, a new one again."""
        if self.open_task is not None:
            self._states[self.open_task] = NEW
            self.open_task = None

    def truncate(self, size):
        """Forgets all tasks but the first `size`."""
        for name in self._names[size:]:
            del self._rows[name], self._states[name]
            self.classes.pop(name, None)
        del self._names[size:]

    def end_open_task(self):
        if self.open_task is None:
            raise ValueError("Only an open task can be ended.")
        self._states[self.open_task] = ENDED
        self.open_task = None

    def get_state(self):
        """Returns the pairs of name and state as JSON can hold them."""
        return [[name, self._states[name]] for name in self._names]

    def set_state(self, state):
        names = [name for name, _ in state]
        states = [state for _, state in state]
        for name in names:
            self.check_name(name)
        if (
            len(set(names)) != len(names)
            or not set(states) <= {NEW, OPEN, ENDED}
            or states.count(OPEN) > 1
        ):
            raise ValueError(
                "Expected distinct names of tasks, each new, ended, or the "
                f"only open one. Received: {state}"
            )
        self._names = names
        self._rows = {name: i + 1 for i, name in enumerate(names)}
        self._states = dict(zip(names, states))
        self.classes = {
            n: c for n, c in self.classes.items() if n in self._rows
        }
        self.open_task = names[states.index(OPEN)] if OPEN in states else None

    def _unknown(self, name):
        if not self._names:
            return (
                "The model has no tasks yet: train one with `fit(x, y, "
                f"task=...)`, or add it. Received: task={name!r}"
            )
        nearest = difflib.get_close_matches(name, self.names, 1, cutoff=0.5)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        return (
            f"Expected the name of a task of the model, one of "
            f"{list(self.names)}. Received: task={name!r}.{hint}"
        )
