"""Pops, acknowledgements, returns, changes, renewals, resets and deletions in any order: the table is what a plain model says.

And whatever moment a snapshot is of: what is loaded from it, after a replay of the log from where it says or before, is the
same table. A snapshot is taken by another thread, so here events are applied between any two of its steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pop_kit import GROUP, TOPIC, apply, content, interrupted

from zenitmq.broker.state.pop_table import Popped, PopTable

QUEUES = 2
QUEUE_IDS = st.integers(0, QUEUES - 1)
MESSAGES = 12  # of a queue
LEASES_MS = st.sampled_from((100, 1000, 30_000))
Key = tuple[int, int]
"""(queue id, offset)."""


class PopHistories(RuleBasedStateMachine):
    @initialize(ordered=st.booleans())
    def begin(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.now_ms = 1_000_000
        self.log: list[Any] = []
        self.table = PopTable()
        self.snapshots: list[tuple[str, int]] = []  # content, how much of the log it reflects
        self.handles: list[tuple[int, tuple[int, int], int]] = []  # (queue id, name, count), of all pops
        # the model: what each message is
        self.next = [0] * QUEUES
        self.known = [False] * QUEUES
        self.available: dict[Key, int] = {}
        self.leased: dict[Key, tuple[tuple[int, int], int, int, int]] = {}  # name, index, attempts, invisible time
        self.due: dict[tuple[int, tuple[int, int]], int] = {}
        self.given_back: set[tuple[int, tuple[int, int]]] = set()  # what the table was told is due again
        self.tell({"event": "signed", "key": "00" * 32})

    def tell(self, event: Any) -> None:
        self.log.append(event)
        apply(self.table, event, self.now_ms)

    def key_of(self, offset: int) -> int:
        return offset % 3 if self.ordered else 0

    # ---- rules

    @rule(
        queue_id=QUEUE_IDS,
        count=st.integers(1, 5),
        invisible_ms=LEASES_MS,
        owner=st.sampled_from(("", "c")),
    )
    def pop(self, queue_id: int, count: int, invisible_ms: int, owner: str) -> None:
        found = sorted(offset for at, offset in self.available if at == queue_id)
        found += range(self.next[queue_id], MESSAGES)
        blocked = {self.key_of(o) for at, o in self.leased if at == queue_id} if self.ordered else set()
        chosen: list[int] = []
        passed: list[int] = []
        next_offset = self.next[queue_id]
        for offset in found:
            if len(chosen) == count:
                break
            next_offset = max(next_offset, offset + 1)
            if self.ordered and self.key_of(offset) in blocked:
                passed.append(offset)
            else:
                chosen.append(offset)
            if self.ordered:
                blocked.add(self.key_of(offset))
        if not chosen:
            return
        queue = self.table.queue((GROUP, TOPIC, queue_id))
        pop_ms = max(self.now_ms, 0 if queue is None else queue.last_pop_ms + 1)
        attempts = [self.available.pop((queue_id, offset), 0) for offset in chosen]
        is_range = chosen[-1] - chosen[0] == len(chosen) - 1
        popped = Popped(
            queue_id,
            range(chosen[0], chosen[-1] + 1) if is_range else tuple(chosen),
            pop_ms,
            invisible_ms,
            next_offset,
            owner=owner,
            attempts=tuple(attempts) if any(attempts) else (),
            keys=tuple(map(self.key_of, chosen)) if self.ordered else (),
            passed=tuple((o, self.key_of(o)) for o in passed if o >= self.next[queue_id]),
        )
        for offset in passed:
            self.available.setdefault((queue_id, offset), 0)
        self.next[queue_id], self.known[queue_id] = next_offset, True
        name = chosen[0], pop_ms
        for index, offset in enumerate(chosen):
            self.leased[queue_id, offset] = name, index, attempts[index], invisible_ms
        self.due[queue_id, name] = self.now_ms + invisible_ms
        self.handles.append((queue_id, name, len(chosen)))
        self.tell(PopTable.event_popped(GROUP, TOPIC, [popped]))

    def of(self, which: int, bits: int) -> tuple[tuple[int, tuple[int, int], int], list[Key]]:
        queue_id, name, count = self.handles[which % len(self.handles)]
        keys = [
            (at, offset)
            for (at, offset), (held_by, index, _, _) in self.leased.items()
            if at == queue_id and held_by == name and bits >> index & 1
        ]
        return (queue_id, name, bits & ((1 << count) - 1)), keys

    has_handles = precondition(lambda self: bool(self.handles))

    @has_handles
    @rule(which=st.integers(0, 1 << 30), bits=st.integers(1, 31))
    def ack(self, which: int, bits: int) -> None:
        (queue_id, name, bits), keys = self.of(which, bits)
        for key in keys:
            del self.leased[key]
        self.tell(PopTable.event_acked(GROUP, TOPIC, [(queue_id, *name, bits)]))

    @has_handles
    @rule(which=st.integers(0, 1 << 30), bits=st.integers(1, 31), counts=st.booleans())
    def give_back(self, which: int, bits: int, *, counts: bool) -> None:
        (queue_id, name, bits), keys = self.of(which, bits)
        for key in keys:
            _, _, attempts, _ = self.leased.pop(key)
            self.available[key] = attempts + counts
        self.tell(PopTable.event_returned(GROUP, TOPIC, [(queue_id, *name, bits)], counts=counts))

    @has_handles
    @rule(which=st.integers(0, 1 << 30), index=st.integers(0, 4), invisible_ms=LEASES_MS)
    def change(self, which: int, index: int, invisible_ms: int) -> None:
        (queue_id, name, _), keys = self.of(which, 1 << index)
        queue = self.table.queue((GROUP, TOPIC, queue_id))
        pop_ms = max(self.now_ms, 0 if queue is None else queue.last_pop_ms + 1)
        for key in keys:
            _, _, attempts, _ = self.leased[key]
            self.leased[key] = (key[1], pop_ms), 0, attempts, invisible_ms
            self.due[queue_id, (key[1], pop_ms)] = self.now_ms + invisible_ms
            self.handles.append((queue_id, (key[1], pop_ms), 1))
        self.tell(PopTable.event_changed(GROUP, TOPIC, queue_id, name, [(index, pop_ms, invisible_ms)]))

    @has_handles
    @rule(which=st.integers(0, 1 << 30))
    def renew(self, which: int) -> None:
        (queue_id, name, _), keys = self.of(which, 31)
        for key in keys:
            self.due[queue_id, name] = self.now_ms + self.leased[key][3]
        self.tell(PopTable.event_renewed(GROUP, TOPIC, [(queue_id, *name)]))

    @rule(queue_id=QUEUE_IDS, offset=st.integers(0, MESSAGES - 1), is_named=st.booleans())
    def bury(self, queue_id: int, offset: int, *, is_named: bool) -> None:
        lease = self.leased.pop((queue_id, offset), None)
        is_open = self.available.pop((queue_id, offset), None) is not None or lease is not None
        if is_open and is_named:
            self.tell(("buried", queue_id, offset, lease and lease[0]))
        elif is_open:
            self.tell(PopTable.event_ended(GROUP, TOPIC, [(queue_id, offset)]))

    @rule(queue_id=QUEUE_IDS, offset=st.integers(0, MESSAGES - 1))
    def reset(self, queue_id: int, offset: int) -> None:
        self.forget(queue_id)
        self.next[queue_id] = offset
        self.tell(("moved", queue_id, offset))

    @rule()
    def delete(self) -> None:
        self.now_ms += 1000  # so that no name is given twice
        for queue_id in range(QUEUES):
            self.forget(queue_id)
            self.next[queue_id], self.known[queue_id] = 0, False
        self.tell(("deleted",))

    def forget(self, queue_id: int) -> None:
        self.available = {key: n for key, n in self.available.items() if key[0] != queue_id}
        self.leased = {key: lease for key, lease in self.leased.items() if key[0] != queue_id}

    @rule(passed_ms=st.sampled_from((1, 60, 99, 100, 1000, 31_000)), back_ms=st.sampled_from((0, 0, 50)))
    def time_passes(self, passed_ms: int, back_ms: int) -> None:
        """What is over comes again, not early and at most a slot late; what is given back in between comes again later."""
        self.now_ms += passed_ms
        for due in self.table.take_due(self.now_ms, count_max=100):
            checkpoint = due.checkpoint
            queue_id = checkpoint.queue.key[2]
            bits = checkpoint.queue.open_bits(checkpoint)
            assert bits
            due_ms = self.due[queue_id, checkpoint.name]
            assert due_ms <= due.due_ms <= due_ms + (50 if (queue_id, checkpoint.name) not in self.given_back else 200)
            if due.due_ms > self.now_ms - back_ms:
                assert due.due_ms <= self.now_ms or checkpoint.owner
                self.given_back.add((queue_id, checkpoint.name))
                self.table.put_back(due)
                continue
            (_, name, bits), keys = self.of(self.handles.index((queue_id, checkpoint.name, checkpoint.count)), bits)
            for key in keys:
                _, _, attempts, _ = self.leased.pop(key)
                self.available[key] = attempts + 1
            self.tell(PopTable.event_returned(GROUP, TOPIC, [(queue_id, *name, bits)], counts=True))
        for (queue_id, _), (name, _, _, _) in self.leased.items():
            assert self.due[queue_id, name] > self.now_ms - back_ms - 200

    # ---- snapshots

    @rule()
    def keep(self) -> None:
        self.snapshots.append((json.dumps(self.table.document()), len(self.log)))

    @precondition(lambda self: len(self.log) > 1)
    @rule(
        behind=st.integers(1, 6),
        steps=st.lists(st.integers(0, 400), min_size=6, max_size=6),
        middle=st.none() | st.integers(0, 150),
    )
    def keep_torn(self, behind: int, steps: list[int], middle: int | None) -> None:
        """Events of the past, as they would have been applied while another thread takes the snapshot."""
        begin = max(0, len(self.log) - behind)
        table = PopTable()
        for event in self.log[:begin]:
            apply(table, event, self.now_ms)
        later = self.log[begin:]
        if middle is not None:  # the whole snapshot is taken in the middle of one event
            taken: list[str] = []
            step = {middle: lambda: taken.append(json.dumps(table.document()))}
            interrupted(step, lambda: apply(table, later[0], self.now_ms))
            self.snapshots.append((taken[0], begin))
            return
        at: dict[int, list[Any]] = {}
        for number, event in zip(sorted(steps), later, strict=False):
            at.setdefault(number, []).append(event)

        def step_of(events: list[Any]) -> Callable[[], None]:
            return lambda: [apply(table, event, self.now_ms) for event in events] and None  # type: ignore[func-returns-value]

        document = interrupted({n: step_of(events) for n, events in at.items()}, table.document)
        self.snapshots.append((json.dumps(document), begin))

    @precondition(lambda self: bool(self.snapshots))
    @rule(which=st.integers(0, 1 << 30), earlier=st.integers(0, 12))
    def start_from_a_snapshot(self, which: int, earlier: int) -> None:
        text, reflected = self.snapshots[which % len(self.snapshots)]
        table = PopTable()
        table.load(json.loads(text))
        table.begin(now_ms=self.now_ms, monotonic_ms=self.now_ms)
        for event in self.log[max(0, reflected - earlier) :]:
            apply(table, event, self.now_ms)
        assert content(table) == content(self.table)

    # ---- always

    @invariant()
    def is_what_the_model_says(self) -> None:
        queues = content(self.table)["queues"]
        for queue_id in range(QUEUES):
            assert (queue_id in queues) == self.known[queue_id]
            if queue_id not in queues:
                continue
            queue = queues[queue_id]
            assert queue["next"] == self.next[queue_id]
            assert queue["available"] == {o: n for (at, o), n in self.available.items() if at == queue_id}
            leased = {o: lease for (at, o), lease in self.leased.items() if at == queue_id}
            assert {o: lease[:4] for o, lease in queue["leased"].items()} == leased
            if self.ordered:
                of_keys = [self.key_of(offset) for offset in leased]
                assert queue["busy"] == {key: of_keys.count(key) for key in of_keys}
                assert queue["keys"] == {offset: self.key_of(offset) for offset in queue["available"]}


TestPopHistories = PopHistories.TestCase
TestPopHistories.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
