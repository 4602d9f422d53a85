"""Lag, traces and query results, as tables, JSON and HTML."""
