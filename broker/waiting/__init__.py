"""Records that wait in the log: found when they are due, read, and kept past retention."""
