"""Handles: texts that name something at a broker; a client stores them and sends them back."""
