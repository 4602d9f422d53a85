"""Programs that end without closing their clients: what they posted is stored, or they say that it is not."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from time import monotonic

import pytest
from integration.client.fake_broker import SILENT

from zenitmq import FIRST, Admin, Producer, PullConsumer, aio
from zenitmq.client.connection import program_end
from zenitmq.remoting.commands import SendMessages

TOPIC = "trades"
POSTS = 20_000

BEGIN = f"""
import asyncio, multiprocessing, os, signal, sys, threading, time
from zenitmq import FIRST, Message, Producer, PullConsumer, PushConsumer, aio
from zenitmq.client.connection import program_end

NAMESRV, POSTS = sys.argv[1], {POSTS}

def post(producer, count=POSTS):
    for number in range(count):
        producer.post("trades", b"%d" % number)

def work():
    post(Producer(namesrv=NAMESRV))

async def post_on_loop():
    producer = aio.Producer(namesrv=NAMESRV)
    post(producer)
    return producer
"""

ENDS = {
    "the end of the script": ("producer = Producer(namesrv=NAMESRV); post(producer)", 0),
    "sys.exit": ("producer = Producer(namesrv=NAMESRV); post(producer); sys.exit(3)", 3),
    "an exception": ("producer = Producer(namesrv=NAMESRV); post(producer); 1 / 0", 1),
    "Ctrl-C": (
        "producer = Producer(namesrv=NAMESRV); post(producer); signal.raise_signal(signal.SIGINT)",
        -2,
    ),
    "no reference left": ("work()", 0),
    "a thread": ("threading.Thread(target=work).start()", 0),
    "an event loop": ("producer = asyncio.run(post_on_loop())", 0),
    "a loop that is just closed": (
        "loop = asyncio.new_event_loop(); producer = loop.run_until_complete(post_on_loop()); loop.close()",
        0,
    ),
}


def run(script: str, namesrv: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-c", BEGIN + script, namesrv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def stored(namesrv: str) -> int:
    with Admin(namesrv) as admin:
        return sum(admin.max_offset(queue) for queue in admin.queues(TOPIC))


@pytest.mark.parametrize("name", ENDS)
def test_all_that_was_posted_is_stored(namesrv: str, admin: Admin, name: str) -> None:
    script, code = ENDS[name]
    ended = run(script, namesrv)
    assert stored(namesrv) == POSTS, ended.stderr
    assert ended.returncode == code, ended.stderr
    assert "not acknowledged" not in ended.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing(namesrv: str, admin: Admin, method: str, tmp_path) -> None:
    script = tmp_path / "children.py"
    script.write_text(
        BEGIN
        + f"""
def later():
    time.sleep(0.3)
    work()

def child():
    work()
    threading.Thread(target=later).start()

