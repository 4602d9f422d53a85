"""What waits is handed on to RocketMQ's broker once, wherever the hand-over is killed; what it delivered is over here."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handover_kit import CONFIG, SEGMENT, Life, unique
from store_kit import ALL_TIME, StillClock, kill, make_store, message, put, read_queue

from zenitmq.broker.delay.delays import message_recalled
from zenitmq.broker.group import hand_over as module
from zenitmq.broker.group.group_membership import join_group
from zenitmq.broker.group.hand_over import MARK_FILE, hand_over
from zenitmq.model.errors import StoreFormatError, StoreInGroup, StoreLocked
from zenitmq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from zenitmq.record.kernel import StoredMessage
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import SEQUENCED
from zenitmq.store.queues.engine_choice import FILE, ROCKSDB, engine_of

NOW_MS = 1_700_000_000_400
WHOLE_MS = 1_700_000_000_000
CHECK = struct.Struct(">7Q")
ANY_TIME_MS = 1 << 50


def fill(directory: Path, *, also_for: str = "gone") -> list[bytes]:
    """More than one segment; returns the bodies of what waits in the end. `also_for`: a topic that is not there."""
    clock = StillClock(NOW_MS)
    with Life(directory, clock) as life:
        life.begin()
        life.delay(0, 200)
        gone = [life.delay(number, 60_000 + number) for number in range(1, 10)]
        for number in (1, 4):
            life.delays.stage_end(gone[number - 1], "t", unique(number), NOW_MS + 60_000 + number)
        life.store.commit()
        life.delay(10, 10 * 86_400_000)
        life.delay_by_level(11, 5)
        life.delay_by_level(12, 5)
        life.delay_by_level(13, 18)
        life.delay(14, 1)
        life.delay(15, 90_000, named=False)
        if also_for:
            life.delay(16, 90_000, topic=also_for)
        assert life.deliver(NOW_MS + 1) == [b"14"]
        put(life.store, "t", 0, *(message("t", b"x" * 1000) for _ in range(9)))
        assert life.store.written > SEGMENT
    return [b"%d" % number for number in (0, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15)]


def handed(directory: Path) -> list[StoredMessage]:
    """What RocketMQ's broker would put into its wheel, as its files tell it to; its own rules hold of each record."""
    data = (directory / "config" / "timercheck").read_bytes()
    last_read_ms, flushed, first, same, *_ = CHECK.unpack_from(data)
    assert (flushed, same, len(data)) == (0, first, 4096)
    levels = json.loads((directory / "config" / "delayOffset.json").read_text())["offsetTable"]
    with Life(directory, StillClock(NOW_MS)) as life:
        for queue_id in life.store.queues()[SCHEDULE_TOPIC]:
            assert levels[str(queue_id + 1)] == life.store.max_offset(SCHEDULE_TOPIC, queue_id)
        found = [record for record in read_queue(life.store, TIMER_TOPIC, 0) if record.queue_offset >= first]
    assert found[0].queue_offset == first
    for record in found:
        named = record.properties
        out_ms = int(named["TIMER_OUT_MS"])
        assert out_ms % 1000 == 0
        assert out_ms >= last_read_ms
        assert named["REAL_TOPIC"] == "t"
        assert not named.keys() & {"DELAY", "PSEQ", "TIMER_DEL_UNIQKEY"}
        assert named["UNIQ_KEY"]
        assert not record.sys_flag & SEQUENCED
    return found


