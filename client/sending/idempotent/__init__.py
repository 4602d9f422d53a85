"""Idempotent sends: numbered batches, one at a time per queue."""
