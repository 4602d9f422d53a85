"""Commands for who operates a cluster."""
