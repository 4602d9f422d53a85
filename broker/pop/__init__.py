"""Pop: the broker hands out single messages, keeps their leases, and hands out again what nobody acknowledged."""
