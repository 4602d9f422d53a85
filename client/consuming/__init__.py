"""The common parts of both consumers: assignment, positions, prefetching, commits."""
