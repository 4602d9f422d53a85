"""The broker's tables: topics, groups, offsets and the like, each a function of the log."""
