"""Asking another replica for damaged bytes, and being asked: what is written, what is not, and what is said instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from store_kit import StillClock, make_store, message, put, wait_until

from zenitmq.broker.group.replica_question import QuestionStamp
from zenitmq.broker.repair.repair_plan import SETTLE_MS
from zenitmq.broker.repair.repairs import RANGE_BYTES_MAX, Repairs
from zenitmq.model.errors import (
    BrokerBusy,
    BufferFull,
    CorruptRecordError,
    InvalidParameter,
    OffsetOutOfRange,
    RequestTimeout,
    StaleEpoch,
)
from zenitmq.record.crc32 import crc32
from zenitmq.remoting.commands import GetLogRange, LogRangeReply

STAMP = QuestionStamp("g", 1, "own", "other")


class World:
    """The loop, the client, the workers and the group member in one."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, GetLogRange]] = []
        self.answer: Callable[..., None] = lambda *_: None
        self.tick: Callable[[], None] = lambda: None
        self.replies: list[tuple[LogRangeReply, bytes]] = []
        self.refusal: Exception | None = None
        self.looks = self.changes = 0
        self.settled: list[object] = []
        self.posted: list[Callable[[], None]] = []

    def every(self, _interval_ms: int, callback: Callable[[], None]) -> None:
        self.tick = callback

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.append(callback)

    def turn(self) -> None:
        posted, self.posted = self.posted, []
        for callback in posted:
            callback()

    def send_nowait(
        self, address: str, request: GetLogRange, _payload: None, *, timeout_ms: int, on_reply: Any
    ) -> None:
        assert timeout_ms > 0
        self.asked.append((address, request))
        self.answer = on_reply

    def run(self, call: Any, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())

    def reply(self, _call: Any, reply: LogRangeReply, payload: tuple[bytes, ...]) -> None:
        self.replies.append((reply, b"".join(payload)))

    def others(self) -> dict[str, tuple[str, QuestionStamp]]:
        return {"b": ("host:1", STAMP)}

    def check_asker(self, _question: Any) -> None:
        if self.refusal is not None:
            raise self.refusal

    def on_damage(self) -> None:
        self.changes += 1

    def look_again(self) -> None:
        self.looks += 1


class Call:
    def __init__(self, request: GetLogRange) -> None:
        self.request = request


@pytest.fixture
def store(tmp_path):
    with make_store(tmp_path / "s") as store:
        for number in range(9):
            put(store, "t", 0, message("t", b"%04d" % number * 50))
        store.flush_all(20_000)
        store.confirm(store.written)
        yield store


@pytest.fixture
def world(store) -> World:
    world = World()
    it: Any = world
    clock = StillClock(0)
    world.repairs = Repairs(  # type: ignore[attr-defined]
        store, it, clock, it, it, it, wait_ms=60_000, look_again=world.look_again
    )
    world.clock = clock  # type: ignore[attr-defined]
    store.damage.on_change = world.repairs.on_change  # type: ignore[attr-defined]
    world.repairs.start()  # type: ignore[attr-defined]
    return world


def rot(store) -> tuple[int, int, bytes]:
    """An append whose bytes on the disk are other ones; and what it was."""
    entry = list(store._log.checksums.entries(0, store.written))[3]
    whole = bytes(store._log.view(entry.offset, entry.end))
    store.damage.write(entry.offset, b"\x00" * 8 + whole[8:]).result(20)
    store.damage.add(entry.offset, entry.end, "in a test")
    return entry.offset, entry.end, whole


def test_an_answer_that_the_loop_had_no_room_for_is_asked_for_again(store, world: Any, monkeypatch) -> None:
    def full(_callback: object) -> None:
        raise BufferFull("loop")

    begin, end, whole = rot(store)
    world.tick()
    with monkeypatch.context() as patched:
        patched.setattr(world, "post", full)
        world.answer(LogRangeReply(crc32(whole)), whole, None)
    for _ in range(2000):
        if len(world.asked) > 1:
            break
        world.clock.time_ms += 100
        world.tick()
    world.answer(LogRangeReply(crc32(whole)), whole, None)
    wait_until(lambda: (world.turn(), bytes(store._log.view(begin, end)) == whole)[1])


def test_a_replica_that_is_down_is_told_of_once_a_minute(store, world: Any, caplog: pytest.LogCaptureFixture) -> None:
    rot(store)
    for _ in range(500):
        asked = len(world.asked)
        world.tick()
        if len(world.asked) > asked:
            world.answer(None, b"", RequestTimeout("GetLogRange", 1))
            world.turn()
        world.clock.time_ms += 100
    assert len(world.asked) > 10
    assert caplog.text.count("no repair") == 1


def test_whole_bytes_are_written_in_place_and_readers_go_on(store, world: Any) -> None:
    begin, end, whole = rot(store)
    assert store.damage.quarantine.awaited == ((begin, end),)
    world.tick()
    world.tick()
    assert world.asked == [("host:1", GetLogRange(*STAMP, begin, end))], "one question at a time"
    looks = world.looks
    world.answer(LogRangeReply(crc32(whole)), whole, None)
    world.turn()
    store.damage.write(begin, whole).result(20)  # behind the repair's own in the same worker
    world.turn()
    assert bytes(store._log.view(begin, end)) == whole
    assert (store.damage.quarantine.ranges, store.damage.unsendable) == ((), ())
    assert world.looks > looks
    assert world.repairs.document() == {"mended_ranges": 1, "awaited_ranges": 0, "lost_ranges": 0}


