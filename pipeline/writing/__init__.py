"""Writes data frames to topics: at least once, or once by name and number."""
