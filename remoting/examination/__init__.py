"""A server examines itself: its machine, and whether it reaches those that it has to reach."""
