"""What must not get in, and what must not bring the broker down: a typed error, nothing written, the loop lives."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.broker.service import Broker
from zenitmq.model.errors import (
    ConfigError,
    InvalidName,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    StoreLocked,
    TopicNotFound,
    ZenitError,
)
from zenitmq.remoting import commands
from zenitmq.store.log.segment import Disk

Record = Callable[..., bytes]


def patched(record: bytes, at: int, value: bytes) -> bytes:
    return record[:at] + value + record[at + len(value) :]


ILLEGAL: dict[str, Callable[[Record], tuple[bytes, int]]] = {
    "no payload": lambda _: (b"", 1),
    "zeros": lambda _: (bytes(200), 1),
    "random bytes": lambda _: (random.Random(1).randbytes(500), 1),
    "cut short": lambda record: (record("t")[:-1], 1),
    "a byte too many": lambda record: (record("t") + b"\0", 1),
    "fewer than said": lambda record: (record("t") * 2, 3),
    "more than said": lambda record: (record("t") * 2, 1),
    "none said": lambda record: (record("t"), 0),
    "less than none said": lambda record: (record("t"), -1),
    "wrong magic": lambda record: (patched(record("t"), 4, b"\1\2\3\4"), 1),
    "blank record": lambda record: (patched(record("t"), 4, (0xCBD43194).to_bytes(4, "big")), 1),
    "size of zero": lambda record: (patched(record("t"), 0, bytes(4)), 1),
    "negative size": lambda record: (patched(record("t"), 0, b"\xff\xff\xff\xff"), 1),
    "lying body length": lambda record: (patched(record("t"), 84, b"\x7f\xff\xff\xff"), 1),
    "negative body length": lambda record: (patched(record("t"), 84, b"\x80\0\0\0"), 1),
    "another topic": lambda record: (record("u"), 1),
    "another topic second": lambda record: (record("t") + record("u"), 2),
    "body over the limit": lambda record: (record("t", bytes((64 << 10) + 1)), 1),
    "second of a good one": lambda record: (record("t") + bytes(91), 2),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_batch_is_refused_and_nothing_is_written(broker: Any, record: Record, name: str) -> None:
    broker.create("t")
    broker.create("u")
    broker.send("t", record("t", b"before"))
    written = broker.written()
    payload, count = ILLEGAL[name](record)
    with pytest.raises((MessageIllegal, MessageTooLarge)):
        broker.call(commands.SendMessages("t", 0, count), payload)
    assert broker.written() == written
    broker.send("t", record("t", b"after"))
    assert [message.body for message in broker.pull("t")[1]] == [b"before", b"after"]


@pytest.mark.parametrize(
    ("topic", "queue_id", "kind"),
    [
        ("../../etc/x", 0, InvalidName),
        ("a\0b", 0, InvalidName),
        ("x" * 128, 0, InvalidName),
        ("", 0, InvalidName),
        ("unknown", 0, TopicNotFound),
        ("t", 2, InvalidParameter),
        ("t", -1, InvalidParameter),
        ("t", 1 << 40, (InvalidParameter, ZenitError)),
        ("readonly", 0, NoPermission),
        ("rmq_sys_zenit_offsets", 0, NoPermission),
        ("SCHEDULE_TOPIC_XXXX", 0, NoPermission),
    ],
)
def test_a_send_to_a_wrong_place_is_refused(broker: Any, record: Record, topic: str, queue_id: int, kind: Any) -> None:
    broker.create("t")
    broker.create("readonly", permission=4)
    written = broker.written()
    with pytest.raises(kind):
        broker.call(commands.SendMessages(topic, queue_id, 1), record("t"))
    assert broker.written() == written
    assert not os.path.exists("/etc/x")


def test_a_refused_batch_between_good_ones_harms_neither(broker: Any, record: Record) -> None:
    """All in one turn or not: refused payloads are overwritten by the next."""
    broker.create("t")
    answers: list[Any] = []
    for number in range(200):
        payload = record("t", b"%d" % number) if number % 3 else b"\xff" * 300
        broker.client.send_nowait(
            broker.address,
            commands.SendMessages("t", 0, 1),
            payload,
            timeout_ms=10_000,
            on_reply=lambda reply, payload, error: answers.append(error),
        )
    deadline = time.monotonic() + 10
    while len(answers) < 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sum(error is None for error in answers) == 133
    messages = broker.pull("t", max_messages=1000)[1]
    assert sorted(int(message.body) for message in messages) == [number for number in range(200) if number % 3]


def test_random_batches_never_get_in(broker: Any, record: Record) -> None:
    broker.create("t")
    written = broker.written()
    chance = random.Random(7)
    whole = record("t", b"x" * 50, key="k")
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(0, 12)] ^= 1 << chance.randrange(8)
        if bytes(damaged[:8]) == whole[:8]:
            continue  # only the body's checksum, which the producer vouches for
        with pytest.raises(ZenitError):
            broker.call(commands.SendMessages("t", 0, 1), bytes(damaged))
    assert broker.written() == written


def test_two_brokers_on_one_directory_the_second_refuses(serve: Callable[..., Any], record: Record) -> None:
    broker = serve()
    with pytest.raises(StoreLocked):
        serve()
    broker.create("t")
    broker.send("t", record("t"))


def test_a_port_that_is_taken_is_refused_by_key(serve: Callable[..., Any]) -> None:
    port = int(serve("one").address.rpartition(":")[2])
    with pytest.raises(ConfigError):
        serve("two", port=port)


def test_with_synchronous_flush_what_is_answered_is_on_the_disk(serve: Callable[..., Any], record: Record) -> None:
    broker = serve(store={"flush_mode": "sync", "flush_interval_ms": 60_000})
    broker.create("t")
    for number in range(20):
        broker.send("t", record("t", b"%d" % number))
        positions = broker.ask(commands.GetBrokerStatistics())["positions"]
        assert positions["flushed_offset"] == positions["written_offset"]


def test_after_a_failed_flush_nothing_is_acknowledged_and_the_broker_ends(
    serve: Callable[..., Any], record: Record, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = serve(store={"flush_mode": "sync", "flush_interval_ms": 60_000})
    broker.create("t")

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(broker.broker._store._log, "_disk", Disk(fdatasync=fail))
    with pytest.raises(ZenitError):
        broker.call(commands.SendMessages("t", 0, 1), record("t"), timeout_ms=3000)
    broker.thread.join(10)
    assert broker.status == 86
    lines = [
        entry for entry in caplog.records if entry.name == "zenitmq.broker.service" and entry.levelname == "CRITICAL"
    ]
    assert len(lines) == 1


def test_what_a_crash_leaves_behind_opens_to_the_same_state(
    serve: Callable[..., Any], record: Record, tmp_path: Path
) -> None:
    """The directory of a running broker, copied: no snapshot is fresh, all comes from the log."""
    broker = serve()
    broker.create("t")
    broker.send("t", *(record("t", b"old %d" % number) for number in range(5)))
    broker.call(commands.UpdateConsumerOffsets("g", (("t", 0, 5),)))
    broker.call(commands.DeleteTopic("t"))
    broker.create("t", queues=3)
    broker.send("t", record("t", b"new"))
    broker.call(commands.UpdateConsumerOffsets("h", (("t", 0, 1),)))
    asked = [
        commands.GetTopics(),
        commands.GetGroups(),
        commands.GetTopicStatistics("t"),
        commands.GetConsumeStatistics("h"),
    ]
    before = [broker.ask(request) for request in asked]
    shutil.copytree(tmp_path / "store", tmp_path / "image")
    image = serve("image")
    assert [image.ask(request) for request in asked] == before
    assert [message.body for message in image.pull("t")[1]] == [b"new"]
    assert image.call(commands.QueryConsumerOffset("g", "t", 0))[0].offset == -1


SCRIPT = """
import sys
from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.service import run
from zenitmq.store.config import StoreConfig
store = StoreConfig(segment_bytes=1 << 20, index_slots=100, index_entries=200, preallocate_segments=0)
sys.exit(run(BrokerConfig(store_dir=sys.argv[1], port=int(sys.argv[2]), namesrv=("127.0.0.1:1",), store=store)))
"""


def start_process(directory: Path, port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(directory), str(port)], stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_process_ends_in_time_and_the_next_has_everything(
    serve: Callable[..., Any], record: Record, tmp_path: Path, how: str
) -> None:
    helper = serve("helper")
    port = int(helper.address.rpartition(":")[2])
    helper.stop()  # its port is free now
    directory = tmp_path / "process"
    process = start_process(directory, port)
    try:
        deadline = time.monotonic() + 15
        while True:
            try:
                helper.create("t")
                break
            except ZenitError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        for number in range(10):
            helper.send("t", record("t", b"%d" % number))
        helper.call(commands.UpdateConsumerOffsets("g", (("t", 0, 4),)))
        getattr(process, how)()
        assert process.wait(10) == (0 if how == "terminate" else -9)
        assert os.path.exists(directory / "abort") == (how == "kill")
        process = start_process(directory, port)
        deadline = time.monotonic() + 15
        while True:
            try:
                assert [int(message.body) for message in helper.pull("t")[1]] == list(range(10))
                break
            except ZenitError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert helper.call(commands.QueryConsumerOffset("g", "t", 0))[0].offset == 4
        assert helper.ask(commands.GetBrokerStatistics())["epoch"] == 2
    finally:
        process.kill()
        process.wait()


def test_what_keeps_a_replica_from_starting_comes_out_as_it_is(tmp_path: Path) -> None:
    """Not what the way out stumbles over; and nothing is marked as cleanly closed that was never open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = BrokerConfig(
            port=taken.getsockname()[1], store_dir=str(tmp_path), controllers=("127.0.0.1:1",), replica="a-1"
        )
        with pytest.raises(ConfigError, match="bind"), Broker(config):
            pass
    assert not ReplicaFiles.open(str(tmp_path)).start_facts(0).has_clean_marker
