import heapq


class TaskRows:
    """Which row of the tables each task has, and its serial number.

    A row is free again when its task is removed, so that tables do not grow
    where tasks come and go. A serial number is never given to another task:
    what is drawn at random for a task is drawn from it. Until a task is
    removed, rows and serial numbers are the same, and count the tasks from 1.
    """

    def __init__(self):
        self._rows = {}
        self._serials = {}
        self._next_serial = 1
        # The name of the task in each row from 1 on, or `None`. The last row
        # has a task.
        self._names = []
        # A heap of rows that may be free.
        self._free = []

    def row(self, name):
        return self._rows[name]

    def serial(self, name):
        return self._serials[name]

    def name(self, row):
        """Returns the name of the task of a row, `None` where there is none."""
        return self._names[row - 1] if 0 < row <= len(self._names) else None

    def add(self, name):
        """Gives a task the first row that is free, and a serial number."""
        row = self._free_row()
        self._names[row - 1] = name
        self._rows[name] = row
        self.renew_serial(name)

    def _free_row(self):
        while self._free:
            row = heapq.heappop(self._free)
            if row <= len(self._names) and self._names[row - 1] is None:
                return row
        self._names.append(None)
        return len(self._names)

    def rename(self, name, new_name):
        row = self._rows.pop(name)
        self._rows[new_name] = row
        self._serials[new_name] = self._serials.pop(name)
        self._names[row - 1] = new_name

    def remove(self, name):
        row = self._rows.pop(name)
        del self._serials[name]
        self._names[row - 1] = None
        heapq.heappush(self._free, row)
        while self._names and self._names[-1] is None:
            del self._names[-1]

    def take_back(self, name):
        """Undoes `add` for the task that was added last."""
        self._next_serial = self._serials[name]
        self.remove(name)

    def renew_serial(self, name):
        """Gives a task another serial number."""
        self._serials[name] = self._next_serial
        self._next_serial += 1

    def skip_serial(self, serial):
        """Leaves out a serial number, and those before it, from now on."""
        self._next_serial = max(self._next_serial, serial + 1)

    def get_state(self, names):
        """Returns what does not just count, as JSON can hold it.

        Args:
            names: Sequence of all names of tasks.

        Returns:
            Dictionary with some of these entries: `"rows"`, for each row the
            place of its task among the names, or `None`; `"serials"`, a number
            for each task; `"next_serial"`.
        """
        state = {}
        places = {name: place for place, name in enumerate(names)}
        rows = [places.get(name) for name in self._names]
        if rows != list(range(len(rows))):
            state["rows"] = rows
        if self._serials != self._rows:
            state["serials"] = [self._serials[name] for name in names]
        if self._next_serial != len(rows) + 1:
            state["next_serial"] = self._next_serial
        return state

    @classmethod
    def from_state(cls, names, state):
        """Returns what `get_state()` described.

        Args:
            names: Sequence of all names of tasks.
            state: Dictionary as from `get_state()`, whose rows may go on.
        """
        size = len(names)
        places = state.get("rows", list(range(size)))
        taken = [place for place in places if place is not None]
        last = max(
            (i + 1 for i, p in enumerate(places) if p is not None), default=0
        )
        numbers = [
            *state.get("serials", ()),
            state.get("next_serial", last + 1),
        ]
        if not (
            all(type(number) is int for number in [*taken, *numbers])
            and sorted(taken) == list(range(size))
            and len(numbers) in (1, size + 1)
        ):
            raise ValueError(_bad_state(size, state))
        rows = cls()
        rows._names = [p if p is None else names[p] for p in places[:last]]
        rows._rows = {
            n: i + 1 for i, n in enumerate(rows._names) if n is not None
        }
        rows._free = [i + 1 for i, n in enumerate(rows._names) if n is None]
        rows._serials = dict(zip(names, numbers[:-1])) or dict(rows._rows)
        rows._next_serial = numbers[-1]
        given = set(rows._serials.values())
        if len(given) != size or not all(0 < n < numbers[-1] for n in given):
            raise ValueError(_bad_state(size, state))
        return rows


def _bad_state(size, state):
    return (
        f"Expected a row for each of {size} tasks, and a serial number of its "
        f"own. Received: {state}"
    )
