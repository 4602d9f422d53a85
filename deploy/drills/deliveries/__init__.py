"""The second load of the random drill: a bank that transfers by transactional messages, and consumers that pop."""
