"""A full disk keeps what a broker would note of itself from being written, and ends nothing: it is noted once there is room."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from link_kit import FakeClient, ManualLoop

from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.broker.group.cluster_membership import ClusterMembership
from zenitmq.broker.group.followed_store import FollowedStore
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.model.errors import StoreNotWriteable
from zenitmq.model.groups.group import GroupNode, Incarnation, KnownGroup
from zenitmq.remoting.commands import ClaimClusterId, ClusterIdReply
from zenitmq.store.opening.small_file import SystemFiles, needs_room


@pytest.fixture
def full(monkeypatch) -> Any:
    @contextmanager
    def full_disk() -> Iterator[None]:
        def refuse(*_arguments: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(SystemFiles, "replace", refuse)
            yield

    return full_disk


class Membership:
    """A broker's, with one name server."""

    def __init__(self, directory: str) -> None:
        self.loop: Any = ManualLoop()
        self.loop.cluster_id = ""
        self.client: Any = FakeClient()
        self.client.name_cluster = lambda _: None
        self.file = ClusterFile.open(directory)
        self.membership = ClusterMembership(
            self.file,
            self.client,
            self.loop,
            self.loop,
            cluster="c",
            name_servers=("n:1",),
            ask_ms=100,
            on_known=lambda _: None,
        )


def test_a_cluster_s_id_is_asked_for_and_settled_again(tmp_path, full) -> None:
    broker = Membership(str(tmp_path))
    with full():
        broker.membership.start()
        broker.loop.pass_ms(200)
    assert broker.client.take(ClaimClusterId) == [], "what it would be called is not kept yet"
    broker.loop.pass_ms(5000)
    claims = broker.client.take(ClaimClusterId)
    with full():
        claims[-1].on_reply(ClusterIdReply("id-2", "living"), b"", None)
        assert broker.membership.cluster_id == ""
    broker.loop.pass_ms(5000)
    broker.client.take(ClaimClusterId)[-1].on_reply(ClusterIdReply("id-2", "living"), b"", None)
    assert broker.membership.cluster_id == "id-2"
    with full():
        broker.membership.on_registration("n:1", "id-2", None)
    assert not broker.file.is_settled
    broker.membership.on_registration("n:1", "id-2", None)
    assert ClusterFile.open(str(tmp_path)).is_settled


def test_what_a_replica_notes_is_as_it_was(tmp_path, full) -> None:
    files = ReplicaFiles.open(str(tmp_path))
    files.note_registered("id-1")
    with full(), pytest.raises(StoreNotWriteable), needs_room():
        files.note_async()
    assert not files.ran_async
    files.note_async()
    assert ReplicaFiles.open(str(tmp_path)).ran_async


def test_whom_a_slave_follows_is_noted_before_it_hears_of_the_group(tmp_path, full) -> None:
    told: list[KnownGroup] = []
    followed = FollowedStore(str(tmp_path), is_empty=True, on_group=told.append)
    known = KnownGroup(GroupNode(broker_name="broker-a", master="a", master_incarnation=Incarnation("s", 1)), 3)
    with full(), pytest.raises(StoreNotWriteable):
        followed.on_group(known)
    assert told == []
    followed.on_group(known)
    assert told == [known]


def test_what_is_no_lack_of_room_comes_out_as_it_is() -> None:
    with pytest.raises(PermissionError), needs_room():
        raise PermissionError(errno.EACCES, "no")
