"""A group with a static master: real brokers, no controllers. It copies, waits for enough, and never fails over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import NotEnoughReplicas, NotMaster
from zenitmq.remoting.commands import CreateTopic

from .static_group_kit import Serve, StaticGroup, answers, await_that, in_sync, replication


@pytest.fixture
def group(serve: Serve, record: Callable[..., bytes]) -> StaticGroup:
    return StaticGroup(serve, record)


def test_slaves_copy_the_master_and_serve_reads(group: StaticGroup) -> None:
    master, a, b = group.serve("m"), group.serve("a"), group.serve("b")
    await_that(lambda: in_sync(group) == ("a", "b", "m"))
    master.create("t")
    group.send(master, b"1", b"2")
    await_that(lambda: replication(a)["confirm"] == replication(b)["confirm"] == replication(master)["written"])
    assert [replication(broker)["role"] for broker in (master, a, b)] == ["master", "slave", "slave"]
    assert [one.body for one in a.pull("t")[1]] == [b"1", b"2"]
    with pytest.raises(NotMaster):
        a.call(CreateTopic("u", 1, 1))


def test_writes_wait_for_enough_replicas(group: StaticGroup, record: Callable[..., bytes]) -> None:
    master = group.serve("m")
    await_that(lambda: replication(master)["role"] == "master")
    with pytest.raises(NotEnoughReplicas):
        master.send("t", record("t"))
    a = group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    master.create("t")
    group.send(master, b"1")
    a.stop()
    await_that(lambda: in_sync(group) == ("m",))
    with pytest.raises(NotEnoughReplicas):
        master.send("t", record("t"))
    assert len(master.pull("t")[1]) == 1, "reads go on"
    a.start()
    group.send(master, b"2")
    assert [one.body for one in master.pull("t")[1]] == [b"1", b"2"]


def test_a_follower_copies_a_static_master_and_counts_for_nothing(
    group: StaticGroup, record: Callable[..., bytes]
) -> None:
    master, far = group.serve("m"), group.serve("f", role="follower")
    await_that(lambda: answers(far) and replication(far)["role"] == "follower")
    with pytest.raises(NotEnoughReplicas):
        master.send("t", record("t"))
    a = group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    master.create("t")
    group.send(master, b"1")
    await_that(lambda: replication(far)["confirm"] == replication(master)["written"])
    assert [one.body for one in far.pull("t")[1]] == [b"1"]
    assert replication(master)["members"] == ["a", "m"]
    assert in_sync(group) == ("a", "m")
    master.restart()
    await_that(lambda: answers(master))
    group.send(master, b"2")
    await_that(lambda: len(far.pull("t")[1]) == 2)
    assert in_sync(group) == ("a", "m")
    far.stop()
    a.stop()


def test_a_master_that_comes_back_leads_in_the_next_epoch_and_nobody_did_meanwhile(group: StaticGroup) -> None:
    master, a = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    master.create("t")
    group.send(master, b"1")
    master.stop()
    until_ms = monotonic_ms() + 3000
    while monotonic_ms() < until_ms:
        assert replication(a)["role"] == "slave"
        sleep_ms(100)
    master.start()
    await_that(lambda: answers(master))
    group.send(master, b"2")
    assert [replication(broker)["epoch"] for broker in (master, a)] == [2, 2]
    assert [one.body for one in master.pull("t")[1]] == [b"1", b"2"]
    await_that(lambda: len(a.pull("t")[1]) == 2)


def test_a_broker_that_was_alone_becomes_a_static_master_with_its_log(group: StaticGroup, serve: Serve) -> None:
    alone = serve("m", port=group.port)
    alone.create("t")
    group.send(alone, b"1")
    alone.restart()
    await_that(lambda: answers(alone))
    group.send(alone, b"2")
    alone.stop()
    master, a = group.serve("m"), group.serve("a")
    group.send(master, b"3")
    assert replication(master)["epoch"] == 3
    await_that(lambda: [one.body for one in a.pull("t")[1]] == [b"1", b"2", b"3"])


def test_slaves_do_not_follow_a_master_that_lost_its_disk(group: StaticGroup, tmp_path: Path) -> None:
    """However often it is started anew: they keep what was acknowledged."""
    master, a = group.serve("m"), group.serve("a")
    master.create("t")
    group.send(master, b"1", b"2")
    await_that(lambda: len(a.pull("t")[1]) == 2)
    a.stop()
    master.stop()
    shutil.rmtree(tmp_path / "m")
    master.start()
    a.start()
    for _ in range(3):
        master.restart()
    await_that(lambda: answers(a))
    until_ms = monotonic_ms() + 2000
    while monotonic_ms() < until_ms:
        assert in_sync(group) == ("m",)
        assert replication(a)["role"] == "candidate"
        sleep_ms(100)
    assert replication(a)["written"] > 0


def test_a_broker_with_a_log_of_its_own_is_no_slave(group: StaticGroup, serve: Serve) -> None:
    alone = serve("a")
    alone.create("u")
    alone.stop()
    group.serve("m")
    a = group.serve("a")
    until_ms = monotonic_ms() + 1500
    while monotonic_ms() < until_ms:
        assert replication(a)["role"] == "candidate"
        sleep_ms(100)
