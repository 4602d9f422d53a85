"""Waiting for messages in very many queues at a time."""
