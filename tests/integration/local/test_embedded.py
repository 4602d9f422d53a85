"""The engine `embedded://`: a kill, a torn end, a full disk, a second program; and who sees what is appended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from zenitmq import (
    FIRST,
    Admin,
    AppendInterceptor,
    EngineLacks,
    InvalidParameter,
    Message,
    MessageBatch,
    MessageIllegal,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
)
from zenitmq.broker.state import state_log
from zenitmq.local.embedded import queue_logs
from zenitmq.local.embedded.engine import EmbeddedEngine
from zenitmq.local.embedded.queue_log import CUT_FOLDER
from zenitmq.model.errors import StoreFormatError, StoreLocked, StoreNotWriteable, StorePoisoned
from zenitmq.store.log.segment import SYSTEM_DISK

WAIT_S = 30.0


@pytest.fixture
def namesrv(tmp_path: Path) -> str:
    name = f"embedded://{tmp_path}/store"
    with Admin(name) as admin:
        admin.create_topic("t", queues=1)
    return name


def send(namesrv: str, *texts: bytes) -> None:
    with Producer(namesrv=namesrv) as producer:
        for text in texts:
            producer.send(Message("t", text))


def read(namesrv: str, count: int, topic: str = "t") -> list[bytes]:
    found: list[bytes] = []
    with PullConsumer("reader", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        end = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < end:
            found += [message.body for message in consumer.poll(timeout=0.5)]
    return found


def log_file(namesrv: str) -> Path:
    (path,) = (Path(namesrv.removeprefix("embedded://")) / "queues" / "t" / "0").iterdir()
    return path


def run_program(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


KILLED = """
import os, signal, sys
from zenitmq import FIRST, Message, Producer, PullConsumer, SimpleConsumer
E = sys.argv[1]
producer = Producer(namesrv=E)
for number in range(200):
    producer.send(Message("t", b"%d" % number))
consumer = PullConsumer("reader", namesrv=E, start_from=FIRST)
consumer.subscribe("t")
taken = 0
while taken < 50:
    taken += len(consumer.poll(max_messages=50 - taken, timeout=1))
consumer.commit()
simple = SimpleConsumer("simple", namesrv=E)
simple.subscribe("t")
first, *rest = simple.receive(3, invisible=300.0)
simple.ack(first, wait=True)
print(first.body.decode(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_messages_offsets_and_leases_survive_a_kill(namesrv: str) -> None:
    done = run_program(KILLED, namesrv)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "0\n"), done.stderr
    assert read(namesrv, 150) == [b"%d" % number for number in range(50, 200)]
    with SimpleConsumer("simple", namesrv=namesrv) as simple:
        simple.subscribe("t")
        assert [message.body for message in simple.receive(3, invisible=10.0, wait=0)] == [b"3", b"4", b"5"]


def test_a_log_goes_on_inside_its_file(namesrv: str) -> None:
    send(namesrv, b"1", b"2")
    before = log_file(namesrv)
    send(namesrv, b"3")
    assert log_file(namesrv) == before
    assert read(namesrv, 3) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kept", [4, 40, 90])
def test_a_torn_last_record_is_cut_and_kept_aside(namesrv: str, kept: int) -> None:
    send(namesrv, b"1", b"2")
    path = log_file(namesrv)
    data = path.read_bytes().rstrip(b"\0")
    size = int.from_bytes(data[:4], "big")
    torn = data[:size] + data[size : size + kept]
    with open(path, "r+b") as file:
        file.seek(len(torn))
        file.write(bytes(len(data) - len(torn) + 8))
    send(namesrv, b"after")
    assert read(namesrv, 2) == [b"1", b"after"]
    (cut,) = (Path(namesrv.removeprefix("embedded://")) / CUT_FOLDER).iterdir()
    assert cut.read_bytes() == torn[size:].rstrip(b"\0")


def test_files_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_logs.QueueLogs.__init__, "__kwdefaults__", {"segment_bytes": 65536, "disk": SYSTEM_DISK})
    namesrv = f"embedded://{tmp_path}/store"
    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=1)
    bodies = [b"%04d" % number + bytes(1000) for number in range(300)]
    for begin in range(0, 300, 100):  # opened again in between
        send(namesrv, *bodies[begin : begin + 100])
    assert len(list((tmp_path / "store" / "queues" / "t" / "0").iterdir())) > 4
    assert read(namesrv, 300) == bodies
    with Producer(namesrv=namesrv) as producer, pytest.raises(MessageIllegal, match="a file of this engine holds"):
        producer.send(Message("t", os.urandom(70_000)))
    with Admin(namesrv) as admin:
        admin.delete_topic("t")
    assert not (tmp_path / "store" / "queues" / "t").exists()


