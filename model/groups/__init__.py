"""The values of a replica group: its node in ZooKeeper, and how far its logs reach."""
