"""Whether every message was handled at least once, and why some were handled more often. Pure: records in, counts out.

A second handling of a message by a group has one of the causes that docs/guide allows for:

    sent back       the handler failed before, or the answer to a message sent back was lost (retries.md)
    stored twice    the sender tried again, and a broker was away, or the machine stalled, at that time or just before
                    (sending.md); of an idempotent sender that is wrong (idempotent.md); by the stream's sink, which is
                    at-least-once (pipeline.md)
    rebalance       a member of the group joined or left between the two, or shortly before the first (groups.md)
    broker away     a broker was away between the two, or shortly before the first (consuming.md: after a crash, a lost reply)
    machine stalled the same, where no broker was away but the machine stood still: it looks the same from outside

Whatever has none of them is unexplained, and wrong.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from .records import OK, Asked, Away, Handled, Moved, Recalled, Record, Refused, Sent, Stalled, Wrong

SENT_BACK, STORED_TWICE, SINK_AGAIN = "sent back", "stored twice", "stored twice by the sink"
REBALANCE, BROKER_AWAY, STALLED, UNEXPLAINED = "rebalance", "broker away", "machine stalled", "unexplained"
SETTLE_MS: Final = 30_000.0
"""How long after an event its consequences may still show: heartbeats, the wait for members after an election."""
REMEMBERED_MS: Final = 900_000.0
"""Who handled a message first is known for so long; a second handling after that has no cause that is allowed."""
EXAMPLES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """`groups_of`: the groups that must handle what is sent to a topic. `ordered`: groups that handle each queue in order.
    `once`: prefix of the streams of idempotent senders. `copied_to`: groups that read what the stream's sink wrote."""

    groups_of: Callable[[str], Sequence[str]]
    ordered: frozenset[str] = frozenset()
    once: str = "once"
    copied_to: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Stream:
    """One sender's numbers. `open`: sent and acknowledged, not yet handled by all. `handled`: group -> number -> its first
    handling, for a while. `past`: group -> a byte a number, 1 = handled."""

    topic: str
    acknowledged: int = 0
    open: dict[int, float] = field(default_factory=dict)
    handled: dict[str, dict[int, Handled]] = field(default_factory=lambda: defaultdict(dict))
    past: dict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))

    def is_handled(self, group: str, number: int) -> bool:
        past = self.past[group]
        return number in self.handled[group] or (number < len(past) and past[number] == 1)


