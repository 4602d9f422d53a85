"""Consume queues as rows of RocksDB."""
