"""The state machine of a replica group: which replicas live, which may lead, how its node changes. Pure."""
