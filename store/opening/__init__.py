"""Opening a store, cutting it, beginning it anew: its small files and snapshots."""
