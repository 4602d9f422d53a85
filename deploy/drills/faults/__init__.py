"""What is done to a drilled cluster."""
