"""Replication inside one group: pure cores that decide, and a shell that owns sockets, files and the clock."""
