"""The experiments: `python -m reproduce NAME`, one module for each."""
