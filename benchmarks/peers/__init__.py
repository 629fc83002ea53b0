"""The same job in Avalanche and in plain PyTorch.

Incremental MNIST: five tasks of two classes, one head for all ten, the paper's
network 784-300x5-10, Adam at 1e-3 that starts anew with each task, batches of
128, five epochs. All sides read one file of settings, `job.json`, and one of
data, and start from weights of the same distribution, with a seed for each
round. Each job is a process of its own with the default threads of its library,
and jobs run in turn.

What counts is training time: from the first call of `fit` or `train` to the end
of the last task. It includes reading batches from memory, tracing and
compiling, where a library does that, and what a method does at the end of a
task; it leaves out the start of the process, loading the data and measuring
accuracy. No side computes metrics while it trains. Samples are all that are
trained on, five epochs of 60,000.
"""

from benchmarks.peers.comparison import QUICK
from benchmarks.peers.comparison import SETTINGS
from benchmarks.peers.comparison import run

__all__ = ["QUICK", "SETTINGS", "run"]
