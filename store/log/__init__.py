"""The commit log: segments, their allocator, the flush thread, and reading and appending of chunks."""
