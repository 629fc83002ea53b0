"""Measured speed: `python -m benchmarks.NAME`."""