if __name__ == "__main__":
    own = Producer(namesrv=NAMESRV)
    own.post("trades", b"of the parent, sent by it alone")
    process = multiprocessing.get_context({method!r}).Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
    )
    ended = subprocess.run(
        [sys.executable, str(script), namesrv], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert stored(namesrv) == 2 * POSTS + 1


def test_a_forked_child_sends_nothing_of_its_parent(namesrv: str, admin: Admin) -> None:
    ended = run(
        """
producer = Producer(namesrv=NAMESRV, linger_ms=10_000)
producer.send(Message("trades", b"first"))
producer.post("trades", b"second")
child = os.fork()
if child == 0:
    sys.exit(0)  # runs what its parent registered
os.waitpid(child, 0)
""",
        namesrv,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert stored(namesrv) == 2


def test_what_nobody_acknowledges_is_told_and_the_exit_code_is_not_0(namesrv: str, new_broker: Callable) -> None:
    broker = new_broker("a", trades=1)
    broker.rule = lambda request: SILENT if isinstance(request, SendMessages) else None
    script = """
program_end.EXIT_MS = 300
written = open(sys.argv[2], "w")
written.write("kept though nobody closed it")
producer = Producer(namesrv=NAMESRV)
post(producer, 7)
future = producer.send_async(Message("trades", b"one more"))

async def begin():
    other = aio.Producer(namesrv=NAMESRV)
    post(other, 2)
    return other, other.send_async(Message("trades", b"another"))

kept = asyncio.run(begin())
import time; time.sleep(0.2)  # a batch that is just being sent counts twice for a moment
"""
    import tempfile

    with tempfile.NamedTemporaryFile("r") as file:
        ended = subprocess.run(
            [sys.executable, "-W", "always::ResourceWarning", "-c", BEGIN + script, namesrv, file.name],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert file.read() == "kept though nobody closed it"
    assert ended.returncode == 1, ended.stderr
    assert "zenitmq: 11 messages were not acknowledged" in ended.stderr
    assert ended.stderr.count("not acknowledged before") == 1
    assert "8 of its messages were not acknowledged; call close()" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_who_closes_hears_nothing(namesrv: str, admin: Admin) -> None:
    ended = run("with Producer(namesrv=NAMESRV) as producer: post(producer, 10)", namesrv, "-X", "dev")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert stored(namesrv) == 10


@pytest.mark.parametrize(
    ("script", "begins_at"),
    [
        # What a poll handed out last was perhaps not dealt with.
        (
            """
consumer = PullConsumer("g", namesrv=NAMESRV, start_from=FIRST, auto_commit_interval=100.0)
consumer.subscribe("single")
left = 3
while left:
    left -= len(consumer.poll(left))
consumer.poll(1)
""",
            3,
        ),
        (
            """
async def main():
    consumer = aio.PullConsumer("g", namesrv=NAMESRV, start_from=FIRST, auto_commit_interval=100.0)
    consumer.subscribe("single")
    left = 3
    while left:
        left -= len(await consumer.poll(left))
    await consumer.poll(1)
    return consumer
consumer = asyncio.run(main())
""",
            3,
        ),
        (
            """
done = threading.Semaphore(0)
consumer = PushConsumer("g", namesrv=NAMESRV, start_from=FIRST, commit_interval=100.0)
consumer.subscribe("single")
consumer.on_message(lambda messages: done.release())
consumer.start()
for _ in range(5):
    done.acquire()
""",
            5,
        ),
        (
            """
async def main():
    done = asyncio.Semaphore(0)
    async def handle(messages):
        done.release()
    consumer = aio.PushConsumer("g", namesrv=NAMESRV, start_from=FIRST, commit_interval=100.0, concurrency=1)
    consumer.on_message(handle)
    await consumer.subscribe("single")
    await consumer.start()
    for _ in range(5):
        await done.acquire()
    await asyncio.sleep(0.1)  # the last handler has returned
    return consumer
consumer = asyncio.run(main())
""",
            5,
        ),
    ],
    ids=["pull", "pull on a loop", "push", "push on a loop"],
)
def test_a_consumer_commits_and_leaves(namesrv: str, admin: Admin, script: str, begins_at: int) -> None:
    admin.create_topic("single", queues=1)
    with Producer(namesrv=namesrv) as producer:
        producer.send_bodies("single", [b"%d" % number for number in range(5)])
    began = monotonic()
    ended = run(script, namesrv)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert monotonic() - began < 60
    with Admin(namesrv) as look:
        assert look.group_clients("g")["clients"] == []
    with PullConsumer("g", namesrv=namesrv) as successor:
        (queue,) = admin.queues("single")
        assert successor.committed(queue) == begins_at


def test_a_producer_that_was_dropped_sends_and_is_closed(namesrv: str, admin: Admin) -> None:
    open_before = len(program_end._open)
    for make in (Producer, aio.Producer):
        producer = make(namesrv=namesrv, linger_ms=500)
        gone = weakref.ref(producer)
        if make is Producer:
            producer.post(TOPIC, b"last")
            kept = [producer]
            del producer
            with pytest.warns(ResourceWarning, match="1 of its messages were not acknowledged"):
                kept.clear()
            gc.collect()
        else:
            del producer
            gc.collect()
        assert gone() is None
    pause = threading.Event()
    assert any(len(program_end._open) == open_before or pause.wait(0.05) for _ in range(200))
    assert stored(namesrv) == 1


def test_a_consumer_that_was_dropped_leaves_its_group(namesrv: str, admin: Admin) -> None:
    with Producer(namesrv=namesrv) as producer:
        producer.send_bodies(TOPIC, [b"one"])
    consumer = PullConsumer("g", namesrv=namesrv, start_from=FIRST)
    consumer.subscribe(TOPIC)
    while not len(consumer.poll(timeout=0.5)):
        pass
    assert len(admin.group_clients("g")["clients"]) == 1
    del consumer
    gc.collect()
    pause = threading.Event()
    assert any(not admin.group_clients("g")["clients"] or pause.wait(0.05) for _ in range(200))
