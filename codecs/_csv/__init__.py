"""The kernels of `csv`."""
