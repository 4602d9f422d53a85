"""Benchmarks of what grows with the number of queues, topics and brokers; each is a command of its own."""
