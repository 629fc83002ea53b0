"""The job in plain PyTorch, with loops of one's own.

Batches are cut from a shuffled tensor, which is the fastest way for data in
memory. The importances of EWC are those of Avalanche, squared gradients of
batches; the springs of all tasks are summed up into one. The program of GEM is
solved by `quadprog`, as in the code of its authors.
"""

import common
import numpy as np
import quadprog
import torch
from torch.nn.functional import cross_entropy


class EWC:
    """`strength * sum(F * (theta - theta_k) ** 2)`, over the tasks k.

    A sum of springs is one spring: with `F` the sum of the importances and `c`
    that of `F_k * theta_k`, the gradient of all is `2 * strength *
    (F * theta - c)`.
    """

    def __init__(self, network, job):
        self.network, self.job = network, job
        self.importances = [torch.zeros_like(p) for p in network.parameters()]
        self.pulls = [torch.zeros_like(p) for p in network.parameters()]

    def adjust_gradients(self):
        factor = 2 * self.job["ewc_strength"]
        parameters = self.network.parameters()
        for p, f, c in zip(parameters, self.importances, self.pulls):
            p.grad += factor * (f * p.detach() - c)

    def end_task(self, x, y):
        parameters = list(self.network.parameters())
        importances = [torch.zeros_like(p) for p in parameters]
        size = self.job["batch_size"]
        batches = list(zip(x.split(size), y.split(size)))
        for x_batch, y_batch in batches:
            loss = cross_entropy(self.network(x_batch), y_batch)
            for f, g in zip(importances, torch.autograd.grad(loss, parameters)):
                f += g**2 / len(batches)
        for p, f, total, c in zip(
            parameters, importances, self.importances, self.pulls
        ):
            total += f
            c += f * p.detach()


class GEM:
    """Turns gradients that would raise the loss on an earlier task."""

    def __init__(self, network, job):
        self.network, self.job = network, job
        self.memories = []

    def adjust_gradients(self):
        if not self.memories:
            return
        parameters = list(self.network.parameters())
        memories = torch.stack(
            [
                flat(
                    torch.autograd.grad(
                        cross_entropy(self.network(x), y), parameters
                    )
                )
                for x, y in self.memories
            ]
        )
        gradient = flat([p.grad for p in parameters])
        if (memories @ gradient >= 0).all():
            return
        gradient += self.solve(memories.double(), gradient.double()).float()
        start = 0
        for p in parameters:
            p.grad = gradient[start : start + p.numel()].view_as(p)
            start += p.numel()

    def solve(self, memories, gradient):
        """Returns what is added to the gradient."""
        count = len(memories)
        products = (memories @ memories.T).numpy() + 1e-3 * np.eye(count)
        overlaps = (memories @ gradient).numpy()
        bound = np.full(count, self.job["gem_memory_strength"])
        v = quadprog.solve_qp(products, -overlaps, np.eye(count), bound)[0]
        return memories.T @ torch.from_numpy(v)

    def end_task(self, x, y):
        chosen = torch.randperm(len(x))[: self.job["gem_patterns_per_task"]]
        self.memories.append((x[chosen], y[chosen]))


def flat(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def learn(name, job, tasks):
    """Trains all tasks; returns the network and the seconds of each task."""
    network = common.make_network(job)
    method = {"EWC": EWC, "GEM": GEM}.get(name)
    if method is not None:
        method = method(network, job)
    seconds = []
    for task in tasks:
        stopwatch = common.Stopwatch()
        train(network, method, job, task["x_train"], task["y_train"])
        train_seconds = stopwatch.read()
        if method is not None:
            method.end_task(task["x_train"], task["y_train"])
        seconds.append((train_seconds, stopwatch.read()))
    return network, seconds


def train(network, method, job, x, y):
    """Trains a task, with an optimizer of its own."""
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=job["learning_rate"])
    for _ in range(job["epochs"]):
        for batch in torch.randperm(len(x)).split(job["batch_size"]):
            optimizer.zero_grad()
            cross_entropy(network(x[batch]), y[batch]).backward()
            if method is not None:
                method.adjust_gradients()
            optimizer.step()


if __name__ == "__main__":
    common.main(learn, {"torch": torch.__version__})
