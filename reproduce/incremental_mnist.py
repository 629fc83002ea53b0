"""Incremental MNIST: five tasks of two digits (figure 6, Table 1)."""

from reproduce import incremental
from reproduce.comparison import Comparison
from reproduce.protocols import Protocol
from reproduce.search import Budget

COMPARISON = Comparison(
    name="incremental-mnist",
    protocol=Protocol(
        dataset="mnist",
        num_tasks=5,
        epochs=5,
        batch_size=128,
        evaluate_unit="epochs",
    ),
    methods=(
        "STL",
        "BD+EWC",
        "BD+PSP",
        "GD+EWC",
        "EWC",
        "PSP",
        "GEM(10)",
        "GEM(10), one head",
        *incremental.OTHERS,
    ),
    table=incremental.table,
    draw=incremental.draw,
    budget=Budget(((12, None, 1), (3, None, 2))),
    quick={"num_tasks": 2, "epochs": 1, "train_percent": 5},
)
