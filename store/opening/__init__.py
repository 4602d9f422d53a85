"""Opening a store, cutting it, beginning it at an offset; its small files and snapshots."""
