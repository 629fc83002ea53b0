"""Measured speed: `python -m benchmarks --help`."""

import os

# Before a benchmark imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
