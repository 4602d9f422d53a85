"""Records, segments, commit log, consume queues, index files, recovery, retention: everything a broker keeps on disk."""
