"""The kinds of work that are measured."""
