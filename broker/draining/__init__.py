"""Ending a replica's work without anybody noticing: it hands its mastership over, and leaves the in-sync set before it ends."""
