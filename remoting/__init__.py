"""Converts bytes to typed commands and back (pure); two files import zmq: one for servers, one for clients."""
