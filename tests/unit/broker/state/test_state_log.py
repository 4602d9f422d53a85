"""Snapshots of the broker's state: RocketMQ's own are adopted whole, ours are written in time."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.broker.json_reply import encode_document
from zenitmq.broker.state import state_log
from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.state_log import (
    EVERYTHING,
    GROUPS,
    LOCKS,
    OFFSETS,
    QUERIES,
    SECURITY,
    TOPICS,
    StateLog,
    pauses_at,
)
from zenitmq.model.errors import StoreFormatError
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.model.properties import encode_properties
from zenitmq.model.queue import PhysicalOffset, QueueOffset
from zenitmq.record.kernel import encode_record
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import SEQUENCED
from zenitmq.store.queues.dispatch import Run

OFFSETS_OF_ROCKETMQ = """{
	"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1795245186487},
	"groupTopicMap":{"desk":["trades"]},
	"offsetTable":{"trades@desk":{0:58,1:58,3:66}},
	"pullOffsetTable":{"trades@desk":{0:58}}
}"""
TOPICS_OF_ROCKETMQ = """{
	"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1795245203782},
	"topicConfigTable":{"trades":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,
	"topicFilterType":"SINGLE_TAG","topicName":"trades","topicSysFlag":0,"writeQueueNums":4}}
}"""
GROUPS_OF_ROCKETMQ = '{"forbiddenTable":{},"subscriptionGroupTable":{"desk":{"groupName":"desk","retryMaxTimes":16}}}'


class ManualClock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        return self.now

    monotonic_ms = now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.now += duration_ms


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def open_state(directory: Path, clock: ManualClock, **options: Any) -> StateLog:
    producers = ProducerTable(retention_ms=1 << 40, entries_max=100)
    return StateLog(str(directory), clock=clock, persist_interval_ms=100, producers=producers, **options)


def write_rocketmqs(directory: Path) -> Path:
    config = directory / "config"
    config.mkdir()
    (config / "consumerOffset.json").write_text(OFFSETS_OF_ROCKETMQ)
    (config / "topics.json").write_text(TOPICS_OF_ROCKETMQ)
    (config / "subscriptionGroup.json").write_text(GROUPS_OF_ROCKETMQ)
    return config


def run_of(topic: str, body: bytes, begin: int = 0, **fields: Any) -> Run:
    record = encode_record(topic=topic.encode(), body=body, physical_offset=begin, store_timestamp_ms=9, **fields)
    end, nothing = PhysicalOffset(begin + len(record)), memoryview(b"")
    return Run(
        topic, 0, QueueOffset(0), 1, PhysicalOffset(begin), end, 9, nothing, nothing, nothing, 0, 0, memoryview(record)
    )


def test_rocketmqs_snapshots_reflect_the_whole_log_and_become_ours(tmp_path: Path, clock: ManualClock) -> None:
    config = write_rocketmqs(tmp_path)
    state = open_state(tmp_path, clock)
    assert state.reflected() == EVERYTHING
    assert state.offset_table.offset("desk", "trades", 3) == 66
    assert state.topic_table.write_queues == {"trades": 4}
    state.on_opened(PhysicalOffset(5000))
    assert state.reflected() == 5000
    document = json.loads((config / "consumerOffset.json").read_text())
    assert document["offsetTable"] == {"trades@desk": {"0": 58, "1": 58, "3": 66}}
    assert document["pullOffsetTable"] == {"trades@desk": {"0": 58}}
    assert document["zenit"]["reflected"] == 5000
    assert open_state(tmp_path, clock).reflected() == 5000


def test_one_snapshot_by_rocketmq_among_ours_is_not_overrun_by_older_events(tmp_path: Path, clock: ManualClock) -> None:
    config = write_rocketmqs(tmp_path)
    open_state(tmp_path, clock).on_opened(PhysicalOffset(0))
    (config / "consumerOffset.json").write_text(OFFSETS_OF_ROCKETMQ)
    state = open_state(tmp_path, clock)
    assert state.reflected() == 0
    run = run_of(OFFSETS, b'{"event":"committed","group":"desk","offsets":[["trades",0,1]]}')
    state.on_run(run)
    assert state.offset_table.offset("desk", "trades", 0) == 58
    state.on_opened(run.end)
    state.on_run(run_of(OFFSETS, b'{"event":"committed","group":"desk","offsets":[["trades",0,2]]}', run.end))
    assert state.offset_table.offset("desk", "trades", 0) == 2
    assert open_state(tmp_path, clock).reflected() == run.end


def test_rocketmqs_spare_copies_do_not_come_back(tmp_path: Path, clock: ManualClock) -> None:
    config = write_rocketmqs(tmp_path)
    (config / "topics.json.bak").write_text(TOPICS_OF_ROCKETMQ)
    open_state(tmp_path, clock).on_opened(PhysicalOffset(10))
    (config / "topics.json").write_text("{damaged")
    assert open_state(tmp_path, clock).topic_table.configs == {}
    assert (config / "topics.json.rocketmq").exists()


def test_a_snapshot_ahead_of_a_log_that_lost_its_end_is_written_anew(tmp_path: Path, clock: ManualClock) -> None:
    write_rocketmqs(tmp_path)
    open_state(tmp_path, clock).on_opened(PhysicalOffset(5000))
    state = open_state(tmp_path, clock)
    state.on_opened(PhysicalOffset(4000))
    assert state.reflected() == 4000
    assert open_state(tmp_path, clock).reflected() == 4000


def test_the_oldest_of_the_snapshots_says_where_to_replay_from(tmp_path: Path, clock: ManualClock) -> None:
    config = write_rocketmqs(tmp_path)
    open_state(tmp_path, clock).on_opened(PhysicalOffset(5000))
    (config / "topics.json").unlink()
    assert open_state(tmp_path, clock).reflected() == 0


@pytest.mark.parametrize("name", ["queueLocks.json", "queryOffsets.json", "producerSequences.json", "security.json"])
def test_a_store_from_before_there_was_such_state_is_not_replayed_for_it(
    tmp_path: Path, clock: ManualClock, name: str
) -> None:
    config = write_rocketmqs(tmp_path)
    open_state(tmp_path, clock).on_opened(PhysicalOffset(5000))
    (config / name).unlink()
    assert open_state(tmp_path, clock).reflected() == 5000
    (config / name).write_text("{damaged")
    assert open_state(tmp_path, clock).reflected() == 0


def test_query_offsets_are_kept_by_the_log_and_the_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    state = open_state(tmp_path, clock)
    run = run_of(QUERIES, json.dumps({"event": "kept", "query": "q", "document": '{"t": 1}'}).encode())
    state.on_run(run)
    state.is_closing = True
    state.persist()
    again = open_state(tmp_path, clock)
    assert again.query_offsets.listed() == [{"query": "q", "kept_at_ms": 9, "size_bytes": 8, "version": 0}]
    again.on_run(run)
    assert again.query_offsets.text("q") == '{"t": 1}'
    again.on_run(run_of(QUERIES, b'{"event":"dropped","query":"q"}', run.end))
    assert again.query_offsets.text("q") is None


def test_users_are_kept_by_the_log_and_the_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    state = open_state(tmp_path, clock)
    row = {"kind": "user", "name": "app", "version": 7, "fields": {"kind": "super"}}
    changed: list[int] = []
    state.security_table.on_changed = lambda: changed.append(len(state.security_table.rows))
    run = run_of(SECURITY, json.dumps({"event": "merged", "rows": [row]}).encode())
    state.on_run(run)
    state.on_run(run)
    assert changed == [1]
    state.is_closing = True
    state.persist()
    again = open_state(tmp_path, clock)
    assert list(again.security_table.rows.table().users) == ["app"]
    gone = {"kind": "user", "name": "app", "version": 8, "deleted": True}
    again.on_run(run_of(SECURITY, json.dumps({"event": "merged", "rows": [gone]}).encode(), run.end))
    assert not again.security_table.rows.table().users
    for wrong in ({"event": "merged", "rows": [{"kind": "king"}]}, {"event": "merged"}, {"event": "other", "rows": []}):
        with pytest.raises(StoreFormatError, match="does not know the event"):
            again.on_run(run_of(SECURITY, json.dumps(wrong).encode(), run.end + 1000))


def test_locks_are_kept_by_the_log_and_the_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    state = open_state(tmp_path, clock)
    run = run_of(LOCKS, b'{"event":"locked","group":"desk","client":"a","queues":[["trades",0],["orders",1]]}')
    state.on_run(run)
    assert state.queue_locks.owner("desk", "trades", 0) == "a"
    deleted = run_of(TOPICS, b'{"event":"deleted","topic":"trades"}', run.end)
    state.on_run(deleted)
    state.is_closing = True
    state.persist()
    again = open_state(tmp_path, clock)
    assert again.queue_locks.owner("desk", "trades", 0) is None
    assert again.queue_locks.owner("desk", "orders", 1) == "a"
    again.on_run(run)
    assert again.queue_locks.owner("desk", "trades", 0) is None, "the snapshot holds it already"
    again.on_run(run_of(GROUPS, b'{"event":"deleted","group":"desk"}', deleted.end))
    assert again.queue_locks.owner("desk", "orders", 1) is None


def sequenced_run(topic: str, begin: int = 0, **properties: str) -> Run:
    """One message, which is a producer's first."""
    encoded = encode_properties({"PSEQ": f"p:{0:016X}", **properties})
    run = run_of(topic, b"", begin, properties=encoded, sys_flag=SEQUENCED)
    run.sys_flag = SEQUENCED
    return run


