"""Figures of what was learned, in the manner of the paper.

Each function draws on the axes that it is given, or on a new figure of
`matplotlib.pyplot`, and returns the axes. Titles, sizes and files are left to
the caller:

```python
ax = keras_bpn.plots.accuracy_over_epochs(history)
ax.set_title("BD+EWC")
ax.figure.savefig("accuracy.png")
```

Legends stand to the right of the axes. Figures of your own have room for them
with `layout="constrained"`, or are saved with `bbox_inches="tight"`.

Colours are told apart by colour-blind readers too, and nothing is told by
colour alone.
"""

from keras_bpn.plots.averages import average_accuracy
from keras_bpn.plots.epochs import accuracy_over_epochs
from keras_bpn.plots.groups import accuracy_by_group
from keras_bpn.plots.matrices import accuracy_matrix
from keras_bpn.plots.regions import decision_regions
from keras_bpn.plots.storage import storage_against_accuracy
from keras_bpn.plots.tasks import task_accuracy

__all__ = [
    "accuracy_by_group",
    "accuracy_matrix",
    "accuracy_over_epochs",
    "average_accuracy",
    "decision_regions",
    "storage_against_accuracy",
    "task_accuracy",
]
