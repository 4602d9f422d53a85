"""Connections that speak ZeroMQ's protocol over plain TCP, in the thread that calls, without a thread of ZeroMQ."""
