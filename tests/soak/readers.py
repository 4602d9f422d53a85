"""The consumers of a soak: some live as long as the run, others come and go beside them in the same groups."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from zenitmq import FIRST, PullConsumer, PushConsumer, StoredMessage
from zenitmq.model.errors import ZenitError

from .records import identity_of
from .topics import (
    COPIED_GROUP,
    LATER,
    LATER_GROUP,
    ORDERED,
    ORDERED_GROUP,
    PULL_GROUP,
    PUSH_GROUP,
    WORK,
    copies,
)
from .worker import Worker

FAILS_EACH, FAILS_AT = 400, 7  # of so many messages one fails at its first try
STAY_S, OUT_S = (8.0, 45.0), (5.0, 60.0)
SLOTS = (PUSH_GROUP, PULL_GROUP, PULL_GROUP, ORDERED_GROUP)


class HandlerFails(Exception):
    """What a handler raises on purpose."""


class Leaves(Exception):
    """A member's way out with messages in hand."""


def pushing(worker: Worker, group: str, topic: str, member: str, *, ordered: bool = False) -> PushConsumer:
    """A push consumer that writes down what it gets; some messages fail at first."""
    consumer = PushConsumer(
        group, namesrv=worker.job.namesrv, start_from=FIRST, ordered=ordered, concurrency=4, commit_interval=1.0
    )

    def handle(messages: list[StoredMessage]) -> None:
        for message in messages:
            stream, number, _ = identity_of(message.body)
            if number % FAILS_EACH == FAILS_AT and message.reconsume_times == 0 and topic != LATER:
                raise HandlerFails(f"{stream} {number}")
            worker.handled(group, member, message)

    consumer.on_message(handle)
    consumer.subscribe(topic)
    return consumer


def push(worker: Worker) -> None:
    """Concurrent, ordered and delayed ones, for the whole run."""
    with ExitStack() as started:
        for group, topic, ordered in (
            (PUSH_GROUP, WORK, False),
            (ORDERED_GROUP, ORDERED, True),
            (LATER_GROUP, LATER, False),
        ):
            member = f"{worker.job.name}-{group}"
            started.enter_context(pushing(worker, group, topic, member, ordered=ordered))
            worker.moved(group, member, "start")
        worker.stopping.wait()


def pulling(worker: Worker, group: str, topic: str, member: str, until_s: float, *, fails: bool = False) -> None:
    """Polls until then. `fails`: it leaves by an exception."""
    with PullConsumer(group, namesrv=worker.job.namesrv, start_from=FIRST, auto_commit_interval=1.0) as consumer:
        consumer.subscribe(topic)
        while time.monotonic() < until_s and not worker.stopping.is_set():
            try:
                batch = consumer.poll(64, timeout=0.5)
            except ZenitError as error:
                worker.refused("poll", error)
                worker.stopping.wait(0.5)
                continue
            for message in batch:
                worker.handled(group, member, message)
        if fails:
            raise Leaves


def pull(worker: Worker) -> None:
    """Of the work, and of what the stream copied, for the whole run."""

    def reading(group: str, topic: str) -> Callable[[], None]:
        def read() -> None:
            member = f"{worker.job.name}-{group}"
            worker.moved(group, member, "start")
            pulling(worker, group, topic, member, float("inf"))

        return read

    worker.run_all(
        {"work": reading(PULL_GROUP, WORK), "copied": reading(COPIED_GROUP, copies(stream=worker.job.stream))}
    )


def churn(worker: Worker) -> None:
    """Members that come and go, each time in a thread of its own."""
    worker.run_all({f"slot-{slot}": partial(_come_and_go, worker, slot, group) for slot, group in enumerate(SLOTS)})


def _come_and_go(worker: Worker, slot: int, group: str) -> None:
    chance = random.Random(f"{worker.job.seed}.churn.{slot}")
    stay = 0
    scale = worker.job.scale
    while not worker.stopping.wait(scale * chance.uniform(*OUT_S)):
        stay += 1
        thread = threading.Thread(
            target=worker.guarded(
                f"slot {slot}",
                partial(
                    _stay,
                    worker,
                    group,
                    f"{worker.job.name}-{slot}-{stay}",
                    scale * chance.uniform(*STAY_S),
                    fails=chance.random() < 0.5,
                ),
            )
        )
        thread.start()
        thread.join()


def _stay(worker: Worker, group: str, member: str, seconds: float, *, fails: bool) -> None:
    how = "close"
    worker.moved(group, member, "start")
    try:
        if group == PULL_GROUP:
            pulling(worker, group, WORK, member, time.monotonic() + seconds, fails=fails)
        else:
            topic = ORDERED if group == ORDERED_GROUP else WORK
            with pushing(worker, group, topic, member, ordered=group == ORDERED_GROUP):
                worker.stopping.wait(seconds)
    except Leaves:
        how = "exception"
    except ZenitError as error:
        how = "refused"
        worker.refused(f"member of {group}", error)
    finally:
        worker.moved(group, member, how)


def visit(worker: Worker) -> None:
    """A process of a member, for as long as it is let."""
    _stay(worker, PUSH_GROUP, worker.job.name, float(1 << 20), fails=False)
