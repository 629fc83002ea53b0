"""All experiments by name, in the order of the page of results."""

from reproduce import ablation
from reproduce import clusters
from reproduce import digits
from reproduce import hyperparameters
from reproduce import incremental_cifar10
from reproduce import incremental_cifar100
from reproduce import incremental_mnist
from reproduce import permuted_mnist
from reproduce import storage

EXPERIMENTS = {
    "digits": digits,
    "clusters": clusters,
    "incremental-mnist": incremental_mnist,
    "incremental-cifar10": incremental_cifar10,
    "incremental-cifar100": incremental_cifar100,
    "permuted-mnist": permuted_mnist,
    # With settings that incremental-mnist has found.
    "hyperparameters": hyperparameters,
    "ablation": ablation,
    "storage": storage,
}
