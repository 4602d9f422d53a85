"""Consume queues: which record is the n-th message of a queue, and reading by them."""
