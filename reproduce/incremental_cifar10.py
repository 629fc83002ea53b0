"""Incremental CIFAR-10: five tasks of two classes (figure 6, Table 1)."""

from reproduce import incremental
from reproduce.comparison import Comparison
from reproduce.protocols import Protocol

COMPARISON = Comparison(
    name="incremental-cifar10",
    protocol=Protocol(
        dataset="cifar10",
        num_tasks=5,
        epochs=5,
        batch_size=64,
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
        "GEM(150), one head",
        *incremental.OTHERS,
    ),
    table=incremental.table,
    draw=incremental.draw,
    quick={"num_tasks": 2, "epochs": 1, "train_percent": 5},
)
