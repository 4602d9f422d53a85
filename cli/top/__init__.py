"""`zenit top`: what a cluster does now. figures.py keeps the samples, sampling.py asks, screen.py shows."""
