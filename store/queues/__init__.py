"""Consume queues: they name the record of the n-th message of a queue; and reading by them."""