def test_a_second_program_is_refused(namesrv: str) -> None:
    with Producer(namesrv=namesrv):
        done = run_program("import sys, zenitmq; zenitmq.Admin(sys.argv[1])", namesrv)
        assert (done.returncode, "StoreLocked" in done.stderr) == (1, True), done.stderr
        with pytest.raises(StoreLocked):
            EmbeddedEngine(namesrv.removeprefix("embedded://")).__enter__()


def test_each_engine_names_the_one_that_made_the_directory(namesrv: str, tmp_path: Path) -> None:
    with pytest.raises(StoreFormatError, match="open it by embedded:///"):
        Producer(namesrv=namesrv.replace("embedded", "local"))
    with Admin(f"local://{tmp_path}/other"):
        pass
    with pytest.raises(StoreFormatError, match="open it by local:///"):
        Producer(namesrv=f"embedded://{tmp_path}/other")


def test_a_full_disk_refuses_sends_and_leaves_nothing_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_full = threading.Event()

    def pwritev(fd: int, buffers: list, at: int) -> int:
        if not is_full.is_set():
            return os.pwritev(fd, buffers, at)
        os.pwrite(fd, bytes(buffers[0])[:100], at)
        raise OSError(28, "No space left on device")

    disk = replace(SYSTEM_DISK, pwritev=pwritev)
    monkeypatch.setattr(queue_logs.QueueLogs.__init__, "__kwdefaults__", {"segment_bytes": 65536, "disk": disk})
    namesrv = f"embedded://{tmp_path}/store"
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        admin.create_topic("t", queues=1)
        producer.send(Message("t", b"1"))
        is_full.set()
        with pytest.raises(StoreNotWriteable, match="disk full"):
            producer.send(Message("t", b"refused"), timeout=0.3)
        assert b"refused" not in log_file(namesrv).read_bytes()
        is_full.clear()
        producer.send(Message("t", b"2"))
    assert read(namesrv, 2) == [b"1", b"2"]


def test_an_end_on_a_full_disk_loses_nothing_and_raises_nothing(
    namesrv: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write_snapshot(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(state_log, "write_snapshot", write_snapshot)
        send(namesrv, b"1")
        with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe("t")
            assert [message.body for message in consumer.poll(timeout=WAIT_S)] == [b"1"]
            consumer.commit()
    assert "the state cannot be written" in caplog.text
    send(namesrv, b"2")
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("t")
        assert [message.body for message in consumer.poll(timeout=WAIT_S)] == [b"2"]


def test_what_failed_comes_again_even_after_an_end(namesrv: str) -> None:
    calls: list[tuple[bytes, int]] = []

    def handle(messages: list) -> None:
        calls.extend((message.body, message.reconsume_times) for message in messages)
        raise ValueError("a test")

    with Admin(namesrv) as admin:
        admin.create_group("g", {"groupRetryPolicy": '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[700]}}'})
    send(namesrv, b"bad")
    for expected in (1, 2):  # each life sees one more try
        consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST)
        consumer.subscribe("t")
        consumer.on_message(handle)
        with consumer:
            end = time.monotonic() + WAIT_S
            while len(calls) < expected and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.1)
    assert calls[:2] == [(b"bad", 0), (b"bad", 1)]


def test_an_interceptor_sees_each_append_before_its_send_returns(namesrv: str) -> None:
    seen: list[tuple[bytes, int]] = []

    def note(batch: MessageBatch) -> None:
        seen.extend((message.body, message.queue_offset) for message in batch)
        if batch[0].body == b"fails":
            raise ValueError("a test")

    with AppendInterceptor(namesrv, note) as interceptor, Producer(namesrv=namesrv) as producer:
        producer.send(Message("t", b"1"))
        assert seen == [(b"1", 0)]
        producer.send_batch([Message("t", b"2"), Message("t", b"3")])
        assert seen[1:] == [(b"2", 1), (b"3", 2)]
        assert producer.send(Message("t", b"fails")).queue_offset == 3
        producer.send_async(Message("t", b"4")).result(WAIT_S)
        assert seen[-1] == (b"4", 4)
        interceptor.close()
        producer.send(Message("t", b"unseen"))
    assert len(seen) == 5
    assert read(namesrv, 6)[3:] == [b"fails", b"4", b"unseen"]


def test_an_interceptor_may_send(namesrv: str) -> None:
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        admin.create_topic("copies", queues=1)

        def copy(batch: MessageBatch) -> None:
            if batch[0].topic == "t":
                producer.send_bodies("copies", [message.body for message in batch])

        with AppendInterceptor(namesrv, copy):
            send(namesrv, b"1", b"2")
        assert read(namesrv, 2, topic="copies") == [b"1", b"2"]


