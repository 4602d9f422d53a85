"""Lite topics: very many small ordered queues of a parent topic, received by name."""
