import keras_bpn
from reproduce import packed_histories


class Result:
    """The runs of a method.

    Args:
        lines: Lines of a `RunFile`, one for each seed.

    Attributes:
        settings: Dictionary, what all runs were trained with.
        seconds: What all runs took together.
        seeds: List of integers.
        histories: List of `LearningHistory`.
        masked: List of averages over the tasks, after the last, of accuracies
            where all outputs but those of the task were left out.
        bias_norms: List with the `"bias_norms"` of each run.
        failed: How many runs left the range of floating point. All other
            attributes are of those that did not.
    """

    def __init__(self, lines):
        self.settings = lines[0]["run"]["settings"]
        self.seconds = sum(line["seconds"] for line in lines)
        self.failed = sum("failed" in line["result"] for line in lines)
        done = [line for line in lines if "failed" not in line["result"]]
        self.seeds = [line["run"]["seed"] for line in done]
        results = [line["result"] for line in done]
        self.histories = [packed_histories.unpack(r) for r in results]
        self.bias_norms = [r["bias_norms"] for r in results]
        masked = [r["masked"] for r in results if r["masked"]]
        self.masked = [sum(values) / len(values) for values in masked]

    def first_task(self) -> keras_bpn.evaluation.Summary:
        """Summarizes the accuracy of the first task after the last."""
        return keras_bpn.evaluation.summarize(
            [float(h.matrix.values[-1, 0]) for h in self.histories]
        )

    def average(self) -> keras_bpn.evaluation.Summary:
        """Summarizes the average accuracy after the last task."""
        return keras_bpn.evaluation.summarize(
            [h.matrix.average_accuracy() for h in self.histories]
        )

    def with_mask(self) -> keras_bpn.evaluation.Summary:
        """Summarizes the average accuracy after the last task if all outputs
        but those of the task are left out."""
        return keras_bpn.evaluation.summarize(self.masked)

    def learned(self) -> keras_bpn.evaluation.Summary:
        """Summarizes the average accuracy of tasks when they had just been
        learned."""
        return keras_bpn.evaluation.summarize(
            [h.matrix.learning_accuracy() for h in self.histories]
        )
