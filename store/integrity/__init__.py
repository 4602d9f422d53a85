"""Damage of the store: finding, quarantine and repair; and recovery after a crash."""
