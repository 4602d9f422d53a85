"""Engines in this process: who shares one, how long it lives, and what it refuses."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from zenitmq import (
    FIRST,
    Admin,
    ConnectionLost,
    InvalidParameter,
    Message,
    NoRoute,
    Producer,
    PullConsumer,
    SimpleConsumer,
    TopicNotFound,
)
from zenitmq.client.connection.engine_url import parse_engine
from zenitmq.local import memory_directory
from zenitmq.local.engine import EngineThreads
from zenitmq.local.engines import HeldEngine, open_engine
from zenitmq.testing import MemoryCluster

WAIT_S = 30


def run_program(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


class Outcome:
    """Of a call in another thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:  # noqa: BLE001  # whatever it is, the test looks at it
            self._value = error

    def result(self) -> Any:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def read(namesrv: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with PullConsumer("reader", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        for _ in range(WAIT_S):
            found += [message.body for message in consumer.poll(timeout=1.0)]
            if len(found) >= count:
                break
    return found


def send(namesrv: str, topic: str, *texts: bytes) -> None:
    with Producer(namesrv=namesrv) as producer:
        for text in texts:
            producer.send(Message(topic, text))


def create(namesrv: str, topic: str) -> None:
    with Admin(namesrv) as admin:
        admin.create_topic(topic, queues=1)


def test_memory_stays_while_its_name_is_used_and_names_are_apart() -> None:
    with MemoryCluster() as one, MemoryCluster() as other:
        assert one.namesrv != other.namesrv
        one.create_topic("t", queues=1)
        send(one.namesrv, "t", b"kept")  # its last client is closed then
        assert read(one.namesrv, "t", 1) == [b"kept"]
        with Producer(namesrv=other.namesrv) as producer, pytest.raises(TopicNotFound):
            producer.send(Message("t", b"x"))
    with Producer(namesrv=one.namesrv) as producer, pytest.raises(TopicNotFound):
        producer.send(Message("t", b"of the next one by that name, which is empty"))


def left_in_memory() -> set[str]:
    """The directories of programs that are gone: nobody locks them."""
    found = set()
    for place in ("/dev/shm", tempfile.gettempdir()):
        for name in os.listdir(place):
            if name.startswith(memory_directory.PREFIX):
                with contextlib.suppress(OSError):
                    lock = os.open(os.path.join(place, name), os.O_RDONLY)
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        found.add(name)
                    finally:
                        os.close(lock)
    return found


def test_memory_leaves_nothing_and_is_on_disk_only_without_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **where: made.append(make(**where)) or made[-1])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for room, place in ((memory_directory.ROOM_BYTES, None), (1 << 60, str(tmp_path))):
        monkeypatch.setattr(memory_directory, "ROOM_BYTES", room)
        wanted = place or ("/dev/shm" if memory_directory.has_room("/dev/shm") else str(tmp_path))
        with MemoryCluster() as cluster:
            cluster.create_topic("t")
            assert os.path.dirname(made[-1]) == wanted
    assert len(made) == 2
    assert not any(map(os.path.exists, made))


@pytest.mark.parametrize("scheme", ["embedded", "local"])
def test_a_directory_is_opened_again_and_belongs_to_one_program_at_a_time(tmp_path: Path, scheme: str) -> None:
    namesrv = f"{scheme}://{tmp_path}/store"
    create(namesrv, "t")
    send(namesrv, "t", b"kept")
    with Producer(namesrv=namesrv):
        done = run_program("import sys, zenitmq; zenitmq.Admin(sys.argv[1])", namesrv)
        assert (done.returncode, "StoreLocked" in done.stderr) == (1, True), done.stderr
    assert read(namesrv, "t", 1) == [b"kept"]
    done = run_program(READER, namesrv)
    assert (done.returncode, done.stdout) == (0, "['kept']\n"), done.stderr


READER = """
import sys
from zenitmq import FIRST, PullConsumer
with PullConsumer("another", namesrv=sys.argv[1], start_from=FIRST) as consumer:
    consumer.subscribe("t")
    print([message.body.decode() for message in consumer.poll(timeout=20)])
"""

KILLED = """
import os, signal, sys
from zenitmq import Message, Producer
producer = Producer(namesrv=sys.argv[1])
for number in range(50):
    producer.send(Message("t", b"%d" % number))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    namesrv = f"local://{tmp_path}/store"
    create(namesrv, "t")
    assert run_program(KILLED, namesrv).returncode == -signal.SIGKILL
    assert sorted(read(namesrv, "t", 50), key=int) == [b"%d" % number for number in range(50)]


LEFT_OPEN = """
import sys
from zenitmq import Admin, Message, Producer
admin = Admin(sys.argv[1])
admin.create_topic("t", queues=1)
producer = Producer(namesrv=sys.argv[1])
for number in range(1000):
    producer.post("t", b"%d" % number)
"""


@pytest.mark.parametrize("scheme", ["memory", "embedded", "local"])
def test_a_program_may_end_without_closing_anything(tmp_path: Path, scheme: str) -> None:
    namesrv = "memory://left" if scheme == "memory" else f"{scheme}://{tmp_path}/store"
    done = run_program(LEFT_OPEN, namesrv)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    if scheme != "memory":
        assert len(read(namesrv, "t", 1000)) == 1000
        assert not os.path.exists(tmp_path / "store" / "abort")


def in_child(namesrv: str, told: multiprocessing.connection.Connection) -> None:
    try:
        with Admin(namesrv) as admin:
            told.send([topic for topic in admin.topics() if topic == "t"])
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent looks at it
        told.send(type(error).__name__)


@pytest.mark.parametrize(
    ("method", "of_memory", "of_directory"),
    [("spawn", [], "StoreLocked"), ("fork", "InvalidParameter", "InvalidParameter")],
)
@pytest.mark.parametrize("scheme", ["embedded", "local"])
def test_a_child_has_no_part_in_the_engine(
    tmp_path: Path, scheme: str, method: str, of_memory: object, of_directory: object
) -> None:
    context = multiprocessing.get_context(method)
    with MemoryCluster() as cluster:
        cluster.create_topic("t")
        local = f"{scheme}://{tmp_path}/store"
        with Producer(namesrv=local):
            for namesrv, expected in ((cluster.namesrv, of_memory), (local, of_directory)):
                mine, its = context.Pipe()
                child = context.Process(target=in_child, args=(namesrv, its))
                child.start()
                assert mine.poll(WAIT_S)
                assert mine.recv() == expected
                child.join(WAIT_S)
                assert child.exitcode == 0
            send(cluster.namesrv, "t", b"the parent goes on")


@pytest.mark.parametrize(
    "namesrv",
    [
        "memory://no spaces",
        "memory://a/b",
        "local://relative",
        "local://",
        "local:///",
        "local:///..",
        "embedded://relative",
        "embedded:///",
        "redis://x",
        "://",
    ],
)
def test_a_name_that_names_no_engine_is_refused(namesrv: str) -> None:
    with pytest.raises(InvalidParameter, match=r"memory://NAME|(local|embedded):///DIRECTORY"):
        Producer(namesrv=namesrv)


@pytest.mark.parametrize("scheme", ["embedded", "local"])
def test_a_directory_that_cannot_be_made_is_told_in_one_line(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameter, match=r"may be written: (Not a directory|File exists) \(.*file"):
        Producer(namesrv=f"{scheme}://{tmp_path}/file/store")
    with pytest.raises(InvalidParameter, match="may be written: File exists") as told:
        Producer(namesrv=f"{scheme}://{tmp_path}/file")
    assert "\n" not in str(told.value)


def test_a_directory_whose_queues_were_converted_is_opened(tmp_path: Path) -> None:
    store = tmp_path / "store"
    namesrv = f"local://{store}"
    create(namesrv, "t")
    send(namesrv, "t", b"by files")
    zenit = str(Path(sys.executable).with_name("zenit"))
    done = subprocess.run(
        [zenit, "store", "convert", str(store), "--to", "rocksdb"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    send(namesrv, "t", b"by rows")
    assert read(namesrv, "t", 2) == [b"by files", b"by rows"]


def test_the_environment_may_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with MemoryCluster() as cluster:
        monkeypatch.setenv("ZENIT_NAMESRV", cluster.namesrv)
        with Admin() as admin:
            admin.create_topic("t")
        with Admin(cluster.namesrv) as admin:
            assert "t" in admin.topics()


def test_clients_that_outlive_their_engine_are_told_at_once() -> None:
    with MemoryCluster() as cluster:
        cluster.create_topic("t", queues=1)
        producer, consumer = Producer(namesrv=cluster.namesrv), SimpleConsumer("g", namesrv=cluster.namesrv)
        consumer.subscribe("t")
        consumer.receive(1, wait=0)
        waiting = Outcome(lambda: consumer.receive(1, wait=WAIT_S))
        producer.send(Message("t", b"x"))
        assert [message.body for message in waiting.result()] == [b"x"]
        waiting = Outcome(lambda: consumer.receive(1, wait=WAIT_S))
    begun = time.monotonic()
    for fails in (
        waiting.result,
        lambda: producer.send(Message("t", b"x"), timeout=WAIT_S),
        lambda: producer.send_async(Message("t", b"x")).result(WAIT_S),
    ):
        with pytest.raises((ConnectionLost, NoRoute)):
            fails()
    assert time.monotonic() - begun < WAIT_S / 3
    consumer.close()
    producer.close()


@contextmanager
def opened(namesrv: str) -> Iterator[EngineThreads]:
    """The threads of an engine."""
    held = cast(HeldEngine, open_engine(parse_engine("namesrv", namesrv)))
    try:
        yield cast(EngineThreads, held._engine)
    finally:
        held.release()


def test_a_broker_that_opens_its_store_again_goes_on(tmp_path: Path) -> None:
    namesrv = f"local://{tmp_path}/store"
    with opened(namesrv) as engine:
        create(namesrv, "t")
        with (
            Producer(namesrv=namesrv) as producer,
            PullConsumer("before", namesrv=namesrv, start_from=FIRST) as consumer,
        ):
            consumer.subscribe("t")
            producer.send(Message("t", b"before"))
            assert [message.body for message in consumer.poll(timeout=WAIT_S)] == [b"before"]
            engine.broker.on_reopen_needed()
            for _ in range(100 * WAIT_S):
                try:
                    producer.send(Message("t", b"after"), timeout=WAIT_S)
                except (ConnectionLost, NoRoute):
                    time.sleep(0.01)
                else:
                    break
            assert [message.body for message in consumer.poll(timeout=WAIT_S)] == [b"after"]
        assert read(namesrv, "t", 2) == [b"before", b"after"]


def test_a_broker_whose_disk_failed_lets_its_clients_go(tmp_path: Path) -> None:
    namesrv = f"local://{tmp_path}/store"
    with opened(namesrv) as engine:
        create(namesrv, "t")
        with Producer(namesrv=namesrv) as producer:
            producer.send(Message("t", b"before"))
            engine.broker.on_fatal()
            with pytest.raises((ConnectionLost, NoRoute)):
                producer.send(Message("t", b"after"), timeout=2.0)


@pytest.mark.parametrize("scheme", ["memory", "local"])
def test_an_engine_that_ended_by_itself_is_begun_anew_by_the_next_client(tmp_path: Path, scheme: str) -> None:
    namesrv = "memory://ended" if scheme == "memory" else f"local://{tmp_path}/store"
    with opened(namesrv) as engine:
        create(namesrv, "t")
        with Producer(namesrv=namesrv) as producer:
            producer.send(Message("t", b"before"))
            engine.broker.on_fatal()
            with pytest.raises((ConnectionLost, NoRoute)):
                producer.send(Message("t", b"lost"), timeout=2.0)
            for _ in range(100 * WAIT_S):
                if engine.has_ended:
                    break
                time.sleep(0.01)
            if scheme == "memory":  # its messages are gone, and so are its topics
                create(namesrv, "t")
            with Producer(namesrv=namesrv) as another:
                another.send(Message("t", b"after"), timeout=WAIT_S)
            with pytest.raises((ConnectionLost, NoRoute)):
                producer.send(Message("t", b"lost"), timeout=1.0)
        kept = [b"after"] if scheme == "memory" else [b"before", b"after"]
        assert read(namesrv, "t", len(kept)) == kept


def test_a_directory_is_the_same_by_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to("store")
    create(f"local://{tmp_path}/store", "t")
    with Admin(f"local://{tmp_path}/store"):
        for name in (f"{tmp_path}/link", f"/{tmp_path}/store", f"{tmp_path}/store/", f"{tmp_path}/link/../store"):
            with Admin(f"local://{name}") as admin:
                assert admin.topics() == ["t"]


WORKS_ON = """
import atexit, multiprocessing, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from zenitmq import Admin, ClientClosed, Message, Producer, TopicNotFound

def work(namesrv):
    producer = Producer(namesrv=namesrv)
    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=1)
    over = threading.Event()

    def send(text):
        over.wait(0.5)
        producer.send(Message("t", text))
        print(text.decode() + "\\n", end="", flush=True)  # in one piece

    def send_on():
        try:
            while True:
                with Producer(namesrv=namesrv) as another:
                    another.send(Message("t", b"on"))
        except (ClientClosed, TopicNotFound):  # the second: the engine had ended, and one was made anew for it
            pass

    ThreadPoolExecutor(1).submit(send, b"pool")
    threading.Thread(target=send, args=(b"thread",)).start()
    threading.Thread(target=send_on, daemon=True).start()
    atexit.register(send, b"atexit")

