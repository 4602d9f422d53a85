"""Benchmarks: open-loop load, percentiles, and the raw path as the limit of each figure."""
