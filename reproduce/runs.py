"""One training of a network on all tasks, as data that files can hold."""

import dataclasses

import keras
import numpy as np

import keras_bpn
from reproduce import packed_histories
from reproduce.contenders import Contender
from reproduce.networks import make_model
from reproduce.protocols import Protocol

# Far below every score.
_MASKED = -1e9


@dataclasses.dataclass(frozen=True)
class Run:
    """A method, its settings and a seed.

    Args:
        contender: `Contender`.
        protocol: `Protocol`.
        settings: Dictionary, as `reproduce.networks.make_model` takes it.
        seed: Integer that sets the weights, the orders and the permutations.
        held_out: Whether to evaluate on training data that is held out, once,
            after the last task; not on test data.
        num_tasks: How many of the tasks to learn, or `None` for all.
    """

    contender: Contender
    protocol: Protocol
    settings: dict
    seed: int
    held_out: bool = False
    num_tasks: int | None = None

    def key(self) -> dict:
        """Returns what the result depends on, as JSON can hold it."""
        return dataclasses.asdict(self)

    def title(self) -> str:
        """Returns what a progress line calls it."""
        tasks = f", {self.num_tasks} tasks" if self.num_tasks else ""
        settings = ", ".join(f"{k} {v}" for k, v in self.settings.items())
        return f"{self.contender.name}{tasks}, seed {self.seed} ({settings})"

    def execute(self) -> dict:
        """Trains, and returns what JSON can hold.

        That is a packed history, and with it

        - `"masked"`: the accuracies of the tasks after the last one if all
          outputs but those of the task's classes are left out; `None` where
          that changes nothing;
        - `"bias_norms"`: for every layer with bias units, the norm of its rows,
          averaged over the tasks.

        If numbers left the range of floating point, it is the message of the
        error, in `"failed"`.
        """
        try:
            model, scenario, history = self.train()
        except ValueError as error:
            if "Expected finite gradients" not in str(error):
                raise
            return {"failed": str(error)}
        masked = None
        if not (self.protocol.permuted or self.contender.own_heads):
            masked = [masked_accuracy(model, task) for task in scenario]
        return {
            **packed_histories.pack(history),
            "masked": masked,
            "bias_norms": bias_norms(model),
        }

    def train(self):
        """Returns the trained model, the tasks and the history."""
        # Names of layers are counted within a process.
        keras.backend.clear_session()
        keras.utils.set_random_seed(self.seed)
        scenario = self.protocol.scenario(
            self.held_out,
            self.seed,
            self.contender.own_heads,
            self.num_tasks,
        )
        settings = {**self.settings, **self.contender.fixed}
        shape = scenario[0].examples("train").shape
        model = make_model(self.contender, self.protocol, settings, shape)
        every, unit = self.protocol.evaluate_every, self.protocol.evaluate_unit
        if self.held_out:
            every, unit = len(scenario), "tasks"
        history = keras_bpn.learn(
            model,
            scenario,
            epochs=self.protocol.epochs,
            evaluate_every=every,
            evaluate_unit=unit,
            verbose=0,
        )
        return model, scenario, history


def masked_accuracy(model, task) -> float:
    """Returns the accuracy on a task where all outputs but those of its
    classes are left out."""
    x, y = task.examples("test").arrays()
    x = x.reshape((len(x), -1))
    outputs = np.asarray(model(x, task=task.name))
    masked = np.full_like(outputs, _MASKED)
    classes = list(task.classes)
    masked[:, classes] = outputs[:, classes]
    return round(float(np.mean(masked.argmax(axis=-1) == y)), 6)


def bias_norms(model) -> list[float]:
    """Returns the average norm of the rows of each layer's bias units."""
    norms = []
    for bias in getattr(model, "task_biases", ()):
        if bias.active:
            rows = np.asarray(bias.table)[1 : 1 + len(model.tasks)]
            norms.append(float(np.linalg.norm(rows, axis=1).mean()))
    return [float(f"{norm:.4g}") for norm in norms]