def test_sequences_are_kept_by_the_log_and_the_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    """Those of a message that waits in the queue that it will come to."""
    state = open_state(tmp_path, clock)
    run = sequenced_run("trades")
    waiting = sequenced_run(TIMER_TOPIC, run.end, REAL_TOPIC="orders", REAL_QID="7")
    state.on_run(run)
    state.on_run(waiting)
    keys = [("p", "trades", 0), ("p", "orders", 7)]
    entries = [state.producer_table.entry(key) for key in keys]
    assert [entry and entry.pieces[0].waits for entry in entries] == [False, True]
    state.is_closing = True
    state.persist()
    again = open_state(tmp_path, clock)
    again.settle(PhysicalOffset(0), waiting.end)
    again.on_run(run)
    assert [again.producer_table.entry(key) for key in keys] == entries
    again.on_run(run_of(TOPICS, b'{"event":"deleted","topic":"trades"}', waiting.end))
    assert [again.producer_table.entry(key) for key in keys] == [None, entries[1]]
    lost = open_state(tmp_path, clock)
    lost.settle(PhysicalOffset(0), run.end)
    assert [lost.producer_table.entry(key) for key in keys] == [entries[0], None]


def test_a_snapshot_holds_nothing_that_a_power_cut_could_take_from_the_log(tmp_path: Path, clock: ManualClock) -> None:
    flushed = [0]
    state = open_state(tmp_path, clock)
    state.on_opened(PhysicalOffset(0), lambda: flushed[0])
    first = sequenced_run("trades")
    state.on_run(first)
    clock.now = 1000
    assert state.persist() == 0
    later = run_of("trades", b"", first.end)
    state.on_run(later)
    flushed[0] = first.end
    assert state.persist() == first.end, "what the tables held at the call before"
    clock.now = 2000
    assert state.persist_confirmed(later.end) == first.end
    flushed[0] = later.end
    assert state.persist_confirmed(first.end) == first.end
    state.is_closing = True
    assert state.persist_confirmed(later.end) == later.end


