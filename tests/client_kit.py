"""Requests of one's own to a cluster, with the key that a client of the test's process has for it, if it is secured."""

from __future__ import annotations

from zenitmq.client.connection.client_keys import key_path, new_remoting
from zenitmq.remoting.client import RemotingClient


def remoting_of(namesrv: str) -> RemotingClient:
    """A client of all servers of the cluster."""
    servers = tuple(namesrv.split(","))
    return new_remoting(key_path(None, servers), servers)
