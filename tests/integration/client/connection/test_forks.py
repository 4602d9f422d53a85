"""A process that forks while its clients are at work: the child gets going, and what it inherited does nothing there."""

from __future__ import annotations

import subprocess
import sys

WHILE_SENDING = """
import os, signal, sys, threading, time
from zenitmq import Message, Producer

producer = Producer(namesrv=sys.argv[1])
ended = threading.Event()

def work():
    while not ended.is_set():
        producer.send(Message("trades", b"x"))

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(0.2)
hung = 0
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0)
    give_up = time.monotonic() + 5
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            hung += 1
            break
        time.sleep(0.002)
    if hung:
        break
ended.set()
for thread in threads:
    thread.join()
producer.close()
sys.exit(hung)
"""

INHERITED = """
import asyncio, os, signal, sys
from zenitmq import Admin, ClientClosed, FIRST, Message, Producer, PullConsumer, PushConsumer, aio
import zenitmq.client.connection.connection as connections

namesrv = sys.argv[1]
producer = Producer(namesrv=namesrv)
older = producer._connection
connections._open.clear()  # as where the cluster was found to be another one: who has a connection keeps it
consumer, admin = PullConsumer("pulls", namesrv=namesrv, start_from=FIRST), Admin(namesrv)
consumer.subscribe("trades")
pushed = PushConsumer("pushes", namesrv=namesrv, start_from=FIRST)
pushed.subscribe("trades")
pushed.on_message(lambda messages: None)
pushed.start()
producer.send(Message("trades", b"x"))
producer.post("trades", b"y")
while not len(consumer.poll(10)):
    pass

async def story():
    posting = aio.Producer(namesrv=namesrv)
    await posting.send(Message("trades", b"z"))
    posting.post("trades", b"z")
    child = os.fork()
    if child:
        await posting.close()
        return child
    try:
        await posting.close()
    except BaseException as error:
        print("aio", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)

children = [asyncio.run(story()), os.fork()]
if children[1] == 0:
    signal.alarm(20)
    failures = []
    for inherited in (producer, consumer, pushed, admin):
        try:
            inherited.close()
            with inherited:
                pass
        except ClientClosed as error:
            failures += [(inherited, error)] if inherited is not pushed else []
        except BaseException as error:
            failures.append((inherited, error))
    if not older.is_forked:
        failures.append("one of two connections does not know of the fork")
    print(failures, file=sys.stderr, flush=True)
    os._exit(1 if failures else 0)
status = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
for ours in (producer, consumer, pushed, admin):
    ours.close()
sys.exit(any(status))
"""


def run(script: str, namesrv: str) -> None:
    child = subprocess.run([sys.executable, "-c", script, namesrv], timeout=60, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


def test_a_fork_beside_a_thread_that_sends_gets_going(namesrv: str, new_broker) -> None:
    new_broker("a", trades=1)
    run(WHILE_SENDING, namesrv)


def test_a_child_may_close_what_it_inherited(namesrv: str, new_broker) -> None:
    new_broker("a", trades=1)
    run(INHERITED, namesrv)
