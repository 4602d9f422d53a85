"""Converts bytes to typed commands and back (pure). Two files import zmq: one for servers, one for clients."""
