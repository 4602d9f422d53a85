"""What waits, through any history of sends, deliveries, checkpoints, crashes and cuts: each message is delivered once.

The log is a list of records, each one unit long. A record waits (until a time), or ends the wait of another, or is none
of both. The table is told of each; a store that follows behind survives a crash, the table does not.
"""

from __future__ import annotations

from bisect import insort

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zenitmq.broker.waiting.waiting_table import ENDED, LOOK_AHEAD_MS, Entry, WaitingTable


class SortedStore:
    """The ordered store, in memory: `write` is one step, as a batch of RocksDB is."""

    def __init__(self) -> None:
        self.reflected = 0
        self.count = 0
        self.entries: list[Entry] = []
        self.due: dict[int, int] = {}

    def due_of(self, offset: int) -> int | None:
        return self.due.get(offset)

    def due_from(self, due_ms: int, offset: int, *, until_ms: int, count_max: int) -> list[Entry]:
        return [e for e in self.entries if e >= (due_ms, offset) and e[0] <= until_ms][:count_max]

    def below(self, offset: int, *, count_max: int) -> list[int]:
        return sorted(at for at in self.due if at < offset)[:count_max]

    def write(self, changes: list[tuple[int, int, int]], reflected: int) -> None:
        for _, due_ms, offset in changes:
            if due_ms != ENDED:
                insort(self.entries, (due_ms, offset))
                self.due[offset] = due_ms
            elif offset in self.due:
                self.entries.remove((self.due.pop(offset), offset))
        self.count = len(self.due)
        self.reflected = reflected


class Histories(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.log: list[tuple[str, int]] = []  # ("waits", due) | ("ends", offset) | ("plain", 0)
        self.confirmed = 0
        self.now_ms = 1000
        self.store = SortedStore()
        self.start()

    def start(self) -> None:
        """A process begins: the table is what the store holds and the log says behind it."""
        self.table = WaitingTable(self.store)
        self.staged: list[tuple[str, int]] = []  # as in the log: what this turn of the loop adds to it
        for offset in range(self.store.reflected, len(self.log)):
            self.tell(offset)

    def tell(self, offset: int) -> None:
        kind, value = self.log[offset]
        if kind == "waits":
            self.table.on_waits(offset, value, offset + 1)
        elif kind == "ends":
            self.table.on_ended(value, offset + 1)
        elif kind == "rolls":
            first = value
            self.table.on_waits(offset, self.due_in_log(first), offset + 1)
            self.table.on_ended(first, offset + 1)

    def due_in_log(self, offset: int) -> int:
        kind, value = self.log[offset]
        return value if kind == "waits" else self.due_in_log(value)

    def append(self, kind: str, value: int) -> None:
        self.log.append((kind, value))
        self.tell(len(self.log) - 1)

    def waiting(self) -> dict[int, int]:
        """By the log alone: {offset: due}."""
        found: dict[int, int] = {}
        for offset, (kind, value) in enumerate(self.log):
            if kind in ("ends", "rolls"):
                found.pop(value, None)
            if kind in ("waits", "rolls"):
                found[offset] = self.due_in_log(offset)
        return found

    @rule(delay_ms=st.integers(1, 5 * LOOK_AHEAD_MS), count=st.integers(1, 4))
    def send(self, delay_ms: int, count: int) -> None:
        for step in range(count):
            self.append("waits", self.now_ms + delay_ms + step % 2)

    @rule()
    def other_record(self) -> None:
        self.append("plain", 0)

    @rule(passed_ms=st.integers(-3_600_000, 3_600_000) | st.integers(0, LOOK_AHEAD_MS))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms = max(0, self.now_ms + passed_ms)

    @rule()
    def confirm(self) -> None:
        self.confirmed = len(self.log)

    @rule(steps=st.integers(1, 3))
    def persist(self, steps: int) -> None:
        changes = self.table.take(self.confirmed)
        for n in range(1, steps + 1):
            part = changes[: len(changes) * n // steps]
            while len(part) < len(changes) and part and changes[len(part)][0] == part[-1][0]:
                part.append(changes[len(part)])
            reflected = self.confirmed if n == steps else (part[-1][0] if part else self.store.reflected)
            self.store.write([c for c in part if c[0] > self.store.reflected], max(reflected, self.store.reflected))

    @rule()
    def settle(self) -> None:
        self.table.settle()

    @rule(count=st.integers(1, 5), is_staged=st.booleans())
    def deliver(self, count: int, is_staged: bool) -> None:
        """The ends are staged, and in the log once a turn of the loop ends: see `turn_ends`."""
        self.table.look_ahead(self.now_ms, count_max=3)
        taken = self.table.take_due(self.now_ms, count_max=count, below=self.confirmed)
        waiting = self.waiting()
        assert len({offset for _, offset in taken}) == len(taken)
        assert taken == sorted(taken)
        for due_ms, offset in taken:
            assert waiting[offset] == due_ms <= self.now_ms, "what is taken waits, and is due"
            assert offset < self.confirmed
        if is_staged:
            for _, offset in taken:
                self.stage("ends", offset)
        else:  # the store had no room
            self.table.put_back(taken)

    def stage(self, kind: str, offset: int) -> None:
        assert offset not in {ended for _, ended in self.staged}, "a wait ends once"
        self.staged.append((kind, offset))
        self.table.on_end_staged(offset)

    @rule()
    def turn_ends(self) -> None:
        """All that is staged is in the log."""
        staged, self.staged = self.staged, []
        for kind, offset in staged:
            self.append(kind, offset)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def recall(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.waiting())))
        if self.table.is_waiting(offset, self.waiting()[offset]):
            self.stage("ends", offset)

    @rule()
    def another_leads_for_a_while(self) -> None:
        self.turn_ends()
        self.table.forget_window()

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def another_s_record_ends_one(self, data: st.DataObject) -> None:
        self.turn_ends()
        if not self.waiting():
            return
        self.append("ends", data.draw(st.sampled_from(sorted(self.waiting()))))

    @rule(keep=st.integers(0, 3))
    def crash(self, keep: int) -> None:
        """What is not confirmed may be lost, and with it the table."""
        del self.log[max(self.confirmed, len(self.log) - keep) :]
        self.start()

    @rule()
    def carry(self) -> None:
        for due_ms, offset in self.table.below(self.store.reflected, count_max=2):
            assert self.waiting()[offset] == due_ms
            self.stage("rolls", offset)

    @rule()
    def begin_from_nothing(self) -> None:
        """The index is lost; the log tells it all again."""
        self.store = SortedStore()
        self.start()

    @invariant()
    def agrees_with_the_log(self) -> None:
        waiting = self.waiting()
        assert self.table.count == len(waiting)
        ending = {offset for _, offset in self.staged}
        if not ending:
            assert self.table.first_due_ms() == min(waiting.values(), default=None)
        for offset, due_ms in waiting.items():
            assert self.table.is_waiting(offset, due_ms) == (offset not in ending)
            assert not self.table.is_waiting(offset, due_ms + 1)
        for offset in range(len(self.log)):
            if offset not in waiting and self.log[offset][0] == "waits":
                assert not self.table.is_waiting(offset, self.log[offset][1])
        if any(offset < self.store.reflected for offset in waiting):
            assert self.table.has_below(self.store.reflected)

    def teardown(self) -> None:
        """In the end, with time enough, everything is delivered exactly once."""
        if not hasattr(self, "log"):
            return
        self.turn_ends()
        self.now_ms = 10**10
        self.confirmed = len(self.log)
        expected = set(self.waiting())
        delivered = []
        for _ in range(10_000):
            self.table.look_ahead(self.now_ms, count_max=3)
            taken = self.table.take_due(self.now_ms, count_max=2, below=self.confirmed)
            if not taken and not self.table.count:
                break
            for _, offset in taken:
                delivered.append(offset)
                self.append("ends", offset)
            self.confirmed = len(self.log)
        assert sorted(delivered) == sorted(expected)
        assert self.table.next_due_ms() is None


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40)


