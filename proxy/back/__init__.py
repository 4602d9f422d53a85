"""The proxy's way to the cluster, for both of its fronts: coroutines over one connection and one event loop a process.

Errors are the house's; each front has a table of its own that makes its protocol's codes of them.
"""
