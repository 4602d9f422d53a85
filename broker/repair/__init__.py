"""Finds damage in a broker's store and repairs it from a replica."""
