"""Replication inside one group: pure cores that decide, for a shell that owns sockets, files and the clock."""
