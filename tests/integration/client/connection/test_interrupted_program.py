"""A program whose alarm clock rings a thousand times within calls of its clients, each time with an exception."""

from __future__ import annotations

import subprocess
import sys

import pytest

ALARMS = 1_000

BEGIN = f"""
import collections, faulthandler, random, signal, sys
import zenitmq
from zenitmq import FIRST, Message, Producer, PullConsumer

faulthandler.dump_traceback_later(90, exit=True)  # something waits for ever
NAMESRV, CLIENTS = sys.argv[1], zenitmq.__path__[0] + "/"
chance = random.Random(int(sys.argv[2]))

class Rang(BaseException):
    pass

def ring(_signal, frame):
    while frame is not None:
        if frame.f_code.co_filename.startswith(CLIENTS):
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # where what is raised is ignored, as in a destructor
            raise Rang
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, 0.0001)  # the program's own code: a little later

signal.signal(signal.SIGALRM, ring)

def until_it_rings(call):
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.002))
        while True:
            call()
    except Rang:
        signal.setitimer(signal.ITIMER_REAL, 0)

def everything():
    handed, number = set(), 0
    producer = Producer(namesrv=NAMESRV, batch_bytes=4096, idempotent=sys.argv[3] == "idempotent")

    def next_body():
        nonlocal number
        number += 1
        return b"%d" % number

    def post():
        body = next_body()
        producer.post("trades", body)
        handed.add(body)

    def post_with_key():
        body = next_body()
        producer.post("trades", body, sharding_key="k")
        handed.add(body)

    def send_async():
        body = next_body()
        producer.send_async(Message("trades", body))
        handed.add(body)

    def send():
        body = next_body()
        producer.send(Message("trades", body))
        handed.add(body)

    def send_batch():
        bodies = [next_body(), next_body()]
        producer.send_batch([Message("trades", body) for body in bodies])
        handed.update(bodies)

    calls = [post, post_with_key, send_async, send, send_batch, producer.flush]
    for _ in range({ALARMS}):
        until_it_rings(chance.choice(calls))
    producer.flush(30)
    producer.close()
    return handed, number
"""

PRODUCER = """
handed, number = everything()
stored = collections.Counter()
with PullConsumer("readers", namesrv=NAMESRV, start_from=FIRST) as consumer:
    consumer.subscribe("trades")
    while handed:
        batch = consumer.poll(1000, timeout=5)
        assert batch, f"{len(handed)} messages are lost"
        handed.difference_update(message.body for message in batch)
        stored.update(message.body for message in batch)
twice = [body for body, count in stored.items() if count > 1]
assert sys.argv[3] == "plain" or not twice, f"stored twice: {twice[:5]}"
print("fine", len(stored))
"""

CONSUMER = f"""
COUNT = 20_000
with Producer(namesrv=NAMESRV) as producer:
    for number in range(COUNT):
        producer.post("trades", b"%d" % number)
got = collections.Counter()
consumer = PullConsumer("readers", namesrv=NAMESRV, start_from=FIRST, prefetch_bytes=65_536, pull_bytes=65_536)
consumer.subscribe("trades")

def poll():
    got.update(message.body for message in consumer.poll(chance.randrange(1, 12), timeout=1))

for _ in range({ALARMS}):
    until_it_rings(chance.choice([poll, poll, poll, consumer.commit]))
while len(got) < COUNT:
    batch = consumer.poll(1000, timeout=30)
    assert batch, f"{{COUNT - len(got)}} messages never came"
    got.update(message.body for message in batch)
assert set(got.values()) == {{1}}, f"came twice: {{[body for body, count in got.items() if count > 1][:5]}}"
consumer.close()
with PullConsumer("readers", namesrv=NAMESRV) as next_one:
    next_one.subscribe("trades")
    assert not next_one.poll(1, timeout=1), "not all is committed"
print("fine", len(got))
"""


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("kind", ["plain", "idempotent"])
def test_a_producer_goes_on(namesrv: str, kind: str) -> None:
    """What was handed over is stored, by an idempotent one once; nothing waits for ever."""
    run(PRODUCER, namesrv, kind)


@pytest.mark.usefixtures("admin")
def test_a_consumer_goes_on(namesrv: str) -> None:
    """Every message comes once, in whichever poll; nothing waits for ever."""
    run(CONSUMER, namesrv, "")


def run(program: str, namesrv: str, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, namesrv, "1", kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fine"), done.stderr
