"""Incremental CIFAR-100: ten tasks of two classes, of its first twenty."""

from reproduce import incremental
from reproduce.comparison import Comparison
from reproduce.protocols import Protocol
from reproduce.search import Budget

COMPARISON = Comparison(
    name="incremental-cifar100",
    protocol=Protocol(
        dataset="cifar100",
        num_tasks=10,
        outputs=20,
        epochs=20,
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
        "GEM(209)",
        "GEM(10)",
        *incremental.OTHERS,
    ),
    table=incremental.table,
    draw=incremental.draw,
    budget=Budget(((10, 3, 1), (2, None, 2))),
    # All patterns of nine memories in every step would take hours.
    fixed={
        name: {"memory_batch_size": 32}
        for name in ("GEM(256)", "GEM(209)", "GEM(10)")
    },
    settings_of={"GEM(209)": "GEM(256)", "GEM(10)": "GEM(256)"},
    quick={"num_tasks": 2, "epochs": 1},
)