def test_what_waits_comes_again_at_the_end_of_the_log_as_rocketmq_has_it(tmp_path: Path) -> None:
    waiting = fill(tmp_path)
    for name in ("timerlog", "timerwheel.1700"):
        (tmp_path / name).mkdir() if name == "timerlog" else (tmp_path / name).write_bytes(b"old")
    (tmp_path / "config" / "timermetrics").write_text("{}")
    (tmp_path / "index").mkdir(exist_ok=True)
    told: list[tuple[int, int]] = []
    document = hand_over(
        str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1), report=lambda done, total: told.append((done, total))
    )
    assert (document["waiting"], document["over"], document["damaged"]) == (len(waiting), 1, 0)
    assert told[-1] == (14, 14)
    found = handed(tmp_path)
    assert sorted(record.body for record in found) == sorted(waiting)
    outs = {int(record.body): int(record.properties["TIMER_OUT_MS"]) for record in found}
    assert outs[0] == WHOLE_MS  # to be delivered at 600 ms of this second
    assert outs[2] == WHOLE_MS + 60_000
    assert outs[11] == outs[12] == WHOLE_MS + 60_000  # stored 400 ms after the second, and a minute
    assert outs[13] == WHOLE_MS + 2 * 3_600_000
    for name in ("timerlog", "timerwheel.1700", "config/timermetrics", MARK_FILE):
        assert not (tmp_path / name).exists()
    topics = json.loads((tmp_path / "config" / "topics.json").read_text())["topicConfigTable"]
    assert topics["%RETRY%g"]["readQueueNums"] == 1
    assert document["retry_topics"] == 1
    conf = document["broker_conf"]
    assert conf["mappedFileSizeCommitLog"] == str(SEGMENT)
    assert conf["mappedFileSizeConsumeQueue"] == "320"
    assert conf["maxMessageSize"] == "4259840"
    assert (conf["brokerIP1"], conf["listenPort"]) == ("127.0.0.1", "10911")


def test_a_time_that_is_a_whole_second_is_the_one_before_and_what_is_late_comes_at_once(tmp_path: Path) -> None:
    with Life(tmp_path, StillClock(WHOLE_MS)) as life:
        life.begin()
        life.delay(0, 1000)
        life.delay(1, 60_000)
        life.delay_by_level(2, 1)
    hand_over(str(tmp_path), CONFIG, clock=StillClock(WHOLE_MS + 30_999))
    outs = {int(record.body): int(record.properties["TIMER_OUT_MS"]) for record in handed(tmp_path)}
    assert outs == {0: WHOLE_MS + 30_000, 1: WHOLE_MS + 59_000, 2: WHOLE_MS + 30_000}


def test_back_here_all_of_it_is_delivered_once(tmp_path: Path) -> None:
    waiting = fill(tmp_path)
    hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1))
    for until_ms in (ANY_TIME_MS, ANY_TIME_MS + 1):
        with Life(tmp_path, StillClock(NOW_MS + 2)) as life:
            assert [body for body in life.deliver(until_ms) if len(body) < 9] == sorted([*waiting, b"14"])


def test_back_here_a_handle_of_before_takes_its_message_back(tmp_path: Path) -> None:
    fill(tmp_path)
    hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1))
    with Life(tmp_path, StillClock(NOW_MS + 2)) as life:
        deliver_at_ms = NOW_MS + 60_005
        found = [
            entry
            for record in life.store.query(TIMER_TOPIC, unique(5), max_messages=9, unique=True, **ALL_TIME)
            if (entry := message_recalled(record, "t", deliver_at_ms)) and life.delays.is_waiting(entry[1], entry[0])
        ]
        assert [due_ms for due_ms, _ in found] == [WHOLE_MS + 60_000]
        life.delays.stage_end(found[0][1], "t", unique(5), deliver_at_ms)
        life.store.commit()
        assert b"5" not in life.deliver(ANY_TIME_MS)


def test_what_rocketmq_delivered_is_not_delivered_again_here(tmp_path: Path) -> None:
    waiting = fill(tmp_path)
    hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1))
    early = handed(tmp_path)[:9]
    with make_store(tmp_path, StillClock(NOW_MS + 2), segment_bytes=SEGMENT) as store:
        for record in early:
            put(store, "t", 0, message("t", record.body, unique=record.properties["UNIQ_KEY"]))
    with open(tmp_path / "checkpoint", "r+b") as file:
        file.write(struct.pack(">5Q", *[NOW_MS] * 3, 7, 7))
    with Life(tmp_path, StillClock(NOW_MS + 2)) as life:
        assert [body for body in life.deliver(ANY_TIME_MS) if len(body) < 9] == sorted([*waiting, b"14"])


