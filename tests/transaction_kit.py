"""A store, its index of half messages, and what decides them, turn by turn."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from delay_kit import Loop
from store_kit import StillClock, make_store, read_queue

from zenitmq.broker.transaction.half_index import Halves, open_half_index
from zenitmq.broker.transaction.half_records import half_record
from zenitmq.broker.transaction.half_rules import HalfRules
from zenitmq.broker.transaction.transactions import Outcome, Question, Transactions
from zenitmq.model.handles.transaction import Resolution, TransactionId
from zenitmq.model.names import HALF_TOPIC
from zenitmq.model.properties import encode_properties
from zenitmq.model.queue import QueueOffset
from zenitmq.record.kernel import StoredMessage, decode_record, encode_record
from zenitmq.record.sys_flag import SEQUENCED
from zenitmq.store.message_store import MessageStore

RULES = HalfRules(timeout_ms=6000, interval_ms=30_000, checks_max=3)
BROKER = "broker-a"


def plain(body: bytes, message_id: str, **properties: str) -> StoredMessage:
    """A message as its sender made it; "": without an id."""
    named = {"UNIQ_KEY": message_id, **properties} if message_id else properties
    record = encode_record(
        topic=b"t", body=body, properties=encode_properties(named), born_timestamp_ms=1, sys_flag=SEQUENCED
    )
    return decode_record(bytes(record))


class Scene:
    """`asked`: (group, which, where its half message begins, body) of each question. `turn`: what the loop does."""

    def __init__(
        self, directory: Path, clock: StillClock, *, rules: HalfRules = RULES, settle_ms: int = 0, **sizes: int
    ) -> None:
        self.clock, self.loop = clock, Loop()
        self.damages = 0
        self.leads = True
        self.queues = {"t": 4, "u": 1}
        self.made_at: dict[str, int] = {}
        self.asked: list[tuple[str, TransactionId, int, bytes]] = []
        halves = Halves(rules, str(directory))
        self.index = open_half_index(str(directory), halves, clock=clock)
        self.store: MessageStore = make_store(
            directory, clock, dispatchers=(self.index,), **{"segment_bytes": 1 << 16, **sizes}
        )
        with ExitStack() as failed:
            failed.callback(self.index.close)
            self.store.__enter__()
            failed.pop_all()
        self.index.on_opened(lambda: self.store.written)
        halves.locate = lambda place: self.store.position_of(HALF_TOPIC, place[0], QueueOffset(place[1]))
        self.halves = halves
        self.transactions = Transactions(
            self.store,
            self.index,
            halves,
            self.loop,
            clock,
            rules,
            leads=lambda: self.leads,
            on_damaged=self.on_damaged,
            queues_of=lambda topic: self.queues.get(topic, 0),
            made_at=lambda topic: self.made_at.get(topic, 0),
            ask=self.on_ask,
            settle_ms=settle_ms,
            broker_name=BROKER,
            store_host_bytes=8,
        )
        self.transactions.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.is_closing = True
        self.store.__exit__(None, None, None)
        self.index.close()

    def on_damaged(self) -> None:
        """The broker opens its store again then."""
        self.damages += 1

    def on_ask(self, question: Question) -> None:
        """Somebody of the group is asked."""
        body = decode_record(question.record).body
        self.asked.append((question.group, question.which, question.half_offset, body))

    def turn(self) -> None:
        """Runs what is due on the loop."""
        (_, callback), *self.loop.later = self.loop.later
        callback()
        self.store.commit()

    def pass_ms(self, ms: int) -> None:
        """So much later, and a look at the clock."""
        self.clock.time_ms += ms
        self.turn()

    def send(self, body: bytes = b"pay", message_id: str = "A1", queue_id: int = 2, **properties: str) -> TransactionId:
        """A half message of group g."""
        record = half_record(plain(body, message_id, **properties), "t", queue_id, "g", 8)
        places = self.transactions.stage_halves([record], [], block_bytes=1 << 20, flags=0)
        self.store.commit()
        return TransactionId(BROKER, "t", places[0].physical_offset, message_id)

    def end(
        self,
        which: TransactionId,
        resolution: Resolution = Resolution.COMMIT,
        *,
        group: str | None = "g",
        hint: int = -1,
    ) -> Outcome:
        """As the handler does it, the look-up by key included."""
        outcome = self.transactions.decide(which, resolution, group, hint=hint)
        if outcome is None:
            outcome = self.transactions.decide_found(which, resolution, group, self.transactions.find(which))
        self.store.commit()
        return outcome

    def bodies(self, topic: str = "t", queue_id: int = 2) -> list[bytes]:
        """What a consumer of the queue gets."""
        return [message.body for message in read_queue(self.store, topic, queue_id)]

    @property
    def waiting(self) -> int:
        """How many are not decided."""
        return len(self.transactions.listed(0, 1 << 20))
