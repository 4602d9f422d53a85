"""Requests of one's own to a cluster, with the key that a client of the test's process has for it, if it is secured."""

from __future__ import annotations

from pathlib import Path

from kazoo.client import KazooClient

from zenitmq.client.connection.client_keys import key_path, new_remoting
from zenitmq.remoting.client import RemotingClient
from zenitmq.testing import LocalCluster


def remoting_of(namesrv: str) -> RemotingClient:
    """A client of all servers of the cluster."""
    servers = tuple(namesrv.split(","))
    return new_remoting(key_path(None, servers), servers)


def zookeeper_of(cluster: LocalCluster) -> KazooClient:
    """A client of the cluster's ZooKeeper, with the controllers' login where it has one; not started."""
    login = Path(cluster.directory, "keys", "zookeeper.login")
    auth = [("digest", login.read_text("utf-8").strip())] if login.exists() else None
    return KazooClient(cluster.process("zookeeper").address, auth_data=auth)
