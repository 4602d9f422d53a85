"""Pages of a query, whatever ends them, are together what a list of all messages gives: by key, id, time, text and offset."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from store_kit import StillClock, make_store, put

from zenitmq.record.kernel import decode_record, encode_record
from zenitmq.store.message_store import MessageStore
from zenitmq.store.query import ANY_QUEUE, LogPlace, Page, StoreQuery

QUEUES = 3
WORDS = ("red", "green", "blue")
ENOUGH = 10_000  # pages


@dataclass(frozen=True)
class Sent:
    topic: str
    queue_id: int
    queue_offset: int
    physical: int
    stored_ms: int
    keys: str
    unique: str
    body: bytes


def fill(store: MessageStore, clock: StillClock, draw: Random, count: int) -> list[Sent]:
    sent = []
    for number in range(count):
        topic, queue_id = draw.choice("tu"), draw.randrange(QUEUES)
        keys = " ".join(draw.choices(WORDS, k=draw.randrange(4)))
        unique, body = f"{draw.randrange(count):08X}", b"%s-%d" % (draw.choice(WORDS).encode(), number)
        clock.time_ms += draw.choice((0, 0, 1, 700, 5000))
        is_packed = number % 5 == 0
        record = encode_record(
            topic=topic.encode(),
            body=zlib.compress(body) if is_packed else body,
            properties=f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02".encode(),
            sys_flag=0x301 if is_packed else 0,
        )
        placed = put(store, topic, queue_id, record)
        place = placed.queue_offset, placed.physical_offset, placed.store_timestamp_ms
        sent.append(Sent(topic, queue_id, *place, keys, unique, body))
    return sent


def drawn(draw: Random, sent: list[Sent]) -> dict[str, Any]:
    one = draw.choice(sent)
    criteria: dict[str, Any] = {"topic": one.topic}
    kind = draw.choice(("key", "unique", "text", "none"))
    if kind == "key":
        criteria["key"] = draw.choice((*WORDS, "grey"))
    elif kind == "unique":
        criteria |= {"key": one.unique, "unique": True}
    elif kind == "text":
        criteria["contains"] = draw.choice((b"re", b"blue", b"-1", b"grey"))
    if draw.random() < 0.5:
        times = sorted((one.stored_ms, draw.choice(sent).stored_ms + draw.choice((-1, 0, 1))))
        criteria |= {"begin_ms": times[0], "end_ms": times[1]}
    if draw.random() < 0.4:
        offsets = sorted((one.queue_offset, draw.randrange(6)))
        criteria |= {"queue_id": one.queue_id, "queue_begin": offsets[0], "queue_end": offsets[1]}
    return criteria


def expected(sent: list[Sent], query: StoreQuery) -> list[int]:
    def accepts(one: Sent) -> bool:
        has_key = not query.key or (one.unique == query.key if query.unique else query.key in one.keys.split())
        return (
            one.topic == query.topic
            and has_key
            and query.contains in one.body
            and query.begin_ms <= one.stored_ms <= query.end_ms
            and query.queue_id in (ANY_QUEUE, one.queue_id)
            and query.queue_begin <= one.queue_offset < query.queue_end
        )

    return [one.physical for one in reversed(sent) if accepts(one)]


def pages_of(store: MessageStore, criteria: dict[str, Any], draw: Random, *, hint: bool = True) -> list[int]:
    """All pages, ended by their number of messages, by bytes, or by time."""
    place, found = LogPlace(), []
    queues = range(QUEUES) if criteria.get("queue_id", ANY_QUEUE) == ANY_QUEUE else (criteria["queue_id"],)
    for _ in range(ENOUGH):
        looks = draw.choice((0, 3, 1000))
        ticks = iter(range(looks))
        query = StoreQuery(
            **criteria, start=place, max_messages=draw.choice((1, 3, 99)), max_bytes=draw.choice((1, 400, 1 << 20))
        )
        page: Page = store.page(query, queues, lambda ticks=ticks: next(ticks, None) is not None)
        assert len(page.records) <= query.max_messages
        assert page.place.below < place.below or page.place.entry != place.entry
        found += [decode_record(record).physical_offset for record in page.records]
        place = page.place if hint else LogPlace(page.place.below)
        if place.below <= 0:
            return found
    raise AssertionError("it never ends")


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
@pytest.mark.parametrize("seed", range(4))
def test_pages_are_together_the_whole_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, engine: str
) -> None:
    draw, clock = Random(seed), StillClock()
    monkeypatch.setattr("zenitmq.store.index.key_index.SEARCH_STEPS", draw.choice((3, 4096)))
    with make_store(tmp_path, clock, index_slots=16, index_entries=48, consume_queue=engine) as store:
        sent = fill(store, clock, draw, 120)
        for attempt in range(25):
            criteria = drawn(draw, sent)
            found = pages_of(store, criteria, draw, hint=draw.random() < 0.8)
            assert found == expected(sent, StoreQuery(**criteria)), (seed, attempt, criteria)


def test_messages_that_come_between_two_pages_are_not_in_later_ones(tmp_path: Path) -> None:
    draw, clock = Random(1), StillClock()
    with make_store(tmp_path, clock) as store:
        sent = fill(store, clock, draw, 60)
        for criteria in ({"topic": "t"}, {"topic": "t", "key": "red"}):
            query = StoreQuery(**criteria, max_messages=2)
            first = store.page(query, range(QUEUES), lambda: True)
            before = expected(sent, StoreQuery(**criteria))
            sent += fill(store, clock, draw, 20)
            rest = store.page(StoreQuery(**criteria, start=first.place, max_messages=999), range(QUEUES), lambda: True)
            assert [decode_record(r).physical_offset for r in (*first.records, *rest.records)] == before


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_a_place_holds_after_a_restart_and_after_files_expired(tmp_path: Path, engine: str) -> None:
    draw, clock = Random(2), StillClock()
    with make_store(tmp_path, clock, consume_queue=engine) as store:
        sent = fill(store, clock, draw, 100)
        firsts = {
            key: store.page(StoreQuery(topic="t", key=key, max_messages=3), range(QUEUES), lambda: True)
            for key in ("", "red")
        }
    with make_store(tmp_path, clock, consume_queue=engine) as store:
        store._log.remove_before(store.begin + 4096)
        for key, first in firsts.items():
            wanted = [at for at in expected(sent, StoreQuery(topic="t", key=key)) if at >= store.begin]
            query = StoreQuery(topic="t", key=key, start=first.place, max_messages=999)
            rest = store.page(query, range(QUEUES), lambda: True)
            assert [decode_record(r).physical_offset for r in (*first.records, *rest.records)] == wanted


def test_only_confirmed_messages_are_shown(tmp_path: Path) -> None:
    draw, clock = Random(3), StillClock()
    with make_store(tmp_path, clock) as store:
        sent = fill(store, clock, draw, 40)
        store.confirm(sent[25].physical)
        for key in ("", "red"):
            page = store.page(StoreQuery(topic="t", key=key, max_messages=999), range(QUEUES), lambda: True)
            found = [decode_record(record).physical_offset for record in page.records]
            assert found == expected(sent[:25], StoreQuery(topic="t", key=key))
