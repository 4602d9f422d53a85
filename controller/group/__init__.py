"""The state machine of a replica group: who is alive, who may lead, what becomes of its node. Pure."""
