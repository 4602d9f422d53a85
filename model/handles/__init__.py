"""Texts that name something at a broker, which a client keeps and gives back."""
