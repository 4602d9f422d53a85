"""The parts of a simple consumer."""
