"""The controller: decides who is master of each replica group, and stores its decisions in ZooKeeper."""
