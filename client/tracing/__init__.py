"""What producers and consumers with `trace=True` tell of messages on their way, and how it is read back."""
