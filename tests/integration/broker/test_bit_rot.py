"""Bits that rot in the files of real brokers while they run: found by a scrub, taken out of sight, fetched from a replica."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zenitmq.broker.repair.replica_copy import copy_replica
from zenitmq.model.errors import BrokerBusy, CorruptRecordError, MessageNotFound
from zenitmq.model.get_status import GetStatus
from zenitmq.record.kernel import StoredMessage, decode_batch
from zenitmq.remoting.commands import GetBrokerStatistics, PullMessages, PullReply, ScrubLog, SendBack

from .static_group_kit import Serve, StaticGroup, answers, await_that, in_sync, replication

MESSAGES = 60


@pytest.fixture
def group(serve: Serve, record: Callable[..., bytes]) -> StaticGroup:
    return StaticGroup(serve, record)


def statistics(broker: Any) -> dict[str, Any]:
    document: dict[str, Any] = broker.ask(GetBrokerStatistics())
    return document


def scrub(broker: Any) -> dict[str, Any]:
    """Has the broker read its log anew; returns the result."""
    before = statistics(broker)["scrub"]["last"]
    broker.call(ScrubLog(1 << 30))
    await_that(lambda: statistics(broker)["scrub"]["last"] != before)
    last: dict[str, Any] = statistics(broker)["scrub"]["last"]
    return last


def flip(broker: Any, position: int) -> None:
    """Turns one bit of the log in its file, and lets go of the cached pages."""
    folder = Path(broker.config.store_dir) / "commitlog"
    path = folder / f"{position - position % (1 << 20):020d}"
    with open(path, "r+b") as file:
        at = position % (1 << 20)
        byte = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 4]), at)
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def log_bytes(broker: Any) -> bytes:
    """What the log holds up to its end, but for the filler behind blanks; this log is one segment long."""
    folder = Path(broker.config.store_dir) / "commitlog"
    written = statistics(broker)["positions"]["written_offset"]
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))[:written]


def messages(broker: Any) -> list[StoredMessage]:
    """All messages of the queue, by pulls that wait for none."""
    found: list[StoredMessage] = []
    while True:
        reply, payload = pull(broker, len(found))
        if reply.status != GetStatus.FOUND:
            return found
        found += decode_batch(payload)


def pull(broker: Any, offset: int, suspend_ms: int = 0) -> tuple[PullReply, bytes]:
    reply, payload = broker.call(PullMessages("g", "t", 0, offset, 100, 1 << 20, suspend_ms))
    return reply, payload


def filled(group: StaticGroup, *brokers: Any) -> list[StoredMessage]:
    """Messages in batches of their own; everybody has them, on the disk too."""
    master = brokers[0]
    master.create("t", queues=1)
    group.send(master, *(b"%04d" % number * 200 for number in range(MESSAGES)))
    await_that(lambda: all(replication(one)["confirm"] == replication(master)["written"] for one in brokers))
    await_that(lambda: all(replication(one)["flushed"] == replication(master)["written"] for one in brokers))
    return messages(master)


def test_what_rots_at_the_master_and_at_a_slave_is_fetched_from_where_it_is_whole(group: StaticGroup) -> None:
    brokers = [group.serve("m"), group.serve("a"), group.serve("b")]
    await_that(lambda: in_sync(group) == ("a", "b", "m"))
    sent = filled(group, *brokers)
    whole = log_bytes(brokers[0])
    assert log_bytes(brokers[1]) == log_bytes(brokers[2]) == whole
    seeded = random.Random(7)
    hit = seeded.sample(range(MESSAGES), 12)
    for number in hit:
        message = sent[number]
        flip(brokers[number % 2], message.physical_offset + seeded.randrange(len(message.record)))
    assert log_bytes(brokers[0]) != whole != log_bytes(brokers[1])
    for broker in brokers:
        result = scrub(broker)
        expected = sum(number % 2 == brokers.index(broker) for number in hit) if broker is not brokers[2] else 0
        assert result["damaged_ranges"] == expected
        assert result["vouched_bytes"] == result["read_bytes"] > 0
        await_that(lambda broker=broker: statistics(broker)["store"]["quarantined_ranges"] == 0)
        assert statistics(broker)["repairs"] == {"mended_ranges": expected, "awaited_ranges": 0, "lost_ranges": 0}
    assert log_bytes(brokers[0]) == log_bytes(brokers[1]) == log_bytes(brokers[2]) == whole
    for broker in brokers:
        assert [one.record for one in messages(broker)] == [one.record for one in sent]
        assert scrub(broker)["damaged_ranges"] == 0


def test_replicas_that_have_lost_other_bytes_of_one_append_mend_each_other(
    group: StaticGroup, record: Callable[..., bytes]
) -> None:
    brokers = [group.serve("m"), group.serve("a")]
    await_that(lambda: in_sync(group) == ("a", "m"))
    brokers[0].create("t", queues=1)
    brokers[0].send("t", *(record("t", b"%04d" % number * 50) for number in range(MESSAGES)))
    await_that(lambda: all(replication(one)["flushed"] == replication(brokers[0])["written"] for one in brokers))
    sent, whole = messages(brokers[0]), log_bytes(brokers[0])
    flip(brokers[0], sent[30].physical_offset + len(sent[30].record) - 2)  # a property: nothing says whose
    flip(brokers[1], sent[20].physical_offset + 4)
    for broker in brokers:
        assert scrub(broker)["damaged_ranges"] == 1
    for broker in brokers:
        await_that(lambda broker=broker: statistics(broker)["store"]["quarantined_ranges"] == 0)
        assert statistics(broker)["repairs"]["mended_ranges"] == 1
        assert log_bytes(broker) == whole
    assert [one.record for one in messages(brokers[0])] == [one.record for one in sent]


def test_a_reader_waits_for_a_replica_that_may_have_its_messages(group: StaticGroup) -> None:
    master, a = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    sent = filled(group, master, a)
    a.stop()
    flip(master, sent[5].physical_offset + 100)
    assert scrub(master)["damaged_ranges"] == 1
    assert len(messages(master)) == 5
    told, _ = pull(master, 5, suspend_ms=9_000)
    assert (told.status, told.next_offset, told.max_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 5, MESSAGES)
    assert [one.queue_offset for one in decode_batch(pull(master, 6)[1])] == list(range(6, MESSAGES))
    a.start()
    await_that(lambda: pull(master, 5, suspend_ms=9_000)[0].status == GetStatus.FOUND)
    assert decode_batch(pull(master, 5)[1])[0].record == sent[5].record
    assert statistics(master)["repairs"]["mended_ranges"] == 1


def test_what_nobody_has_is_passed_over_by_name_and_kept_in_mind(group: StaticGroup) -> None:
    master, a = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    sent = filled(group, master, a)
    for broker in (master, a):
        flip(broker, sent[5].physical_offset + 100)
        flip(broker, sent[6].physical_offset + 100)
    for broker in (master, a):
        assert scrub(broker)["damaged_ranges"] == 2
        await_that(lambda broker=broker: statistics(broker)["repairs"]["lost_ranges"] == 2)
    assert len(messages(master)) == 5
    reply, _ = pull(master, 5)
    ends = (sent[5].physical_offset, sent[6].physical_offset + len(sent[6].record))
    assert (reply.status, reply.next_offset, reply.lost_from) == (GetStatus.MESSAGES_LOST, 7, 5)
    assert (reply.lost_begin, reply.lost_end) == ends
    assert len(decode_batch(pull(master, 7)[1])) == MESSAGES - 7
    master.stop()
    master.start()
    await_that(lambda: answers(master) and replication(master)["role"] == "master")
    await_that(lambda: pull(master, 5)[0].status == GetStatus.MESSAGES_LOST)
    assert statistics(master)["scrub"]["last"]["damaged_ranges"] == 2


def test_a_single_broker_goes_on_behind_what_has_rotted(serve: Serve, record: Callable[..., bytes]) -> None:
    broker = serve("single")
    broker.create("t", queues=1)
    for number in range(8):
        broker.send("t", record("t", b"%d" % number * 500))
    sent = messages(broker)
    await_that(lambda: statistics(broker)["positions"]["flushed_offset"] > sent[-1].physical_offset)
    flip(broker, sent[3].physical_offset + 200)
    assert scrub(broker)["damaged_ranges"] == 1
    assert (pull(broker, 3)[0].status, pull(broker, 3)[0].next_offset) == (GetStatus.MESSAGES_LOST, 4)
    broker.stop()
    broker.start()
    await_that(lambda: answers(broker))
    await_that(lambda: pull(broker, 3)[0].status == GetStatus.MESSAGES_LOST)
    assert [one.queue_offset for one in decode_batch(pull(broker, 4)[1])] == [4, 5, 6, 7]


def test_a_slave_that_catches_up_waits_before_rot_until_the_master_is_mended(group: StaticGroup) -> None:
    """The master has it from the other slave, and the one that lacks it gets it whole."""
    master, a = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    sent = filled(group, master, a)
    whole = log_bytes(master)
    for broker in (master, a):
        broker.stop()
    flip(master, sent[30].physical_offset + 300)
    master.start()
    b = group.serve("b")
    await_that(lambda: answers(master))
    await_that(lambda: statistics(master)["store"]["quarantined_ranges"] == 1)
    await_that(lambda: replication(b)["written"] == sent[30].physical_offset)
    a.start()
    await_that(lambda: replication(b)["written"] >= len(whole))
    assert log_bytes(b)[: len(whole)] == log_bytes(master)[: len(whole)] == whole


def test_a_static_groups_slave_gets_past_what_all_have_lost_by_a_copy_of_another_ones_store(
    group: StaticGroup, tmp_path: Path
) -> None:
    master, a = (group.serve(name, repair_wait_ms=0) for name in "ma")
    await_that(lambda: in_sync(group) == ("a", "m"))
    sent = filled(group, master, a)
    for broker in (master, a):
        flip(broker, sent[5].physical_offset + 100)
    for broker in (master, a):
        assert scrub(broker)["damaged_ranges"] == 1
    waiting = group.serve("b")
    await_that(lambda: replication(waiting)["written"] == sent[5].physical_offset)
    for broker in (waiting, a, master):  # the copy knows this epoch, and is let in by a later one only
        broker.stop()
    copy_replica(a.config.store_dir, str(tmp_path / "copy"))
    for broker in (master, a):
        broker.start()
    copied = group.serve("copy", replica="b", repair_wait_ms=0)
    await_that(lambda: in_sync(group) == ("a", "b", "m"))
    group.send(master, b"later")
    await_that(lambda: replication(copied)["confirm"] == replication(master)["written"])
    assert log_bytes(copied) == log_bytes(a) == log_bytes(master)
    for broker in (master, a, copied):
        await_that(lambda broker=broker: pull(broker, 5)[0].status == GetStatus.MESSAGES_LOST)
        assert pull(broker, 5)[0].next_offset == 6
        assert decode_batch(pull(broker, 6)[1])[-1].body == b"later"


def test_a_consumer_that_cannot_decode_an_answer_has_the_broker_look(group: StaticGroup) -> None:
    """No scrub was due yet: the reader's doubt is enough, and the messages come whole from the slave."""
    master, a = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    sent = filled(group, master, a)
    flip(master, sent[7].physical_offset + 3)  # its size
    with pytest.raises(CorruptRecordError):
        messages(master)
    doubted = PullMessages("g", "t", 0, 0, 100, 1 << 20, 0, is_doubted=True)
    reply, payload = master.call(doubted)
    assert (reply.status, reply.next_offset, len(decode_batch(payload))) == (GetStatus.FOUND, 7, 7)
    await_that(lambda: statistics(master)["store"]["quarantined_ranges"] == 0)
    assert [one.record for one in messages(master)] == [one.record for one in sent]


