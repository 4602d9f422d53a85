"""Failover drills: real processes, load that numbers its messages, one fault at a time, and an account of it all."""
