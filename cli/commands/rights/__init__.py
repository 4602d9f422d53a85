"""Commands about users, roles and rules."""