def test_snapshots_are_written_when_they_are_old_and_something_came(tmp_path: Path, clock: ManualClock) -> None:
    state = open_state(tmp_path, clock)
    clock.now = 1000
    assert state.persist() == 0
    assert not (tmp_path / "config").exists()
    run = run_of("trades", b"")
    state.on_run(run)
    assert state.persist() == run.end
    later = run_of("trades", b"", run.end)
    state.on_run(later)
    assert state.persist() == run.end
    clock.now = 1100
    assert state.persist() == later.end


def test_snapshots_that_take_long_are_written_seldom(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 100,000 topics they would take a third of a core, and the interpreter from the loop."""
    used_ns = [0]
    state = open_state(tmp_path, clock, cpu_ns=lambda: used_ns[0])
    write = state_log.write_snapshot

    def slow(*arguments: Any) -> None:
        used_ns[0] += 50_000_000
        write(*arguments)

    monkeypatch.setattr(state_log, "write_snapshot", slow)
    took_ms = 50 * len(state_log.FILE_NAMES)
    clock.now = 1000
    first = run_of("trades", b"")
    state.on_run(first)
    assert state.persist() == first.end
    later = run_of("trades", b"", first.end)
    state.on_run(later)
    clock.now = 1000 + 20 * took_ms - 1
    assert state.persist() == first.end
    clock.now = 1000 + 20 * took_ms
    assert state.persist() == later.end
    last = run_of("trades", b"", later.end)
    state.on_run(last)
    state.is_closing = True
    assert state.persist() == last.end


def test_snapshots_that_are_far_behind_come_sooner(tmp_path: Path, clock: ManualClock) -> None:
    """Retention waits for them: a log that grows fast filled the disk meanwhile."""
    used_ns = [0]

    def cpu_ns() -> int:
        used_ns[0] += 50_000_000
        return used_ns[0]

    state = open_state(tmp_path, clock, cpu_ns=cpu_ns)
    clock.now = 1000
    state.advance(1 << 20)
    assert state.persist() == 1 << 20
    took_ms = 2 * 50  # to copy, and to write
    clock.now = 1000 + 4 * took_ms - 1
    state.advance((5 << 30) + (1 << 20))
    assert state.persist() == 1 << 20
    clock.now += 1
    assert state.persist() == (5 << 30) + (1 << 20)


@pytest.mark.parametrize(
    ("behind", "pauses"), [(0, 20), (1 << 30, 20), (2 << 30, 10), (5 << 30, 4), (10 << 30, 2), (1 << 40, 2)]
)
def test_the_pause_gets_shorter_with_what_is_to_be_covered_down_to_a_bound(behind: int, pauses: float) -> None:
    assert pauses_at(behind) == pauses


def test_the_last_snapshot_is_not_put_off(tmp_path: Path, clock: ManualClock) -> None:
    state = open_state(tmp_path, clock)
    run = run_of("trades", b"")
    state.on_run(run)
    assert state.persist() == 0
    state.is_closing = True
    assert state.persist() == run.end


def test_half_of_a_pair_goes_into_the_log_and_the_snapshot_as_its_escape(tmp_path: Path, clock: ManualClock) -> None:
    """JSON may hold it, UTF-8 may not: a client's setting must not be one that can never be written down."""
    text, state = "\ud800\u00e9", open_state(tmp_path, clock)
    staged: list[bytes] = []

    class Store:
        def stage_record(self, record: NewRecord, *, frees_room: bool) -> Any:
            staged.append(record.body)
            return SimpleNamespace(end=5)

    state.stage(Store(), GROUPS, state.group_table.event_set("g", [("attributes", json.dumps({"a": text}))]))
    state.on_run(run_of(GROUPS, staged[0]))
    state.is_closing = True
    state.persist()
    again = open_state(tmp_path, clock).group_table.documents["g"]
    assert again["attributes"] == {"a": text}
    assert json.loads(encode_document(again)) == again


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a":' * 100_000, b'{"event":"from the future"}'])
def test_an_event_that_is_none_stops_the_start(tmp_path: Path, clock: ManualClock, body: bytes) -> None:
    with pytest.raises(StoreFormatError):
        open_state(tmp_path, clock).on_run(run_of(OFFSETS, body))


def test_what_may_yet_be_lost_is_in_no_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    """Of a replicated log a snapshot is written late: what the tables held when it was due, once all of it is confirmed."""
    state = open_state(tmp_path, clock)
    first = run_of(OFFSETS, b'{"event":"committed","group":"desk","offsets":[["trades",0,1]]}')
    state.on_run(first)
    clock.now = 1000
    assert state.persist_confirmed(PhysicalOffset(first.end - 1)) == 0
    second = run_of(OFFSETS, b'{"event":"committed","group":"desk","offsets":[["trades",0,2]]}', first.end)
    state.on_run(second)
    assert state.persist_confirmed(first.end) == first.end
    assert open_state(tmp_path, clock).offset_table.offset("desk", "trades", 0) == 1
    assert state.persist_confirmed(second.end) == first.end, "not due yet"
    clock.now = 2000
    assert state.persist_confirmed(second.end) == second.end
    assert open_state(tmp_path, clock).offset_table.offset("desk", "trades", 0) == 2


@pytest.mark.parametrize("topic", [TOPICS, GROUPS, OFFSETS, LOCKS, QUERIES])
def test_an_event_of_a_newer_version_is_refused_with_what_to_do(tmp_path: Path, clock: ManualClock, topic: str) -> None:
    state = open_state(tmp_path, clock)
    with pytest.raises(StoreFormatError, match=r"does not know the event .*'renamed'.* later one .*Upgrade"):
        state.on_run(run_of(topic, b'{"event": "renamed"}'))


def tell(state: StateLog, topic: str, bodies: list[bytes]) -> int:
    """The log has these events; returns where it ends."""
    end = 0
    for body in bodies:
        run = run_of(topic, body, end)
        state.on_run(run)
        end = run.end
    return end


KNOWN_EVENTS = {
    TOPICS: b'{"event":"set","topic":{"topicName":"t","readQueueNums":1,"writeQueueNums":1}}',
    GROUPS: b'{"event":"set","group":{"groupName":"g"}}',
    OFFSETS: b'{"event":"committed","group":"g","offsets":[["t",0,7]]}',
    LOCKS: b'{"event":"locked","group":"g","client":"c","queues":[["t",0]]}',
    QUERIES: b'{"event":"kept","query":"q","document":"{}"}',
}


@pytest.mark.parametrize("topic", KNOWN_EVENTS)
@pytest.mark.parametrize("kind", ['"moved"', "7", '["set"]', "{}"])
def test_an_older_broker_passes_over_what_a_newer_one_says_may_be_forgotten(
    tmp_path: Path, clock: ManualClock, topic: str, kind: str
) -> None:
    """Its state, and what it writes of it, is what the other events make; a slave, a start and a rollback read alike."""
    known = KNOWN_EVENTS[topic]
    newer = b'{"event":%s,"topic":7,"group":[],"optional":true}' % kind.encode()
    documents = []
    for name, bodies in (("newer", [newer, known, newer]), ("alone", [known])):
        (tmp_path / name).mkdir()
        for _ in ("a slave", "after a rollback, from no snapshot"):
            state = open_state(tmp_path / name, clock)
            end = tell(state, topic, bodies)
        table = {
            TOPICS: state.topic_table,
            GROUPS: state.group_table,
            OFFSETS: state.offset_table,
            LOCKS: state.queue_locks,
            QUERIES: state.query_offsets,
        }[topic]
        documents.append({key: value for key, value in table.document().items() if key != "dataVersion"})
        state.on_opened(PhysicalOffset(end))
        state.is_closing = True
        assert state.persist() == end
    assert _without_places(documents[0]) == _without_places(documents[1])
    assert documents[1]


def _without_places(document: Any) -> Any:
    """Each time a topic is made it has another incarnation, and its record is elsewhere."""
    if not isinstance(document, dict):
        return document
    return {name: _without_places(value) for name, value in document.items() if name not in ("incarnation", "madeAt")}


@pytest.mark.parametrize("topic", KNOWN_EVENTS)
@pytest.mark.parametrize("mark", [b"", b',"optional":false', b',"optional":1', b',"optional":"true"'])
def test_what_is_not_said_to_be_optional_is_never_passed_over(
    tmp_path: Path, clock: ManualClock, topic: str, mark: bytes
) -> None:
    with pytest.raises(StoreFormatError, match="newer version"):
        tell(open_state(tmp_path, clock), topic, [b'{"event":"moved"%s}' % mark])


def test_a_known_event_counts_whatever_it_says_of_itself(tmp_path: Path, clock: ManualClock) -> None:
    state = open_state(tmp_path, clock)
    tell(state, OFFSETS, [KNOWN_EVENTS[OFFSETS][:-1] + b',"optional":true}'])
    assert state.offset_table.offset("g", "t", 0) == 7
    with pytest.raises(StoreFormatError):
        tell(state, TOPICS, [b'{"event":"deleted","topic":7,"optional":true}'])
