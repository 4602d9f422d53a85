"""The controller: decides who is master of each replica group, and keeps what it decided in ZooKeeper."""
