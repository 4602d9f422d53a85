"""Queues of batches: one record of the log holds a producer's whole batch, one unit of 46 bytes names it."""
