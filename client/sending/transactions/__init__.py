"""The producer's side of transactions: sends half messages, decides them, answers the broker's checks."""