def test_handed_over_again_nothing_is_written_and_after_a_while_here_only_what_waits_then(tmp_path: Path) -> None:
    waiting = fill(tmp_path, also_for="")
    first = hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1))
    again = hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 5000))
    assert (again["log_end"], again["waiting"]) == (first["log_end"], len(waiting))
    with Life(tmp_path, StillClock(NOW_MS + 5000)) as life:
        life.deliver(NOW_MS + 60_004)
        life.delay(20, 60_000)
    third = hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 70_000))
    expected = {b"10", b"13", b"15", b"20"}
    assert {*expected} < {*waiting, b"20"}
    assert sorted(record.body for record in handed(tmp_path)) == sorted(expected)
    assert third["log_end"] > first["log_end"]


def test_the_largest_message_of_all_fits_into_what_is_printed(tmp_path: Path) -> None:
    """Whatever limit it was taken under, in a first run and in one that finds it handed on."""
    config = replace(CONFIG, segment_bytes=1 << 16, body_bytes_max=1000, record_bytes_max=2000)
    with Life(tmp_path, StillClock(NOW_MS), config=config) as life:
        life.begin()
        life.delays.stage_delayed(
            NewRecord(topic="t", queue_id=0, body=b"x" * 50_000, properties={}), deliver_at_ms=life.clock.time_ms + 1000
        )
        life.store.commit()
    for _ in ("a first run", "one more"):
        conf = hand_over(str(tmp_path), config, clock=StillClock(NOW_MS))["broker_conf"]
        assert int(conf["maxMessageSize"]) > 51_000


def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path) -> None:
    waiting = fill(tmp_path)
    before = contents(tmp_path)
    document = hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1), dry_run=True)
    assert document["waiting"] == len(waiting) + 1
    assert contents(tmp_path) == before


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and "timers" not in path.parts)
    return {str(path): path.read_bytes() for path in files if path.name != "lock"}


def test_a_store_that_is_open_killed_or_a_replicas_is_refused(tmp_path: Path) -> None:
    clock = StillClock(NOW_MS)
    with pytest.raises(StoreFormatError, match="no commit log"):
        hand_over(str(tmp_path), CONFIG, clock=clock)
    with Life(tmp_path / "s", clock) as life:
        life.begin()
        with pytest.raises(StoreLocked):
            hand_over(str(tmp_path / "s"), CONFIG, clock=clock)
        killed = kill(tmp_path / "s", tmp_path / "killed")
    with pytest.raises(StoreFormatError, match="not stopped cleanly"):
        hand_over(str(killed), CONFIG, clock=clock)
    assert not (killed / MARK_FILE).exists()
    join_group(str(tmp_path / "s"), "")
    with pytest.raises(StoreInGroup):
        hand_over(str(tmp_path / "s"), CONFIG, clock=clock)


@pytest.mark.parametrize("killed_at", ["not", "conversion", "log"])
def test_queues_in_rocksdb_become_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str) -> None:
    """Also if the first run is killed in the middle."""
    config = replace(CONFIG, consume_queue="rocksdb")
    with make_store(tmp_path, consume_queue="rocksdb", segment_bytes=SEGMENT) as store:
        put(store, "t", 0, message("t", b"1"))
        put(store, "t", 3, message("t", b"2"), message("t", b"3"))
    assert hand_over(str(tmp_path), config, clock=StillClock(NOW_MS), dry_run=True)["converted"] == 0
    assert engine_of(str(tmp_path)) == ROCKSDB

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    if killed_at != "not":
        with monkeypatch.context() as patched:
            name = {"conversion": "zenitmq.store.offline.convert._convert", "log": f"{module.__name__}.hand_over_store"}
            patched.setattr(name[killed_at], killed)
            with pytest.raises(KeyboardInterrupt):
                hand_over(str(tmp_path), config, clock=StillClock(NOW_MS))
    handed_over = hand_over(str(tmp_path), config, clock=StillClock(NOW_MS))
    assert handed_over["converted"] == (0 if killed_at == "log" else 2)
    assert engine_of(str(tmp_path)) == FILE
    with make_store(tmp_path, segment_bytes=SEGMENT) as store:
        assert [bytes(found.body) for found in read_queue(store, "t", 3)] == [b"2", b"3"]


