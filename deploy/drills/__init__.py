"""Failover drills: real processes, load with numbered messages, one fault at a time, and a report."""
