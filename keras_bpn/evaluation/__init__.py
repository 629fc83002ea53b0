"""What was learned and what was forgotten, over tasks and over seeds."""

from keras_bpn.evaluation.accuracy_matrix import AccuracyMatrix
from keras_bpn.evaluation.comparison import Comparison
from keras_bpn.evaluation.learning_history import LearningHistory
from keras_bpn.evaluation.statistics import compare
from keras_bpn.evaluation.statistics import summarize
from keras_bpn.evaluation.statistics import summarize_histories
from keras_bpn.evaluation.summary import Summary

__all__ = [
    "AccuracyMatrix",
    "Comparison",
    "LearningHistory",
    "Summary",
    "compare",
    "summarize",
    "summarize_histories",
]
