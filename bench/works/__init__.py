"""The kinds of measured work."""
