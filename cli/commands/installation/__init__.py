"""What this installation is made of."""