def test_interceptors_are_of_embedded_engines() -> None:
    with pytest.raises(EngineLacks, match="interceptors"):
        AppendInterceptor("memory://x", print)
    with pytest.raises(InvalidParameter):
        AppendInterceptor("127.0.0.1:9876", print)


def test_an_interceptor_is_a_function(namesrv: str) -> None:
    for wrong in (None, 7):
        with pytest.raises(InvalidParameter, match="on_appended"):
            AppendInterceptor(namesrv, wrong)  # type: ignore[arg-type]


def test_a_message_for_a_lite_topic_is_refused_by_that_name(namesrv: str) -> None:
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        admin.create_topic("plain", queues=1)
        with pytest.raises(EngineLacks, match="has no lite topics"):
            producer.send(Message("plain", b"1", lite_topic="a"))


def test_state_is_compacted_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_logs.QueueLogs.__init__, "__kwdefaults__", {"segment_bytes": 65536, "disk": SYSTEM_DISK})
    namesrv = f"embedded://{tmp_path}/store"
    for round_ in range(3):
        with Admin(namesrv) as admin:
            for number in range(150):
                admin.create_topic(f"t-{round_}-{number}", queues=1)
    with Admin(namesrv) as admin:
        assert len([topic for topic in admin.topics() if topic.startswith("t-")]) == 450
    bases = sorted(path.name for path in (tmp_path / "store" / "state").iterdir())
    assert int(bases[-1]) > 0
    assert len(bases) < 4  # what the snapshots hold is gone


def test_a_disk_that_failed_is_not_trusted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_broken = threading.Event()

    def fdatasync(fd: int) -> None:
        if is_broken.is_set():
            raise OSError(5, "Input/output error")
        os.fdatasync(fd)

    disk = replace(SYSTEM_DISK, fdatasync=fdatasync)
    monkeypatch.setattr(queue_logs.QueueLogs.__init__, "__kwdefaults__", {"segment_bytes": 65536, "disk": disk})
    namesrv = f"embedded://{tmp_path}/store"
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        admin.create_topic("t", queues=1)
        producer.send(Message("t", b"1"))
        is_broken.set()
        producer.send(Message("t", b"2"))  # not flushed yet
        time.sleep(0.5)
        with pytest.raises(StorePoisoned):
            producer.send(Message("t", b"more"), timeout=0.3)


HURRIED = """
import itertools, sys, threading
from zenitmq import FIRST, Message, Producer, PullConsumer
E, seed = sys.argv[1], sys.argv[2]
lock = threading.Lock()
def send(name):
    with Producer(namesrv=E) as producer:
        for number in itertools.count():
            text = f"{seed}-{name}-{number}"
            if number % 3:
                receipt = producer.send(Message("t", text.encode()), sharding_key=str(name))
                receipts = [receipt]
            else:
                messages = [Message("t", f"{text}-{part}".encode()) for part in range(5)]
                receipts = producer.send_batch(messages)
                text = " ".join(message.body.decode() for message in messages)
            with lock:
                print(*(f"{r.queue.queue_id}:{r.queue_offset}={word}" for r, word in zip(receipts, text.split())), flush=True)
def read():
    with PullConsumer("beside", namesrv=E, start_from=FIRST) as consumer:
        consumer.subscribe("t")
        for message in consumer:
            pass
for name in range(3):
    threading.Thread(target=send, args=(name,), daemon=True).start()
read()
"""


def noted(lines: list[str], told: dict[tuple[int, int], str]) -> None:
    """Takes "queue:offset=text ..." of whole lines."""
    for line in lines:
        for word in line.split() if line.endswith("\n") else ():
            place, _, text = word.partition("=")
            queue_id, _, offset = place.partition(":")
            assert told.setdefault((int(queue_id), int(offset)), text) == text


def test_kills_under_load_lose_and_change_nothing(tmp_path: Path) -> None:
    namesrv = f"embedded://{tmp_path}/store"
    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=3)
    told: dict[tuple[int, int], str] = {}
    for seed in range(5):
        command = [sys.executable, "-c", HURRIED, namesrv, str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            noted([program.stdout.readline() for _ in range(100 + 37 * seed)], told)
            program.send_signal(signal.SIGKILL)
            noted(program.stdout.read().splitlines(keepends=True), told)
    found: dict[tuple[int, int], str] = {}
    with PullConsumer("all", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("t")
        end = time.monotonic() + WAIT_S
        while len(batch := consumer.poll(timeout=1.0)) and time.monotonic() < end:
            for message in batch:
                assert found.setdefault((message.queue_id, message.queue_offset), message.body.decode())
    assert told.items() <= found.items()
    for queue_id in range(3):
        offsets = [offset for of_queue, offset in found if of_queue == queue_id]
        assert offsets == list(range(len(offsets)))
