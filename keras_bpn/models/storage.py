"""What a mode costs on disk, counted as in the paper's supplement."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Storage:
    """What a model has to store for each task, once training is over.

    As in the paper, this counts what is needed to use the model later, not
    what is needed only while it is trained: importances, factors of the bias
    units and optimizer state are left out.

    Attributes:
        bytes_by_part: Dictionary from where the bytes are to how many there
            are per task.
        parameters: Number of parameters of the shared network.
        parameters_per_task: Number of parameters that each task adds.
    """

    bytes_by_part: dict
    parameters: int
    parameters_per_task: int

    @property
    def bytes_per_task(self):
        return sum(self.bytes_by_part.values())

    @property
    def percent_per_task(self):
        """Parameters added by a task, in percent of the shared network."""
        return 100.0 * self.parameters_per_task / self.parameters

    def __str__(self):
        lines = [
            f"{self.bytes_per_task:,} bytes per task, "
            f"{self.parameters_per_task:,} parameters "
            f"({self.percent_per_task:.2f}% of {self.parameters:,})"
        ]
        lines += [f"  {n:>10,}  {p}" for p, n in self.bytes_by_part.items()]
        return "\n".join(lines)


def measure(model):
    """Returns the `Storage` of a `BPNModel`."""
    parts, added = {}, 0
    for table in model.task_tables:
        size = table.bytes_per_task()
        if size:
            parts[table.path] = size
            added += size // np.dtype(table.table.dtype).itemsize
    if model.consolidation is not None:
        parts.update(model.consolidation.storage(model))
    task_variables = {
        id(v) for table in model.task_tables for v in table.variables
    }
    own = {id(v) for v in (model._mode, model._open_row)}
    shared = sum(
        int(np.prod(v.shape))
        for v in model.weights
        if id(v) not in task_variables | own
    )
    return Storage(parts, shared, added)
