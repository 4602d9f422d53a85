"""Events: what an operator must be able to look up later. Their table, their lines, and how a process tells them."""
