"""Stores written by RocketMQ 5.5.0: opened after its clean stop, recovered after its kill -9, and gone on with."""

import json
import os
import struct

import pytest
from store_kit import (
    ALL_TIME,
    SMALL,
    StillClock,
    index_bytes,
    make_store,
    message,
    put,
    read_queue,
    stage,
    tree,
    unpack_golden,
)

from zenitmq.model.errors import StoreFormatError
from zenitmq.model.get_status import GetStatus
from zenitmq.model.ids import parse_offset_message_id
from zenitmq.model.sql92.condition import Condition
from zenitmq.model.subscription import Subscription
from zenitmq.model.tag_hash import java_hash
from zenitmq.record.kernel import StoredMessage, decode_batch, decode_record
from zenitmq.record.layout import UNIT
from zenitmq.store.config import StoreConfig
from zenitmq.store.get_result import Search
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import dump_store, inspect_store, verify_store
from zenitmq.store.opening.snapshot import read_snapshot

OPENED_MS = 1_795_250_000_000
HOUR_MS = 3_600_000
SETTINGS = {"segment_bytes": 1 << 20, "queue_file_units": 5000, "index_slots": 5_000, "index_entries": 20_000}
"""Not the sizes of these stores: theirs are taken from their files."""


@pytest.fixture(params=["file-clean", "file-killed", "rocksdb-clean"])
def golden(request, tmp_path, monkeypatch):
    monkeypatch.setitem(SMALL, "consume_queue", request.param.partition("-")[0])
    return unpack_golden(request.param, tmp_path)


@pytest.fixture
def store(golden):
    with make_store(golden, StillClock(OPENED_MS), **SETTINGS) as opened:
        yield opened


