"""The commit log: segments, their allocator, the flush thread, and what reads and appends whole pieces."""
