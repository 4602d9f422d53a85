"""Consume queues, which say where the record of the n-th message of a queue is, and reading through them."""