class MessageAccount:
    """Takes records in any order. One thread."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._streams: dict[str, _Stream] = {}
        self._unacknowledged: Counter[str] = Counter()
        self._recalled: set[tuple[str, int]] = set()
        self._not_recalled: Counter[str] = Counter()
        self._duplicates: list[tuple[Handled | None, Handled]] = []
        self._in_order: dict[tuple[str, str], dict[int, tuple[float, str, int]]] = defaultdict(dict)
        self._acknowledged_in_order: set[tuple[str, int]] = set()
        self._away: list[Away] = []
        self._stalled: list[Stalled] = []
        self._moves: dict[str, list[float]] = defaultdict(list)
        self._moved: Counter[str] = Counter()
        self._handled: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._asked_ms: list[float] = []
        self._late_ms: list[float] = []
        self._early: list[Handled] = []
        self._refused: Counter[str] = Counter()
        self._wrong: list[Wrong] = []

    # ---- taking records

    def take(self, record: Record) -> None:
        """One more."""
        match record:
            case Handled():
                self._on_handled(record)
            case Sent():
                self._on_sent(record)
            case Recalled():
                self._on_recalled(record)
            case Moved():
                bisect.insort(self._moves[record.group], record.at_ms)
                self._moved[record.how] += 1
            case Away():
                self._away.append(record)
            case Stalled():
                self._stalled.append(record)
            case Asked():
                self._asked[record.outcome] += 1
                self._asked_ms.append(record.took_ms)
            case Refused():
                self._refused[f"{record.what}: {record.error}"] += 1
            case Wrong():
                self._wrong.append(record)
            case _:
                pass

    def _on_sent(self, sent: Sent) -> None:
        stream = self._streams.setdefault(sent.stream, _Stream(sent.topic))
        stream.topic = sent.topic  # it may have been handled before this was read
        if sent.outcome != OK:
            self._unacknowledged[sent.outcome] += 1
            return
        stream.acknowledged += 1
        if self._is_ordered(sent.topic):
            self._acknowledged_in_order.add((sent.stream, sent.number))
        stream.open[sent.number] = sent.ended_ms
        self._close_if_done(stream, sent.number)

    def _is_ordered(self, topic: str) -> bool:
        return not self._rules.ordered.isdisjoint(self._rules.groups_of(topic))

    def _on_recalled(self, recalled: Recalled) -> None:
        if recalled.outcome != OK:
            self._not_recalled[recalled.outcome] += 1
            return
        self._recalled.add((recalled.stream, recalled.number))
        if (stream := self._streams.get(recalled.stream)) is not None:
            stream.open.pop(recalled.number, None)

    def _on_handled(self, handled: Handled) -> None:
        self._handled[handled.group] += 1
        stream = self._streams.setdefault(handled.stream, _Stream(""))
        if handled.due_ms:
            if handled.at_ms < handled.due_ms:
                self._early.append(handled)
            self._late_ms.append(handled.at_ms - handled.due_ms)
        if handled.group in self._rules.ordered:
            places = self._in_order[handled.group, handled.place]
            known = places.get(handled.offset)
            if known is None or handled.at_ms < known[0]:
                places[handled.offset] = (handled.at_ms, handled.stream, handled.number)
        firsts = stream.handled[handled.group]
        first = firsts.get(handled.number)
        if first is None:
            if stream.is_handled(handled.group, handled.number):
                self._duplicates.append((None, handled))
            else:
                firsts[handled.number] = handled
                self._close_if_done(stream, handled.number)
            return
        if handled.at_ms < first.at_ms:
            firsts[handled.number] = handled
            first, handled = handled, first
        self._duplicates.append((first, handled))

    def _close_if_done(self, stream: _Stream, number: int) -> None:
        if number in stream.open and all(
            stream.is_handled(group, number) for group in self._rules.groups_of(stream.topic)
        ):
            del stream.open[number]

    def forget(self, now_ms: float) -> None:
        """Keeps of what was handled long ago only that it was."""
        for stream in self._streams.values():
            for group, firsts in stream.handled.items():
                old = [number for number, first in firsts.items() if first.at_ms < now_ms - REMEMBERED_MS]
                past = stream.past[group]
                for number in old:
                    past.extend(bytes(max(0, number + 1 - len(past))))
                    past[number] = 1
                    del firsts[number]

    # ---- what came of it

    def pending(self) -> dict[str, int]:
        """How many acknowledged messages are not yet handled by all groups, by topic; once all has ended, they are lost."""
        pending: Counter[str] = Counter()
        for name, stream in self._streams.items():
            pending[stream.topic] += sum((name, number) not in self._recalled for number in stream.open)
        return {topic: count for topic, count in pending.items() if count}

    def document(self, *, is_ended: bool = True) -> dict[str, Any]:
        """All counts, examples of what is wrong, and whether nothing is (`passed`).

        `is_ended`: what is not handled is lost; else it is on its way.
        """
        causes: dict[str, Counter[str]] = defaultdict(Counter)
        ages: dict[str, float] = defaultdict(float)
        wrong: list[str] = [f"{each.what}: {each.text}" for each in self._wrong]
        for first, second in self._duplicates:
            cause = self._cause(first, second)
            causes[second.group][cause] += 1
            if first is not None:
                ages[cause] = max(ages[cause], second.at_ms - first.at_ms)
            if cause == UNEXPLAINED:
                wrong.append(f"handled twice without a cause: {first} and {second}")
        disorder = self._disorder()
        wrong += disorder
        wrong += [f"delivered early: {each}" for each in self._early]
        recalled_anyway = [
            f"delivered though recalled: {name} {number}"
            for name, number in sorted(self._recalled)
            if (stream := self._streams.get(name))
            and any(stream.is_handled(group, number) for group in self._rules.groups_of(stream.topic))
        ]
        wrong += recalled_anyway
        on_their_way = self.pending()
        pending = on_their_way if is_ended else {}
        wrong += [
            f"lost: {count} messages of {topic}: {self._lost_examples(topic)}" for topic, count in pending.items()
        ]
        unexplained = sum(counts[UNEXPLAINED] for counts in causes.values())
        late = sorted(self._late_ms)
        return {
            "acknowledged": sum(stream.acknowledged for stream in self._streams.values()),
            "not_acknowledged": dict(self._unacknowledged),
            "handled": dict(sorted(self._handled.items())),
            "lost": sum(pending.values()),
            "on_their_way": 0 if is_ended else sum(on_their_way.values()),
            "duplicates": {group: dict(counts) for group, counts in sorted(causes.items())},
            "duplicate_age_ms_max": {cause: round(age) for cause, age in ages.items()},
            "unexplained": unexplained,
            "out_of_order": len(disorder),
            "delayed": {
                "handled": len(late),
                "early": len(self._early),
                "late_ms_median": round(median(late), 1) if late else None,
                "late_ms_p99": round(late[int(len(late) * 0.99)], 1) if late else None,
                "late_ms_max": round(late[-1], 1) if late else None,
                "recalled": len(self._recalled),
                "not_recalled": dict(self._not_recalled),
                "delivered_though_recalled": len(recalled_anyway),
            },
            "requests": {
                "outcomes": dict(self._asked),
                "median_ms": round(median(self._asked_ms), 1) if self._asked_ms else None,
                "longest_ms": round(max(self._asked_ms, default=0.0), 1),
            },
            "members": dict(self._moved),
            "away": [
                {"broker": a.broker, "how": a.how, "begun_ms": round(a.begun_ms), "ended_ms": round(a.ended_ms)}
                for a in sorted(self._away, key=lambda away: away.begun_ms)
            ],
            "stalls": len(self._stalled),
            "stall_ms_max": round(max((stall.woke_ms - stall.due_ms for stall in self._stalled), default=0.0)),
            "refused": dict(sorted(self._refused.items())),
            "wrong": len(wrong),
            "examples": wrong[:EXAMPLES_MAX],
            "passed": not wrong and "wrong reply" not in self._asked,
        }

    def _cause(self, first: Handled | None, second: Handled) -> str:
        """Why a message was handled again."""
        if second.tries > 0:
            return SENT_BACK
        if first is None:
            return UNEXPLAINED
        if (first.place, first.offset) != (second.place, second.offset) and first.tries == 0:
            is_copied = second.group in self._rules.copied_to
            if second.stream.startswith(self._rules.once) and not is_copied:
                return UNEXPLAINED
            stored = sorted((first.stored_ms, second.stored_ms))
            if not self._was_away(*stored) and not self._was_stalled(*stored):
                return UNEXPLAINED
            return SINK_AGAIN if is_copied else STORED_TWICE
        if self._was_away(first.at_ms, second.at_ms):
            return BROKER_AWAY
        moves = self._moves[second.group]
        at = bisect.bisect_left(moves, first.at_ms - SETTLE_MS)
        if at < len(moves) and moves[at] <= second.at_ms:
            return REBALANCE
        return STALLED if self._was_stalled(first.at_ms, second.at_ms) else UNEXPLAINED

    def _was_away(self, begin_ms: float, end_ms: float) -> bool:
        return any(away.begun_ms <= end_ms and away.ended_ms + SETTLE_MS >= begin_ms for away in self._away)

    def _was_stalled(self, begin_ms: float, end_ms: float) -> bool:
        return any(stall.due_ms <= end_ms and stall.woke_ms + SETTLE_MS >= begin_ms for stall in self._stalled)

    def _disorder(self) -> list[str]:
        """Where a queue was handled, or a sender's numbers were stored, in another order; first handlings count."""
        found = []
        for (group, place), handlings in self._in_order.items():
            latest_ms, latest = 0.0, -1
            numbers: dict[str, int] = {}
            seen: set[tuple[str, int]] = set()
            for offset, (at_ms, stream, number) in sorted(handlings.items()):
                if at_ms < latest_ms:
                    found.append(f"{group} handled offset {offset} of {place} before offset {latest}")
                latest_ms, latest = max(latest_ms, at_ms), offset
                if (stream, number) in seen or (stream, number) not in self._acknowledged_in_order:
                    continue  # stored again by a retry, or given up by its sender
                seen.add((stream, number))
                if number < numbers.get(stream, -1):
                    found.append(f"{place} stores {stream} {number} behind {numbers[stream]}")
                numbers[stream] = max(number, numbers.get(stream, -1))
        return found

    def _lost_examples(self, topic: str) -> str:
        lost = [
            f"{name} {number}"
            for name, stream in self._streams.items()
            if stream.topic == topic
            for number in sorted(stream.open)
            if (name, number) not in self._recalled
        ]
        return ", ".join(lost[:5])


def groups_by_topic(groups: Mapping[str, Sequence[str]], *, passing: tuple[str, str]) -> Callable[[str], Sequence[str]]:
    """`groups`: of topics that stay; `passing`: (prefix, group) of those that are made and deleted."""
    prefix, group = passing

    def of(topic: str) -> Sequence[str]:
        return (group,) if topic.startswith(prefix) else groups.get(topic, ())

    return of
