"""The key index: finding records by key, unique id or position."""
