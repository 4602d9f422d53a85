"""The parts of `Admin`: topics, groups, brokers, messages, dead letters."""
