"""Drills of containers."""
