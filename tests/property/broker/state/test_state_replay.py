"""The state is a function of the log: wherever a snapshot was taken, replaying the rest from it, or from further back,
ends in the state that the broker had; and so does a replay of all of it onto nothing."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.queue_locks import LockDecision
from zenitmq.broker.state.state_log import GROUPS, LOCKS, OFFSETS, QUERIES, TOPICS, StateLog
from zenitmq.model.clock import SystemClock
from zenitmq.model.queue import PhysicalOffset, QueueOffset
from zenitmq.model.route import TopicConfig
from zenitmq.record.kernel import encode_record
from zenitmq.store.queues.dispatch import Run

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 9)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("group"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("ungroup"), NAMES),
    st.tuples(
        st.just("commit"), NAMES, NAMES, st.integers(0, 2), st.integers(0, 99), st.integers(-1, 2), st.booleans()
    ),
    st.tuples(st.just("reset"), NAMES, NAMES, st.integers(0, 2), st.integers(0, 99)),
    st.tuples(st.just("lock"), NAMES, NAMES, NAMES, st.integers(0, 2)),
    st.tuples(st.just("unlock"), NAMES, NAMES, NAMES, st.integers(0, 2)),
    st.tuples(st.just("start"), NAMES, NAMES, st.integers(0, 99)),
    st.tuples(st.just("keep"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("other")),
)


@dataclass
class Log:
    """Runs of state records as the store would dispatch them."""

    runs: list[Run] = field(default_factory=list)
    end: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def append(self, topic: str, event: dict[str, Any]) -> Run:
        queue_offset = self.counts.get(topic, 0)
        self.counts[topic] = queue_offset + 1
        record = encode_record(
            topic=topic.encode(),
            body=json.dumps(event).encode(),
            queue_offset=queue_offset,
            physical_offset=self.end,
            store_timestamp_ms=1000 + self.end,
        )
        nothing = memoryview(b"")
        begin, self.end = self.end, self.end + len(record)
        run = Run(
            topic, 0, QueueOffset(queue_offset), 1, PhysicalOffset(begin), PhysicalOffset(self.end), 1000,
            nothing, nothing, nothing, 0, 0, memoryview(record),
        )  # fmt: skip
        self.runs.append(run)
        return run


def open_state(directory: str) -> StateLog:
    producers = ProducerTable(retention_ms=1 << 40, entries_max=100)
    return StateLog(directory, clock=SystemClock(), persist_interval_ms=1 << 40, producers=producers)


def documents(state: StateLog) -> list[Any]:
    return [
        state.topic_table.document(),
        state.group_table.document(),
        state.offset_table.document(),
        state.queue_locks.document(),
        state.query_offsets.document(),
    ]


def append(log: Log, state: StateLog, step: tuple[Any, ...]) -> None:
    kind, *rest = step
    if kind == "create":
        run = log.append(TOPICS, state.topic_table.event_set(TopicConfig(rest[0], rest[1], rest[1])))
    elif kind == "delete":
        run = log.append(TOPICS, state.topic_table.event_deleted(rest[0]))
    elif kind == "group":
        run = log.append(GROUPS, state.group_table.event_set(rest[0], [("retryMaxTimes", str(rest[1]))]))
    elif kind == "ungroup":
        run = log.append(GROUPS, state.group_table.event_deleted(rest[0]))
    elif kind == "commit":
        run = log.append(
            OFFSETS,
            state.offset_table.event_committed(rest[0], [(rest[1], rest[2], rest[3], rest[4])], forward_only=rest[5]),
        )
    elif kind == "reset":
        run = log.append(OFFSETS, state.offset_table.event_reset(rest[0], [(rest[1], rest[2], rest[3])], 1)[0])
    elif kind in ("lock", "unlock"):
        client, lock = rest[0], (rest[1], rest[2], rest[3])
        decision = LockDecision(client, taken=(lock,)) if kind == "lock" else LockDecision(client, freed=(lock,))
        run = log.append(LOCKS, next(decision.events()))
    elif kind == "start":
        run = log.append(OFFSETS, state.offset_table.event_started(rest[0], rest[1], [rest[2], rest[2] + 1], 7))
    elif kind == "keep":
        run = log.append(QUERIES, {"event": "kept", "query": rest[0], "document": f'{{"n": {rest[1]}}}'})
    elif kind == "drop":
        run = log.append(QUERIES, {"event": "dropped", "query": rest[0]})
    else:
        run = log.append("trades", {"not": "an event"})
    state.on_run(run)


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=25), data=st.data())
def test_any_snapshot_and_the_rest_of_the_log_give_the_same_state(
    steps: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(steps)), label="snapshot after step")
    back = data.draw(st.integers(0, at), label="replay from step")
    with tempfile.TemporaryDirectory() as directory:
        live, log = open_state(directory), Log()
        for number, step in enumerate(steps):
            if number == at:
                live.is_closing = True
                live.persist()
            append(log, live, step)
        replayed = open_state(directory)
        assert replayed.reflected() == (log.runs[at - 1].end if 0 < at < len(steps) else 0)
        for run in log.runs[back if at < len(steps) else 0 :]:
            replayed.on_run(run)
        assert documents(replayed) == documents(live)

        shutil.rmtree(os.path.join(directory, "config"), ignore_errors=True)
        rebuilt = open_state(directory)
        for run in log.runs:
            rebuilt.on_run(run)
        assert documents(rebuilt) == documents(live)
