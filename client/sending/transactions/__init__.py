"""The producer's side of transactions: half messages, deciding them, being asked about them."""
