"""The name server: a pure route table under a thin service."""
