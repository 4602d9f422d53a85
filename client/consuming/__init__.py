"""What both consumers need: which queues are whose, positions, prefetching, committing."""
