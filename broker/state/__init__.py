"""The broker's tables: topics, groups, offsets and others, all derived from the log."""