@pytest.mark.parametrize("how", ["way", "length", "other", "records"])
def test_bytes_that_are_not_those_that_were_written_are_not_taken(store, world: Any, how: str) -> None:
    begin, end, whole = rot(store)
    world.tick()
    sent = {"way": whole, "length": whole[:-1], "other": b"x" * 20 + whole[20:], "records": b"x" * len(whole)}[how]
    world.answer(LogRangeReply(crc32(sent) ^ (how == "way")), sent, None)
    world.turn()
    assert bytes(store._log.view(begin, begin + 8)) == b"\x00" * 8
    assert store.damage.quarantine.ranges == ((begin, end),)


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (CorruptRecordError(0, 9), True),
        (OffsetOutOfRange("commit log", 3, 4, 9), True),
        (OffsetOutOfRange("commit log", 9, 0, 3), True),
        (RequestTimeout("x", 1), False),
        (BrokerBusy(1, "not confirmed here yet"), False),
    ],
)
def test_a_refusal_counts_and_silence_does_not(store, world: Any, error: Exception, is_lost: bool) -> None:
    begin, end, _ = rot(store)
    for _ in range(SETTLE_MS // 1000 + 1):
        world.tick()
        if len(world.asked) > len(world.settled):
            world.settled.append(world.asked[-1])
            world.answer(None, b"", error)
            world.turn()
        world.clock.time_ms += 1000
    world.tick()
    assert store.damage.quarantine.awaited == (() if is_lost else ((begin, end),))
    assert world.repairs.document()["lost_ranges"] == is_lost
    may_get_it = isinstance(error, OffsetOutOfRange) and error.offset > error.maximum
    assert (len(world.asked) == 1) == (is_lost and not may_get_it)


def test_a_checksum_that_rotted_itself_costs_nothing(store, world: Any) -> None:
    """The log holds the very bytes that the replica sends."""
    entry = list(store._log.checksums.entries(0, store.written))[3]
    data = bytes(store._log.view(entry.offset, entry.end))
    store.damage.add(entry.offset, entry.end, "in a test")
    path = f"{store._log.checksums.directory}/{0:020d}"
    with open(path, "r+b") as file:
        file.seek(3 * 16 + 12)
        file.write(b"\xff\xff\xff\xff")
    world.tick()
    world.answer(LogRangeReply(crc32(data)), data, None)
    world.turn()
    store.damage.write(entry.offset, data).result(20)
    world.turn()
    assert store.damage.quarantine.ranges == ()


def test_what_is_whole_is_given_to_who_asks_for_it(store, world: Any) -> None:
    entry = list(store._log.checksums.entries(0, store.written))[3]
    whole = bytes(store._log.view(entry.offset, entry.end))
    world.repairs.on_get_log_range(Call(GetLogRange(*STAMP, entry.offset, entry.end)))
    assert world.replies == [(LogRangeReply(crc32(whole)), whole)]


@pytest.mark.parametrize("is_whole", [True, False])
def test_two_copies_that_are_damaged_in_other_places_make_a_whole_one(store, world: Any, is_whole: bool) -> None:
    """Whoever sent it, and whatever it thought of it."""
    begin, end, whole = rot(store)
    world.tick()
    sent = whole[:-20] + b"?" + whole[-19:]
    world.answer(LogRangeReply(crc32(sent), is_whole), sent, None)
    wait_until(lambda: (world.turn(), bytes(store._log.view(begin, end)) == whole)[1])
    wait_until(lambda: (world.turn(), store.damage.quarantine.ranges == ())[1])


def test_two_copies_that_are_damaged_in_one_place_are_refused(store, world: Any, caplog: Any) -> None:
    begin, end, whole = rot(store)
    world.tick()
    sent = b"\x01" + whole[1:]
    world.answer(LogRangeReply(crc32(sent), False), sent, None)
    world.turn()
    assert store.damage.quarantine.ranges == ((begin, end),)
    assert "damaged there too" in caplog.text


def test_what_is_damaged_not_confirmed_or_no_range_is_not_given(store, world: Any) -> None:
    begin, end, _ = rot(store)
    ask = world.repairs.on_get_log_range
    ask(Call(GetLogRange(*STAMP, begin, end)))
    store.damage.on_whole(begin, end)  # as nobody had found it yet
    ask(Call(GetLogRange(*STAMP, begin, end)))
    assert [reply.is_whole for reply, _ in world.replies] == [False, False]
    world.replies.clear()
    assert store.damage.quarantine.rotten == (), (
        "who asks may be wrong about where records begin: its word hides nothing here"
    )
    with pytest.raises(OffsetOutOfRange):
        ask(Call(GetLogRange(*STAMP, begin, store.written + 1)))
    confirmed = store.confirm_offset
    put(store, "t", 0, message("t", b"not confirmed"))
    assert store.confirm_offset == confirmed
    with pytest.raises(BrokerBusy):
        ask(Call(GetLogRange(*STAMP, confirmed, store.written)))
    for low, high in ((-1, 5), (5, 5), (0, RANGE_BYTES_MAX + 1)):
        with pytest.raises(InvalidParameter):
            ask(Call(GetLogRange(*STAMP, low, high)))
    world.refusal = StaleEpoch("g", 1, 2)
    with pytest.raises(StaleEpoch):
        ask(Call(GetLogRange(*STAMP, 0, 100)))
    assert world.replies == []
