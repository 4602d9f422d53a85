"""The process of the second load: a bank, and consumers that pop what a producer sends.

    python -m zenitmq.deploy.drills.deliveries.load     one JSON job (DeliveryJob) on standard input, then "stop" or its end

Consumers leave every fifth message without an acknowledgement, so that it comes again. At the end nobody sends any more, and
all must be decided and acknowledged within DRAIN_S. Prints {"ready": true}, {"count": n} now and then, and at the end {"sent":
n, "tries_failed": n, "found": what the process saw}.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

from ....client.admin import Admin
from ....client.consuming.start_from import FIRST
from ....client.producer import Producer
from ....client.pull_consumer import PullConsumer
from ....client.simple_consumer import SimpleConsumer
from ....client.transaction_producer import TransactionProducer
from ....model.clock import monotonic_ms, sleep_ms
from ....model.errors import LeaseExpired, ZenitError
from ....model.message import Message
from ..job_process import Tell, main_of
from .bank import Bank, transfer_until, wrong_transfers
from .pop_book import Place, PopBook

TRANSFERRERS: Final = 2
TRANSFER_MS: Final = 60.0
SEND_MS: Final = 20.0
CONSUMERS: Final = 2
INVISIBLE_S: Final = 3.0
WAIT_S: Final = 1.0
LEFT_SHARE: Final = 0.2
DRAIN_S: Final = 90.0
REPORT_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryJob:
    """`bank`, `popped`: topics."""

    namesrv: str
    bank: str
    popped: str
    seed: int


class _PoppedMessages:
    """The producer of what is popped, and the consumers."""

    def __init__(self, job: DeliveryJob) -> None:
        self._job = job
        self._lock = threading.Lock()
        self.book = PopBook()
        self.sent: set[Place] = set()
        self.failed = 0
        self.is_draining = False

    def send_until(self, stop: threading.Event, producer: Producer) -> None:
        """Notes each message that is acknowledged to the sender."""
        message = Message(self._job.popped, b"x" * 100)
        while not stop.wait(SEND_MS / 1000):
            try:
                receipt = producer.send(message, timeout=3.0)
            except ZenitError:
                self.failed += 1
                continue
            with self._lock:
                self.sent.add((receipt.queue.broker_name, receipt.queue.queue_id, int(receipt.queue_offset)))

    def consume_until(self, stop: threading.Event, consumer: SimpleConsumer, seed: int) -> None:
        """Acknowledges most of what it receives; all of it once nothing is sent any more."""
        chance = random.Random(seed)
        while not stop.is_set():
            called_ms = monotonic_ms()
            try:
                messages = consumer.receive(16, wait=WAIT_S)
            except ZenitError:
                sleep_ms(50)
                continue
            now_ms = monotonic_ms()
            places = [(message.broker_name, message.queue_id, message.queue_offset) for message in messages]
            with self._lock:
                for place in places:
                    self.book.on_received(
                        place, called_ms=called_ms, now_ms=now_ms, invisible_ms=round(INVISIBLE_S * 1000)
                    )
            for place, message in zip(places, messages, strict=True):
                if self.is_draining or chance.random() >= LEFT_SHARE:
                    self._ack(consumer, message, place)

    def _ack(self, consumer: SimpleConsumer, message: Any, place: Place) -> None:
        try:
            consumer.ack(message, wait=True)
        except LeaseExpired:
            return
        except ZenitError:
            with self._lock:
                self.book.on_unsure(place)
            return
        with self._lock:
            self.book.on_acked(place, monotonic_ms())

    def drained(self) -> bool:
        """Whether every message is acknowledged."""
        with self._lock:
            return not self.book.open(self.sent)


def work(job: DeliveryJob, tell: Tell, stop: threading.Event) -> None:
    """Runs everything until `stop`, then until all is decided and acknowledged."""
    logging.getLogger("zenitmq").setLevel(logging.ERROR)  # that brokers are away is the drill's doing
    bank, popping, drained = Bank(job.bank), _PoppedMessages(job), threading.Event()
    group = f"{job.popped}-poppers"
    with ExitStack() as unwind:
        producer = unwind.enter_context(Producer("DRILL-POPPED", namesrv=job.namesrv))
        transactions = unwind.enter_context(TransactionProducer("DRILL-BANK", bank.check, namesrv=job.namesrv))
        failed: list[int] = []
        senders = [
            threading.Thread(target=lambda: failed.append(transfer_until(stop, bank, transactions, TRANSFER_MS)))
            for _ in range(TRANSFERRERS)
        ]
        senders.append(threading.Thread(target=popping.send_until, args=(stop, producer)))
        consumers = []
        for number in range(CONSUMERS):
            consumer = unwind.enter_context(SimpleConsumer(group, namesrv=job.namesrv, invisible=INVISIBLE_S))
            consumer.subscribe(job.popped)
            consumers.append(
                threading.Thread(target=popping.consume_until, args=(drained, consumer, job.seed + number))
            )
        for thread in senders + consumers:
            thread.start()
        try:
            is_told = False
            while not stop.wait(REPORT_MS / 1000):
                if not is_told and bank.committed and popping.book.acked:
                    is_told = True
                    tell({"ready": True})
                tell({"count": popping.book.acked})
            for thread in senders:
                thread.join()
            popping.is_draining = True
            violations = _drain(job, bank, popping)
        finally:
            stop.set()
            drained.set()
            for thread in senders + consumers:
                thread.join()
    book = popping.book
    found = {
        "transfers": bank.committed,
        "popped": book.acked,
        "popped_again": book.returned,
        "pop_late_ms_max": book.late_ms_max,
        "violations": [*violations, *book.violations],
        "again": [asdict(each) for each in book.again],
    }
    tell({"sent": book.acked, "tries_failed": sum(failed) + popping.failed, "found": found})


def _drain(job: DeliveryJob, bank: Bank, popping: _PoppedMessages) -> list[str]:
    """Waits until all is decided and acknowledged; returns what is not, and what is wrong with the bank."""
    deadline_ms = monotonic_ms() + round(DRAIN_S * 1000)
    violations = []
    if not _until(popping.drained, deadline_ms):
        left = sorted(popping.book.open(popping.sent))
        violations.append(f"{len(left)} messages were sent and never acknowledged by a consumer: {left[:5]}")
    with Admin(job.namesrv) as admin:

        def are_decided() -> bool:
            try:
                return not admin.transactions(topic=job.bank)
            except ZenitError:
                return False

        if not _until(are_decided, deadline_ms):
            violations.append(f"undecided transactions are left: {admin.transactions(topic=job.bank)[:2]}")
        delivered = _delivered(job, admin)
    return [*violations, *wrong_transfers(bank.decided, delivered)]


def _delivered(job: DeliveryJob, admin: Admin) -> list[int]:
    """The numbers of all transfers that a consumer can read."""
    count = sum(admin.max_offset(queue) for queue in admin.queues(job.bank))
    deadline_ms = monotonic_ms() + round(DRAIN_S * 1000)
    numbers: list[int] = []
    with PullConsumer(f"{job.bank}-readers", namesrv=job.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(job.bank)
        while len(numbers) < count and monotonic_ms() < deadline_ms:
            numbers += [int(message.body) for message in consumer.poll(timeout=1.0)]
    return numbers


def _until(condition: Any, deadline_ms: int) -> bool:
    while not condition():
        if monotonic_ms() >= deadline_ms:
            return False
        sleep_ms(100)
    return True


if __name__ == "__main__":
    sys.exit(main_of(DeliveryJob, work))