@given(st.lists(st.integers(0, 3 * LOOK_AHEAD_MS), max_size=30))
def test_nothing_is_due_before_its_time_and_next_due_wakes_for_it(delays: list[int]) -> None:
    store = SortedStore()
    store.write([(n + 1, 1000 + delay, n) for n, delay in enumerate(delays)], len(delays))
    table = WaitingTable(store)
    now_ms, found = 1000, []
    while table.count:
        table.look_ahead(now_ms, count_max=4)
        for due_ms, offset in table.take_due(now_ms, count_max=4, below=1 << 62):
            assert due_ms <= now_ms
            found.append((due_ms, offset))
            table.on_ended(offset, len(delays) + len(found))
        next_ms = table.next_due_ms()
        if next_ms is not None:
            assert next_ms <= min(
                (1000 + d for n, d in enumerate(delays) if (1000 + d, n) not in found), default=next_ms
            )
            now_ms = max(now_ms, min(next_ms, now_ms + 50))
    assert sorted(found) == sorted((1000 + delay, n) for n, delay in enumerate(delays))


def test_a_record_that_was_forgotten_neither_waits_nor_holds_the_log() -> None:
    store = SortedStore()
    store.write([(1, 5000, 0), (2, 6000, 1)], 2)
    table = WaitingTable(store)
    table.look_ahead(5000, count_max=10)
    table.forget((5000, 0))
    assert table.take_due(9000, count_max=10, below=10) == [(6000, 1)]
    assert not table.is_waiting(0, 5000)
    assert not table.has_below(1)
    assert table.has_below(2)
    table.put_back([(5000, 0), (6000, 1)])
    assert table.take_due(9000, count_max=10, below=10) == [(6000, 1)]


def test_the_first_of_all_is_found_behind_many_that_have_ended() -> None:
    store = SortedStore()
    store.write([(n + 1, 1000 + n, n) for n in range(250)], 250)
    table = WaitingTable(store)
    for offset in range(249):
        table.on_ended(offset, 251 + offset)
    assert table.first_due_ms() == 1249
    table.on_ended(249, 501)
    assert table.first_due_ms() is None
    assert table.journal_length == 250
