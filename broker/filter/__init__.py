"""Subscriptions at the broker: compiled conditions, and members that subscribe differently."""
