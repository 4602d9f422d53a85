"""`zenit doctor`: what may be wrong with this machine, a configuration, and a cluster."""
