import dataclasses
import datetime
import difflib

from keras_bpn.models.task_rows import TaskRows

NEW, OPEN, ENDED = "new", "open", "ended"


@dataclasses.dataclass
class _Task:
    state: str = NEW
    trained: str | None = None
    accuracy: float | None = None


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
        self._tasks = {}
        self._rows = TaskRows()
        self.open_task = None
        self.classes = {}

    def __len__(self):
        return len(self._tasks)

    def __contains__(self, name):
        return name in self._tasks

    @property
    def names(self):
        return tuple(self._tasks)

    def state(self, name):
        """Returns how far a task has come, one that is not there too."""
        return self._tasks[name].state if name in self._tasks else NEW

    def is_new(self, name):
        """Whether a task was not trained yet, or is not there at all."""
        return self.state(name) == NEW

    def any_started(self):
        """Whether any task was trained, to its end or not."""
        return any(task.state != NEW for task in self._tasks.values())

    def trained(self, name):
        """Returns the time at which a task ended, in UTC as in ISO 8601, or
        `None`."""
        return self._tasks[name].trained

    def accuracy(self, name):
        """Returns the accuracy of a task that was measured last, or `None`."""
        return self._tasks[name].accuracy

    def set_accuracy(self, name, accuracy):
        self._tasks[name].accuracy = accuracy

    def check_name(self, name):
        if not isinstance(name, str) or not name:
            raise ValueError(
                "Expected the name of a task to be a non-empty string. "
                f"Received: task={name!r}"
            )

    def check_new_name(self, name):
        """Raises unless a task could be given that name."""
        self.check_name(name)
        if name in self._tasks:
            raise ValueError(
                "Expected the name of a task that does not exist yet. "
                f"Received: name={name!r}; tasks are {list(self.names)}"
            )

    def check_not_open(self, name):
        """Raises unless a task is there and is not open."""
        self.check_name(name)
        self.row(name)
        if self.state(name) == OPEN:
            raise ValueError(
                "Expected a task that is not open. End it with "
                f"`model.consolidate(x, y)` first. Received: task={name!r}, "
                "which is open"
            )

    def check_ended(self, name):
        """Raises unless a task is there and has ended."""
        self.check_not_open(name)
        if self.state(name) == NEW:
            raise ValueError(
                "Expected a task that has ended. Train it with `fit(x, y, "
                f"task=...)` first. Received: task={name!r}, which is new"
            )

    # Rows and serial numbers.

    def row(self, name):
        """Returns the row of a task in the tables; row 0 is no task."""
        if name is None:
            return 0
        self.check_name(name)
        if name not in self._tasks:
            raise ValueError(self._unknown(name))
        return self._rows.row(name)

    def name(self, row):
        """Returns the name of the task of a row, `None` where there is none."""
        return self._rows.name(row)

    def serial(self, name):
        """Returns the number of a task, which no other one ever gets; see
        `TaskRows`."""
        return self._rows.serial(name)

    def renew_serial(self, name):
        """Gives a new task another serial number."""
        self._rows.renew_serial(name)

    def skip_serial(self, serial):
        """Leaves out a serial number, and those before it, from now on."""
        self._rows.skip_serial(serial)

    # Tasks come and go.

    def add(self, name):
        self.check_new_name(name)
        self._rows.add(name)
        self._tasks[name] = _Task()

    def rename(self, name, new_name):
        self.row(name)
        self.check_new_name(new_name)
        self._rows.rename(name, new_name)
        self._tasks = _renamed(self._tasks, name, new_name)
        self.classes = _renamed(self.classes, name, new_name)
        if self.open_task == name:
            self.open_task = new_name

    def remove(self, name):
        """Forgets a task, which is not open. Its row is free."""
        self._rows.remove(name)
        self._forget(name)

    def truncate(self, size):
        """Takes back the last tasks that were added, but for `size` tasks."""
        for name in reversed(self.names[size:]):
            self._rows.take_back(name)
            self._forget(name)

    def _forget(self, name):
        del self._tasks[name]
        self.classes.pop(name, None)

    def check_trainable(self, name):
        """Raises unless the task is new, unknown, or the open one."""
        self.check_name(name)
        if self.state(name) == ENDED:
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
        self._tasks[name].state = OPEN
        self.open_task = name

    def cancel_start(self):
        """Makes the open task, if there is one, a new one again."""
        if self.open_task is not None:
            self._tasks[self.open_task].state = NEW
            self.open_task = None

    def end_open_task(self):
        if self.open_task is None:
            raise ValueError("Only an open task can be ended.")
        now = datetime.datetime.now(datetime.timezone.utc)
        self.end(self.open_task, now.isoformat(timespec="seconds"))
        self.open_task = None

    def end(self, name, trained=None, accuracy=None):
        """Makes a task one that has ended.

        Args:
            name: Name of the task.
            trained: When it was trained, in UTC as in ISO 8601, or `None`.
            accuracy: The accuracy that was measured since, or `None`.
        """
        task = self._tasks[name]
        task.state, task.trained, task.accuracy = ENDED, trained, accuracy

    # What is saved.

    def get_state(self):
        """Returns the pairs of name and state as JSON can hold them."""
        return [[name, task.state] for name, task in self._tasks.items()]

    def get_rows(self):
        """Returns rows and serial numbers as `TaskRows.get_state()` does."""
        return self._rows.get_state(self.names)

    def get_records(self):
        """Returns when tasks were trained and their accuracies, for JSON."""
        return {
            field: {
                name: getattr(task, field)
                for name, task in self._tasks.items()
                if getattr(task, field) is not None
            }
            for field in ("trained", "accuracy")
        }

    def set_state(self, state, rows=None, records=None):
        """Restores what `get_state()` and the others returned.

        Args:
            state: List of pairs of name and state.
            rows: As from `get_rows()`.
            records: As from `get_records()`.
        """
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
        rows = TaskRows.from_state(names, rows or {})
        tasks = {name: _Task(state) for name, state in state}
        _read_records(tasks, records or {})
        self._rows, self._tasks = rows, tasks
        self.classes = {n: c for n, c in self.classes.items() if n in tasks}
        self.open_task = names[states.index(OPEN)] if OPEN in states else None

    def _unknown(self, name):
        if not self._tasks:
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


def _renamed(entries, name, new_name):
    """Returns a dictionary with one key replaced, in the same order."""
    return {new_name if n == name else n: v for n, v in entries.items()}


def _read_records(tasks, records):
    for name, task in tasks.items():
        task.trained = records.get("trained", {}).get(name)
        if task.trained is not None:
            datetime.datetime.fromisoformat(task.trained)
        task.accuracy = records.get("accuracy", {}).get(name)
