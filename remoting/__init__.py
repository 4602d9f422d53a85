"""Bytes to typed commands and back (pure), and the two files that import zmq: one for servers, one for clients."""
