"""Idempotent sends: numbered batches, one at a time to each queue."""