def expected(golden, topic: str) -> list[dict]:
    lines = (golden.parent / "expected.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["topic"] == topic]


def test_every_trade_is_found_by_offset_by_key_and_by_both_ids(golden, store: MessageStore) -> None:
    trades = expected(golden, "trades")
    assert len(trades) >= 190
    for line in trades:
        found = store.get_messages("trades", line["queue_id"], line["queue_offset"], max_messages=1, max_bytes=1 << 20)
        assert found.status == GetStatus.FOUND
        stored = decode_record(bytes(found.slices[0]))
        assert stored.body == bytes.fromhex(line["body"])
        assert (stored.message_id, stored.offset_message_id) == (line["msg_id"], line["offset_msg_id"])
        assert (stored.tags, stored.flag) == (line["tags"], line["flag"])
        assert stored.properties.get("region") == line["region"]
        assert stored.properties.get("amount") == line["amount"]
        _, physical = parse_offset_message_id(line["offset_msg_id"])
        assert store.record_at(physical) == stored.record
        by_id = store.query("trades", line["msg_id"], max_messages=9, unique=True, **ALL_TIME)
        assert by_id == [stored.record]
        for key in (line["keys"] or "").split():
            by_key = store.query("trades", key, max_messages=1000, unique=False, **ALL_TIME)
            assert stored.record in by_key
            stored_at = [decode_record(record).physical_offset for record in by_key]
            assert stored_at == sorted(stored_at, reverse=True)


def test_tags_and_times(golden, store: MessageStore) -> None:
    trades = [line for line in expected(golden, "trades") if line["queue_id"] == 1]
    found = store.get_messages("trades", 1, 0, max_messages=99, max_bytes=1 << 20, codes=(java_hash("tag1"),))
    tagged = [line for line in trades if line["tags"] == "tag1"]
    assert found.count == len(tagged) > 0
    messages = read_queue(store, "trades", 1)
    for position, stored in enumerate(messages):
        lower = store.offset_by_time("trades", 1, stored.stored_at_ms, upper=False)
        upper = store.offset_by_time("trades", 1, stored.stored_at_ms, upper=True)
        assert lower <= position <= upper
        assert messages[lower].stored_at_ms == messages[upper].stored_at_ms == stored.stored_at_ms
        assert lower == 0 or messages[lower - 1].stored_at_ms < stored.stored_at_ms
    assert store.offset_by_time("trades", 1, 1 << 62, upper=False) == store.max_offset("trades", 1)
    assert store.offset_by_time("trades", 1, 0, upper=True) == 0


EXT_UNIT = struct.Struct(">hqqh8s")  # size, tags code, store time, bytes of bitmap, bitmap


def write_extension(golden) -> dict[str, bytes]:
    """Has queue 1 of trades as RocketMQ leaves it where `enableConsumeQueueExt` is on: for tags, addresses in another file."""
    queue = golden / "consumequeue" / "trades" / "1" / f"{0:020d}"
    units, extension = bytearray(queue.read_bytes()), bytearray()
    for at in range(0, len(units), UNIT.size):
        offset, size, code = UNIT.unpack_from(units, at)
        if size:
            UNIT.pack_into(units, at, offset, size, len(extension) - (1 << 63))
            extension += EXT_UNIT.pack(EXT_UNIT.size, code, 1_795_245_200_000, 8, bytes(8))
    queue.write_bytes(units)
    folder = golden / "consumequeue_ext" / "trades" / "1"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(extension + struct.pack(">hh", -1, 4) + bytes(1000))
    return tree(golden, "consumequeue_ext")


@pytest.mark.parametrize("golden", ["file-clean", "file-killed"], indirect=True)
def test_an_extension_of_queues_is_left_alone_and_hides_nothing(golden) -> None:
    """Its bitmaps are not asked: where a unit says no more than an address, the message itself is looked at."""
    extension = write_extension(golden)
    sent = [line for line in expected(golden, "trades") if line["queue_id"] == 1]
    wanted = [line["msg_id"] for line in sent if line["tags"] == "tag1"]
    subscription = Subscription.parse("trades", "tag1")
    tagged = Search(Condition("TAGS = 'tag1'"), lambda: True)

    def found(**how: object) -> list[StoredMessage]:
        messages: list[StoredMessage] = []
        offset = 0
        while offset < store.max_offset("trades", 1):
            result = store.get_messages("trades", 1, offset, max_messages=99, max_bytes=1 << 20, **how)
            messages += [message for part in result.slices for message in decode_batch(bytes(part))]
            offset = result.next_offset
        return messages

    with make_store(golden, StillClock(OPENED_MS), **SETTINGS) as store:
        assert [message.message_id for message in read_queue(store, "trades", 1)] == [line["msg_id"] for line in sent]
        by_code = [message for message in found(codes=subscription.codes()) if subscription.accepts(message.tags)]
        assert [message.message_id for message in by_code] == wanted
        assert [message.message_id for message in found(search=tagged)] == wanted
        put(store, "trades", 1, message("trades", b"new", tags="tag1"), message("trades", b"other", tags="tag2"))
        assert [message.body for message in found(codes=subscription.codes())][-1] == b"new"
    assert tree(golden, "consumequeue_ext") == extension
    assert verify_store(str(golden))["damaged"] == []


def test_what_is_visible_of_reminders_and_payments(golden, store: MessageStore) -> None:
    sent = {line["msg_id"]: line for topic in ("reminders", "payments") for line in expected(golden, topic)}
    visible = {
        m.message_id: m.body for topic in ("reminders", "payments") for q in (0, 1) for m in read_queue(store, topic, q)
    }
    kinds = sorted(sent[message_id]["kind"] for message_id in visible)
    assert kinds == ["delay_level_1"] * 3 + ["timer"] + ["transaction_commit"] * 3
    assert all(body.hex() == sent[message_id]["body"] for message_id, body in visible.items())


def test_what_waits_is_reported(golden) -> None:
    sent = {line["msg_id"]: line for topic in ("reminders", "payments") for line in expected(golden, topic)}
    pending = inspect_store(str(golden))["pending"]
    assert {kind: [sent[entry["message_id"]]["kind"] for entry in entries] for kind, entries in pending.items()} == {
        "delayed": ["delay_level_5"] * 3,
        "timed": ["timer"] * 2,
        "undecided": ["transaction_unknown"] * 3,
    }
    assert all(entry["due_ms"] > sent_ms for entry in pending["timed"] for sent_ms in [1_795_245_200_000])
    assert {entry["waits_in"] for entry in pending["undecided"]} == {"RMQ_SYS_TRANS_HALF_TOPIC"}


def test_topics_groups_and_offsets_are_read(golden) -> None:
    topics, groups, offsets = (
        read_snapshot(str(golden / "config" / name))
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
    )
    assert topics is not None
    assert topics.document["topicConfigTable"]["trades"]["writeQueueNums"] == 4
    assert topics.reflected is None
    assert groups is not None
    assert "desk" in groups.document["subscriptionGroupTable"]
    assert offsets is not None
    ends = {f"{line['queue_id']}": line["queue_offset"] + 1 for line in expected(golden, "trades")}
    assert offsets.document["offsetTable"]["trades@desk"] == ends


def test_new_messages_append_behind_and_survive(golden) -> None:
    trades = len(expected(golden, "trades"))
    for round_ in range(3):
        with make_store(golden, StillClock(OPENED_MS + round_), **SETTINGS) as store:
            end, queue_end = store.written, store.max_offset("trades", 2)
            placed = put(store, "trades", 2, *(message("trades", b"new", keys=f"new-{round_}-{n}") for n in range(40)))
            assert (placed.physical_offset, placed.queue_offset) == (end, queue_end)
            assert sum(len(read_queue(store, "trades", q)) for q in range(4)) == trades + 40 * (round_ + 1)
            for earlier in range(round_ + 1):
                assert len(store.query("trades", f"new-{earlier}-7", max_messages=9, unique=False, **ALL_TIME)) == 1
    assert verify_store(str(golden))["damaged"] == []
    assert sum(1 for m in dump_store(str(golden)) if m.topic == "trades") == trades + 120


def test_queues_and_index_equal_a_rebuild(golden, tmp_path) -> None:
    """From the log alone come the very files, or rows, that RocketMQ made."""
    before = tree(golden, "consumequeue")
    index_before = index_bytes(golden)
    for folder in ("consumequeue", "index"):
        os.rename(golden / folder, tmp_path / folder)
    with make_store(golden, StillClock(OPENED_MS), queue_file_units=100, index_slots=500, index_entries=1000):
        assert tree(golden, "consumequeue") == before
        assert index_bytes(golden) == index_before


def test_age_counts_from_our_first_opening(golden) -> None:
    """A store taken over keeps all for a whole retention, however old its files are."""
    clock = StillClock(OPENED_MS)
    for path in (golden / "commitlog").iterdir():
        os.utime(path, (1, 1))
    with make_store(golden, clock, **SETTINGS, retention_ms=72 * HOUR_MS, flush_interval_ms=5) as store:
        end = store.written
        store._log.wait_flushed(end, 10_000)
        clock.time_ms += 71 * HOUR_MS
        assert store.on_tick(clock.time_ms) == []
    with make_store(golden, clock, **SETTINGS, retention_ms=72 * HOUR_MS, flush_interval_ms=5) as store:
        store._log.wait_flushed(end, 10_000)
        assert store.on_tick(clock.time_ms) == []
        clock.time_ms += 2 * HOUR_MS
        assert [event.kind for event in store.on_tick(clock.time_ms)] == ["segment_deleted"]
        assert store.min_offset("trades", 0) > 0


@pytest.mark.parametrize("golden", ["file-clean", "file-killed"], indirect=True)
@pytest.mark.parametrize("file", ["commitlog/00000000000000065536", "consumequeue/trades/1/00000000000000000000"])
def test_a_file_of_a_wrong_size_is_refused_by_name(golden, file: str) -> None:
    with open(golden / file, "ab") as grown:
        grown.write(b"x")
    with pytest.raises(StoreFormatError, match=file.rpartition("/")[2]), make_store(golden, **SETTINGS):
        pass
    os.truncate(golden / file, os.path.getsize(golden / file) - 1)
    with make_store(golden, StillClock(OPENED_MS), **SETTINGS) as store:
        assert store.written > 0


def test_an_index_that_no_slot_count_explains_is_rebuilt(golden) -> None:
    (index,) = (golden / "index").iterdir()
    with open(index, "r+b") as file:
        file.seek(40)
        file.write(os.urandom(2000))
    with make_store(golden, StillClock(OPENED_MS), **SETTINGS) as store:
        for line in expected(golden, "trades")[::10]:
            assert len(store.query("trades", line["msg_id"], max_messages=9, unique=True, **ALL_TIME)) == 1


@pytest.mark.parametrize("golden", ["file-clean", "file-killed"], indirect=True)
def test_settings_of_the_test_are_not_those_of_the_stores(store: MessageStore) -> None:
    assert store._log.segment_bytes == 65_536
    assert (store._queues.plain.file_bytes, store._index.slots, store._index.entries) == (2000, 500, 1000)
    assert StoreConfig().segment_bytes == 1 << 30
    stage(store, "trades", 0, message("trades", b"x"))
    store.commit()