if __name__ == "__main__":
    if sys.argv[2] == "child":
        child = multiprocessing.get_context("fork").Process(target=work, args=(sys.argv[1],))
        child.start()
        child.join(40)
        sys.exit(child.exitcode)
    work(sys.argv[1])
"""


@pytest.mark.parametrize("scheme", ["memory", "embedded", "local"])
@pytest.mark.parametrize("where", ["program", "child"])
def test_what_still_works_when_the_main_thread_has_ended_has_its_engine(
    tmp_path: Path, scheme: str, where: str
) -> None:
    before = left_in_memory()
    done = run_program(WORKS_ON, "memory://on" if scheme == "memory" else f"{scheme}://{tmp_path}/store", where)
    of_atexit = [] if where == "child" and sys.version_info < (3, 13) else ["atexit"]
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, [*of_atexit, "pool", "thread"], "")
    assert left_in_memory() <= before
    assert not os.path.exists(tmp_path / "store" / "abort")


INTERRUPTED = """
import signal, sys, time
from zenitmq import FIRST, Admin, Message, Producer, PullConsumer

class Stop(Exception):
    pass

def stop(number, frame):
    if armed:
        armed.clear()
        raise Stop

namesrv, armed, told, stopped = sys.argv[1], [], {}, 0
with Admin(namesrv) as admin:
    admin.create_topic("t", queues=1)
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
with Producer(namesrv=namesrv) as producer:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            armed.append(True)
            receipt = producer.send(Message("t", b"%d" % len(told)))
            armed.clear()
        except Stop:
            stopped += 1
        else:
            assert told.setdefault(receipt.queue_offset, b"%d" % len(told)) == b"%d" % (len(told) - 1)
    signal.setitimer(signal.ITIMER_REAL, 0)
found = {}
with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
    consumer.subscribe("t")
    while len(batch := consumer.poll(timeout=1)):
        found.update((message.queue_offset, message.body) for message in batch)
assert stopped > 10, stopped
assert told.items() <= found.items()
assert sorted(found) == list(range(len(found)))
"""


@pytest.mark.parametrize("scheme", ["memory", "embedded", "local"])
def test_what_a_signal_handler_raises_leaves_the_engine_whole(tmp_path: Path, scheme: str) -> None:
    done = run_program(INTERRUPTED, "memory://stopped" if scheme == "memory" else f"{scheme}://{tmp_path}/store")
    assert done.returncode == 0, done.stderr
