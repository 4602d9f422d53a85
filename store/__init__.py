"""Everything a broker stores on disk: commit log, consume queues, index files, recovery, retention."""
