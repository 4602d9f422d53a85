"""Delayed delivery: a message waits in the log and an ordered index until its time comes."""
