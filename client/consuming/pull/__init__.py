"""The parts of a pull consumer."""
