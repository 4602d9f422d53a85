"""Engines in the program's own process: a name server and a broker in threads, which clients reach without a network."""