DEAD_LETTERS = "%DLQ%g"


def back(message: StoredMessage) -> SendBack:
    """To the dead letters at once."""
    return SendBack("g", "t", message.physical_offset, -1)


def test_no_damaged_record_is_sent_back_before_a_replica_has_made_it_whole(group: StaticGroup) -> None:
    master, a = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    sent = filled(group, master, a)
    flip(master, sent[7].physical_offset + len(sent[7].record) // 2)  # its body
    with pytest.raises(BrokerBusy):
        master.call(back(sent[7]))
    await_that(lambda: statistics(master)["repairs"]["mended_ranges"] == 1)
    master.call(back(sent[7]))
    (letter,) = master.pull(DEAD_LETTERS)[1]
    assert letter.body == sent[7].body


def test_of_a_record_that_is_lost_only_a_copy_from_before_the_damage_is_taken(
    serve: Serve, record: Callable[..., bytes]
) -> None:
    broker = serve("single")
    broker.create("t", queues=1)
    for number in range(2):
        broker.send("t", record("t", b"%d" % number * 500, tags="buy"))
    sent = messages(broker)
    await_that(lambda: statistics(broker)["positions"]["flushed_offset"] > sent[-1].physical_offset)
    flip(broker, sent[0].physical_offset + 200)  # its body
    flip(broker, sent[1].physical_offset + len(sent[1].record) - 3)  # a property
    rotten = messages(broker)
    assert rotten[1].body_crc_matches
    for whole, damaged in zip(sent, rotten, strict=True):
        with pytest.raises(MessageNotFound):
            broker.call(back(whole))
        with pytest.raises(CorruptRecordError):
            broker.call(back(whole), damaged.record)
        broker.call(back(whole), whole.record)
    assert [letter.body for letter in broker.pull(DEAD_LETTERS)[1]] == [one.body for one in sent]
