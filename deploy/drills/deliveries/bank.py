"""A bank: each transfer is a local transaction and a transactional message. Its sum is kept if exactly the transfers that were
committed are delivered, each once.

    transfer n:  n % 8 == 0  rolled back          n % 8 == 3  rolled back, and the producer does not say so: the broker asks
                 n % 8 == 5  committed, and the producer dies before it says so: the broker asks          else  committed
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Final

from ....client.transaction_producer import TransactionProducer
from ....model.errors import ZenitError
from ....model.handles.transaction import Resolution
from ....model.message import Message
from ....record.kernel import StoredMessage

EXAMPLES_MAX: Final = 5


class ProducerGone(Exception):
    """The local transaction is committed, and its producer ends here."""


class Bank:
    """What was decided, transfer by transfer, as a database would keep it. Any thread."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._numbers = count(1)
        self._lock = threading.Lock()
        self.decided: dict[int, bool] = {}

    def next_transfer(self) -> Message:
        """The message of the next transfer."""
        return Message(self._topic, b"%d" % next(self._numbers))

    def execute(self, message: Message) -> Resolution:
        """The local transaction. Raises ProducerGone."""
        number = int(message.body)
        with self._lock:
            is_committed = self.decided.setdefault(number, number % 8 not in (0, 3))
        if number % 8 == 5:
            raise ProducerGone
        if number % 8 == 3:
            return Resolution.UNKNOWN
        return Resolution.COMMIT if is_committed else Resolution.ROLLBACK

    def check(self, message: StoredMessage) -> Resolution:
        """What became of a transfer; one that was never executed was not committed, and never will be."""
        with self._lock:
            is_committed = self.decided.setdefault(int(message.body), False)
        return Resolution.COMMIT if is_committed else Resolution.ROLLBACK

    @property
    def committed(self) -> int:
        """How many transfers are."""
        return sum(self.decided.values())


def transfer_until(stop: threading.Event, bank: Bank, producer: TransactionProducer, interval_ms: float) -> int:
    """Transfers one after the other until it is stopped; returns how many sends failed."""
    failed = 0
    while not stop.wait(interval_ms / 1000):
        try:
            producer.send(bank.next_transfer(), bank.execute, timeout=3.0)
        except ProducerGone:
            continue
        except ZenitError:
            failed += 1
    return failed


def wrong_transfers(decided: dict[int, bool], delivered: Iterable[int]) -> list[str]:
    """What breaks the sum, as text. `delivered`: the numbers of all messages that consumers can read."""
    times = Counter(delivered)
    wrong = {
        "was committed and is not delivered": [
            n for n, is_committed in decided.items() if is_committed and n not in times
        ],
        "was not committed and is delivered": [n for n in times if not decided.get(n, False)],
        "is delivered more than once": [n for n, seen in times.items() if seen > 1],
    }
    return [f"{len(numbers)} transfers, {numbers[:EXAMPLES_MAX]}: {what}" for what, numbers in wrong.items() if numbers]
