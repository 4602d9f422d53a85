"""Traces of producers and consumers with `trace=True`, and reading them back."""
