"""A replica group as its node in ZooKeeper has it, and what a replica tells of its log."""
