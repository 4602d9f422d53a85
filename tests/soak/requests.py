"""Requests and replies: threads of one process ask, and come and go; a push consumer in another answers."""

from __future__ import annotations

import itertools
import time

from zenitmq import FIRST, Message, Producer, PushConsumer, StoredMessage
from zenitmq.model.errors import ZenitError

from .records import OK, Asked, body_of, identity_of
from .topics import ANSWER_GROUP, ASKED
from .worker import Worker

RATE, ASKERS, LIFE_S = 2, 2, 9.0


def ask(worker: Worker) -> None:
    """Each request is answered, or refused with an error that has a name."""
    with Producer("soak-asking", namesrv=worker.job.namesrv, timeout=10.0) as producer:

        def asking(stream: str) -> None:
            numbers = itertools.count()

            def one() -> None:
                number, begun_s = next(numbers), time.monotonic()
                try:
                    reply = producer.request(Message(ASKED, body_of(stream, number, 100)), timeout=5.0)
                    outcome = OK if identity_of(reply.body) == (stream, number, 1.0) else "wrong reply"
                except ZenitError as error:
                    outcome = type(error).__name__
                worker.write(Asked(stream, number, (time.monotonic() - begun_s) * 1000, outcome))

            worker.lives(stream, lambda until_s: worker.paced(RATE, until_s, one), seconds=LIFE_S)()

        worker.run_all({f"asker-{number}": lambda number=number: asking(f"asker-{number}") for number in range(ASKERS)})


def answer(worker: Worker) -> None:
    """The reply says which request it is of."""
    with Producer("soak-answering", namesrv=worker.job.namesrv) as producer:

        def handle(requests: list[StoredMessage]) -> None:
            for request in requests:
                stream, number, _ = identity_of(request.body)
                try:
                    producer.reply(request, body_of(stream, number, 100, due_ms=1), timeout=5.0)
                except ZenitError as error:
                    worker.refused("reply", error)

        consumer = PushConsumer(
            ANSWER_GROUP, namesrv=worker.job.namesrv, start_from=FIRST, concurrency=4, commit_interval=1.0
        )
        consumer.on_message(handle)
        consumer.subscribe(ASKED)
        with consumer:
            worker.stopping.wait()
