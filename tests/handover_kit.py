"""A broker's store for tests of the hand-over: topics and groups, what waits, and what delivers it, turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from delay_kit import Loop
from store_kit import SMALL, StillClock, make_store, read_queue

from zenitmq.broker.delay.delays import Delays
from zenitmq.broker.delay.pace import Pace
from zenitmq.broker.delay.timer_index import open_timer_index
from zenitmq.broker.delay.timing import DelayRules
from zenitmq.broker.state.admission import queue_count
from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.state_log import GROUPS, TOPICS, StateLog
from zenitmq.model.names import SCHEDULE_TOPIC
from zenitmq.model.route import TopicConfig
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import SEQUENCED
from zenitmq.store.config import DELAY_LEVELS, StoreConfig, parse_delay_levels
from zenitmq.store.message_store import MessageStore

SEGMENT = 1 << 13
CONFIG = StoreConfig(**{**SMALL, "segment_bytes": SEGMENT})


def unique(number: int) -> str:
    return f"{number:032X}"


class Life:
    """A store between a broker's start and its stop."""

    def __init__(self, directory: Path, clock: StillClock, *, config: StoreConfig = CONFIG) -> None:
        self.clock, self.loop = clock, Loop()
        self.state = StateLog(
            str(directory),
            clock=clock,
            persist_interval_ms=1000,
            producers=ProducerTable(retention_ms=1 << 40, entries_max=100),
        )
        rules = DelayRules(parse_delay_levels(DELAY_LEVELS), 1 << 40)
        self.index = open_timer_index(str(directory), rules, clock=clock)
        self.store: MessageStore = make_store(
            directory, clock, dispatchers=(self.state, self.index), segment_bytes=config.segment_bytes
        )
        self.store.__enter__()
        self.state.on_opened(self.store.written)
        self.index.on_opened(lambda: self.store.written)
        self.delays = Delays(
            self.store,
            self.index,
            self.loop,
            clock,
            rules,
            leads=lambda: True,
            on_damaged=lambda: None,
            queues_of=lambda topic: queue_count(self.state.topic_table, topic),
            made_at=self.state.topic_table.made_at,
            pace=Pace(per_second=100_000, per_turn=100),
            store_host_bytes=8,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.is_closing = self.index.is_closing = True
        self.store.__exit__(None, None, None)
        self.index.close()

    def begin(self) -> None:
        self.state.stage(self.store, TOPICS, self.state.topic_table.event_set(TopicConfig("t", 1, 1)))
        self.state.stage(self.store, GROUPS, self.state.group_table.event_set("g"))
        self.store.commit()

    def delay(self, number: int, delay_ms: int, *, topic: str = "t", named: bool = True) -> int:
        properties = {"PSEQ": "p 1"} | ({"UNIQ_KEY": unique(number)} if named else {})
        placed = self.delays.stage_delayed(
            NewRecord(topic=topic, queue_id=0, body=b"%d" % number, properties=properties, sys_flag=SEQUENCED),
            deliver_at_ms=self.clock.time_ms + delay_ms,
        )
        self.store.commit()
        return placed.physical_offset

    def delay_by_level(self, number: int, level: int) -> None:
        named = {"REAL_TOPIC": "t", "REAL_QID": "0", "DELAY": str(level), "UNIQ_KEY": unique(number)}
        self.store.stage_record(
            NewRecord(topic=SCHEDULE_TOPIC, queue_id=level - 1, body=b"%d" % number, properties=named)
        )
        self.store.commit()

    def deliver(self, until_ms: int) -> list[bytes]:
        self.clock.time_ms = until_ms
        self.delays.start()
        for _ in range(8):
            (_, callback), *self.loop.later = self.loop.later
            callback()
            self.store.commit()
        return sorted(record.body for record in read_queue(self.store, "t", 0))
