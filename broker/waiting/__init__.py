"""What waits in the log for something to happen: found by its time, read, carried past retention."""
