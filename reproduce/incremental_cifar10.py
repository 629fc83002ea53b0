"""Incremental CIFAR-10: five tasks of two classes (figure 6, Table 1)."""

from reproduce import incremental
from reproduce.comparison import Comparison
from reproduce.protocols import Protocol
from reproduce.search import Budget

COMPARISON = Comparison(
    name="incremental-cifar10",
    protocol=Protocol(
        dataset="cifar10",
        num_tasks=5,
        epochs=5,
        batch_size=32,
        evaluate_unit="epochs",
    ),
    methods=(
        "STL",
        "BD+EWC",
        "BD+PSP",
        "GD+EWC",
        "EWC",
        "PSP",
        "GEM(256)",
        "GEM(150)",
        *incremental.OTHERS,
    ),
    table=incremental.table,
    draw=incremental.draw,
    budget=Budget(((10, 2, 1), (2, None, 2))),
    # All patterns of the memories in every step would take hours.
    fixed={
        name: {"memory_batch_size": 32} for name in ("GEM(256)", "GEM(150)")
    },
    settings_of={"GEM(150)": "GEM(256)"},
    quick={"num_tasks": 2, "epochs": 1, "train_percent": 5},
)
