"""Inside of the lite consumer: which lite topics it wants, and what its brokers know of that."""
