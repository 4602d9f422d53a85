"""The faults of drills."""
