"""ZenitMQ."""