def test_queues_that_follow_in_rocksdb_are_dropped(tmp_path: Path) -> None:
    """They would not know what RocketMQ writes."""
    config = replace(CONFIG, consume_queue="both")
    with make_store(tmp_path, consume_queue="both", segment_bytes=SEGMENT) as store:
        put(store, "t", 0, message("t", b"1"))
    assert (tmp_path / "shadow").exists()
    hand_over(str(tmp_path), config, clock=StillClock(NOW_MS))
    assert not (tmp_path / "shadow").exists()
    with make_store(tmp_path, segment_bytes=SEGMENT) as store:
        assert [record.body for record in read_queue(store, "t", 0)] == [b"1"]


def test_one_that_cannot_be_read_is_counted_and_the_others_come(tmp_path: Path) -> None:
    waiting = fill(tmp_path)
    log = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    at = data.index(unique(7).encode())
    data[at + 31] ^= 1
    log.write_bytes(data)
    document = hand_over(str(tmp_path), CONFIG, clock=StillClock(NOW_MS + 1))
    assert (document["waiting"], document["damaged"]) == (len(waiting) - 1, 1)
    assert sorted(record.body for record in handed(tmp_path)) == sorted({*waiting} - {b"7"})


class Kills:
    """Keeps what a kill would leave at each of many moments of a hand-over."""

    def __init__(self, directory: Path, copies: Path) -> None:
        self.directory, self.root = directory, copies
        self.copies: list[Path] = []
        self._last: dict[str, bytes] = {}

    def at(self, *_: object) -> None:
        held = contents(self.directory)
        if held != self._last:
            self._last = held
            self.copies.append(kill(self.directory, self.root / str(len(self.copies))))

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **named: Any) -> Any:
            self.at()
            done = work(*args, **named)
            self.at()
            return done

        return watched


def test_killed_anywhere_it_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "s"
    waiting = fill(directory)
    (directory / "timerlog").mkdir()
    (directory / "timerwheel").write_bytes(b"old")
    kills = Kills(directory, tmp_path / "kills")
    with monkeypatch.context() as watching:
        for owner, name in (
            (module, "_make_retry_topics"),
            (module, "write_snapshot"),
            (module, "hand_over_store"),
            (module.SYSTEM_FILES.__class__, "replace"),
            (module.SYSTEM_FILES.__class__, "remove"),
            (shutil, "rmtree"),
            (os, "unlink"),
            (module.MessageStore, "commit"),
            (module.MessageStore, "__exit__"),
            (module.WaitingIndex, "persist"),
            (module.WaitingIndex, "close"),
        ):
            watching.setattr(owner, name, kills.around(getattr(owner, name)))
        watching.setattr(module, "COMMIT_BYTES", 300)
        watching.setattr(module, "PERSIST_BYTES", 1500)
        hand_over(str(directory), CONFIG, clock=StillClock(NOW_MS + 1))
    assert len(kills.copies) > 20
    ends = set()
    for copy in kills.copies:
        done = hand_over(str(copy), CONFIG, clock=StillClock(NOW_MS + 3000))
        ends.add(done["log_end"])
        assert sorted(record.body for record in handed(copy)) == sorted(waiting), copy
        assert not (copy / "timerlog").exists()
        with Life(copy, StillClock(NOW_MS + 2)) as life:
            assert [body for body in life.deliver(ANY_TIME_MS) if len(body) < 9] == sorted([*waiting, b"14"]), copy
    assert len(ends) > 2  # some were killed before, some while, some after it was written
