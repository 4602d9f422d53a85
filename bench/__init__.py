"""Benchmarks: open-loop load, percentiles, and the raw path each figure is a share of."""
