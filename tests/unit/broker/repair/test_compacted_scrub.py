"""Compacted files are scrubbed behind the log: what has rotted is told, and written again from the log or a replica."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compaction_kit import compact, open_compacting, put_value, retain
from store_kit import StillClock

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.replica_question import QuestionStamp
from zenitmq.broker.repair.compacted_repairs import CompactedRepairs
from zenitmq.broker.repair.scrub import Scrub
from zenitmq.model.errors import BufferFull, MessageNotFound, RequestTimeout
from zenitmq.remoting.commands import GetCompactedRecord, LogRangeReply, ScrubLog
from zenitmq.store.compaction.compacted_rows import DamagedRow
from zenitmq.store.message_store import MessageStore

STAMP = QuestionStamp("g", 1, "own", "other")
KEYS = 40


class World:
    """Loop, workers, client and group member: all is done at once. `replicas`: who answers what."""

    def __init__(self) -> None:
        self.tick: Callable[[], None] = lambda: None
        self.replicas: dict[str, Callable[[GetCompactedRecord], bytes]] = {}
        self.asked: list[str] = []
        self.is_full = False
        self.replies: list[bytes] = []

    def every(self, _interval_ms: int, callback: Callable[[], None]) -> None:
        self.tick = callback

    def run_aside(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())

    def run(self, _call: Any, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())

    def post(self, callback: Callable[[], None]) -> None:
        if self.is_full:
            raise BufferFull("loop")
        callback()

    def reply(self, _call: Any, _reply: LogRangeReply, payload: tuple[bytes, ...]) -> None:
        self.replies.append(b"".join(payload))

    def others(self) -> dict[str, tuple[str, QuestionStamp]]:
        return {name: (name, STAMP) for name in self.replicas}

    def check_asker(self, _question: Any) -> None:
        """It may ask."""

    def on_damage(self) -> None:
        """Of the log."""

    def send_nowait(
        self, address: str, request: GetCompactedRecord, _payload: None, *, timeout_ms: int, on_reply: Any
    ) -> None:
        assert timeout_ms > 0
        self.asked.append(address)
        try:
            on_reply(LogRangeReply(0), self.replicas[address](request), None)
        except (MessageNotFound, RequestTimeout) as error:
            on_reply(None, b"", error)


class Scene:
    def __init__(self, directory: Path) -> None:
        self.clock = StillClock()
        self.directory = directory
        self.store: MessageStore = open_compacting(directory, self.clock)
        self.world: Any = World()
        self.scrub = Scrub(self.store, self.world, self.clock, self.world, BrokerConfig(store_dir=str(directory)))
        self.repairs = CompactedRepairs(self.store, self.world, self.world, self.world, self.world)
        self.store.compacted.on_damage = self.repairs.on_damage
        self.scrub.start()
        for number in range(KEYS):
            put_value(self.store, 0, f"k{number}", b"%03d" % number * 9)
        compact(self.store, self.clock)

    def scrubbed(self) -> dict[str, Any]:
        call: Any = Call(ScrubLog(1 << 30))
        self.scrub.on_scrub(call)
        for _ in range(20):
            self.clock.time_ms += 100
            self.world.tick()
        found: dict[str, Any] = self.scrub.document()["compacted"]
        assert not found["is_running"]
        return found

    def rot(self, number: int) -> None:
        """The body of this key's record."""
        (path,) = (self.directory / "compacted" / "queues" / "c" / "0").glob("*.compacted")
        data = path.read_bytes()
        path.write_bytes(data.replace(b"%03d" % number * 9, b"rot" * 9, 1))

    def drop_log(self) -> None:
        """The log no longer has what the files have."""
        for _ in range(6):
            put_value(self.store, 1, "z", b"z" * 3000)
        retain(self.store, self.clock)
        assert self.store.begin > 0

    def record(self, number: int) -> bytes:
        for reader, rows in self.store.compacted.rows_from(("c", 0), number, number + 1, 1):
            for _, record in reader.records(rows, 0):
                return record
        raise AssertionError(number)


class Call:
    def __init__(self, request: Any) -> None:
        self.request = request


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.store.__exit__(None, None, None)


def test_whole_files_are_read_to_the_end(scene: Scene) -> None:
    found = scene.scrubbed()
    assert found["read_bytes"] > KEYS * 100
    assert (found["damaged_records"], found["damaged_files"]) == (0, 0)


def test_a_rotten_record_is_written_again_from_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    whole = scene.record(7)
    scene.rot(7)
    assert scene.scrubbed()["damaged_records"] == 1
    assert "a compacted file is damaged topic=c queue=0 offset=7" in caplog.text
    assert scene.record(7) == whole
    assert scene.scrubbed()["damaged_records"] == 1, "found once"


def test_a_rotten_record_comes_from_the_replica_that_has_it(scene: Scene) -> None:
    whole, other = scene.record(7), scene.record(8)
    scene.drop_log()
    scene.rot(7)

    def lacks(_question: GetCompactedRecord) -> bytes:
        raise MessageNotFound("compacted message")

    scene.world.replicas = {"a": lacks, "b": lambda _question: other, "c": lambda _question: whole}
    scene.scrubbed()
    assert scene.world.asked == ["a", "b", "c"]
    assert (scene.record(7), scene.repairs.mended) == (whole, 1)


def test_what_no_replica_has_is_told_and_the_next_one_is_asked_for(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    whole = scene.record(9)
    scene.drop_log()
    scene.rot(7)
    scene.rot(9)

    def answers(question: GetCompactedRecord) -> bytes:
        if question.queue_offset != 9:
            raise RequestTimeout("b", 1)
        return whole

    scene.world.replicas = {"b": answers}
    assert scene.scrubbed()["damaged_records"] == 2
    assert "compacted damage not mended topic=c queue=0 offset=7 why=no replica has it" in caplog.text
    assert scene.record(9) == whole


def test_a_full_loop_drops_a_repair_and_the_next_scrub_finds_it_again(scene: Scene) -> None:
    whole = scene.record(7)
    scene.drop_log()
    scene.rot(7)
    scene.world.replicas = {"b": lambda _question: whole}
    scene.world.is_full = True
    scene.scrubbed()
    scene.world.is_full = False
    scene.scrubbed()
    assert scene.record(7) == whole


def test_rows_that_have_rotted_are_told_with_their_file(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = (scene.directory / "compacted" / "queues" / "c" / "0").glob("*.compacted")
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) - 70)
        file.write(b"\x55")
    assert scene.scrubbed()["damaged_files"] == 1
    assert f"a compacted file is damaged topic=c queue=0 what={path.name}" in caplog.text


def test_a_replica_answers_from_its_files_and_its_log(scene: Scene) -> None:
    whole = scene.record(7)
    (row,) = (rows[0] for _, rows in scene.store.compacted.rows_from(("c", 0), 7, 8, 1))
    assert DamagedRow(("c", 0), "", row).is_whole(whole)
    for queue_id, offset in ((0, 7), (0, 900)):
        question = GetCompactedRecord(*STAMP, "c", queue_id, offset, row.physical, row.size)
        asked: Any = Call(question)
        scene.repairs.on_get(asked)
    assert scene.world.replies == [whole, whole]
    nowhere: Any = Call(GetCompactedRecord(*STAMP, "c", 5, 7, 1 << 40, 100))
    with pytest.raises(MessageNotFound):
        scene.repairs.on_get(nowhere)
