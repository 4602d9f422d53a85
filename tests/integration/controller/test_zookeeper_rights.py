"""With a login, a cluster's nodes are its own; in the folder of all clusters others may add theirs, and no more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from zenitmq.controller.group_store import Written
from zenitmq.controller.zookeeper import ZooKeeperStore
from zenitmq.deploy.embedded_zookeeper import start_zookeeper, stop_zookeeper
from zenitmq.deploy.processes import port_is_free
from zenitmq.model.errors import ZooKeeperUnavailable
from zenitmq.model.groups.group import GroupNode

NODE = GroupNode(broker_name="broker-a")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = start_zookeeper(
        str(tmp_path_factory.mktemp("zookeeper")),
        next(port for port in range(26181 + os.getpid() % 5000, 65000) if port_is_free(port)),
    )
    try:
        yield process.address
    finally:
        stop_zookeeper(process)


@pytest.fixture
def stranger(server: str) -> Iterator[KazooClient]:
    """Somebody who reaches ZooKeeper."""
    client = KazooClient(server)
    client.start(timeout=10)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def opened(server: str, cluster: str, login: str) -> ZooKeeperStore:
    return ZooKeeperStore(server, cluster=cluster, listener=lambda _: None, login=login)


def test_others_add_clusters_and_change_nothing(server: str, stranger: KazooClient) -> None:
    stranger.create("/zenit", b"")
    assert stranger.get_acls("/zenit")[0] == OPEN_ACL_UNSAFE, (
        "as an older version, or a cluster without a login, made it"
    )
    with opened(server, "first", "one:first") as first:
        first.create(NODE)
        with pytest.raises(NoAuthError):
            stranger.set_acls("/zenit", OPEN_ACL_UNSAFE)
        with pytest.raises(NoAuthError):
            stranger.set("/zenit", b"x")
        stranger.create("/zenit/spare", b"")
        with pytest.raises(NoAuthError):
            stranger.delete("/zenit/spare")
        with opened(server, "second", "two:second") as second, opened(server, "open", "") as unsecured:
            second.create(NODE)
            unsecured.create(NODE)
            assert second.broker_names() == unsecured.broker_names() == ("broker-a",)
        with pytest.raises(ZooKeeperUnavailable, match="zookeeper_login"), opened(server, "first", "two:second"):
            pass
        assert first.broker_names() == ("broker-a",)


def test_who_closes_the_folder_by_hand_is_not_overruled(server: str, stranger: KazooClient) -> None:
    """A cluster that is in it goes on; nobody else adds one. To ask whether it is there needs the right to read."""
    clusters = (("kept", "one:first"), ("beside", "two:second"))  # of which the second does not own the folder
    for cluster, login in clusters:
        with opened(server, cluster, login):
            pass
    stranger.add_auth("digest", "one:first")
    closed = [make_digest_acl("one", "first", all=True), make_acl("world", "anyone", read=True)]
    stranger.set_acls("/zenit", closed)
    for cluster, login in clusters:
        with opened(server, cluster, login) as store:
            assert store.create(NODE) == Written(0)
    assert sorted(stranger.get_acls("/zenit")[0]) == sorted(closed)
    with pytest.raises(ZooKeeperUnavailable, match="zookeeper_login"), opened(server, "new", "two:second"):
        pass
