"""The parts of a push consumer."""
