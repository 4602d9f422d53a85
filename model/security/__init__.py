"""Who may do what: users and their keys, roles, rules, and the decision. Pure."""
