"""What `zenit top` knows of a cluster: the newest samples of each thing, and the document that it shows of them. Pure.

Each `on_...` takes an answer of `Admin`, and the moment at which it came (monotonic ms). Everything kept is bounded: two
samples of each broker, topic and group that there is, some lags of a group for its trend, the newest events.

A counter of a queue has the topic's incarnation in its name, so that a topic made anew is not compared with the old one.
"""

from __future__ import annotations

import enum
import json
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...model.route import MASTER_ID
from .rates import CounterSample, CounterSamples, total

Document = dict[str, Any]

ROWS_MAX: Final = 20
"""Of each table."""
OTHERS_MAX: Final = 10
"""Topics and groups that are not shown, but asked for in a round: by turns, so that one that becomes busy comes to the top."""
TREND_MS: Final = 60_000
TREND_POINTS_MAX: Final = 31
GONE_MS: Final = 300_000
"""How long a broker is shown that the name servers do not know any more."""
GONE_MAX: Final = 100

FIGURES: Final = ("in_per_second", "in_bytes_per_second", "out_per_second", "out_bytes_per_second")


class Order(enum.Enum):
    """By what the rows are sorted, the most first."""

    IN = "in"
    OUT = "out"
    LAG = "lag"


class TopicOrGroup(NamedTuple):
    """A topic or a group to ask for."""

    is_group: bool
    name: str


class SeenBroker:
    """One replica. `statistics` None: it has not answered yet; `why` it gave no figures, or None; `is_hidden`: it is there, but
    refuses to tell them."""

    def __init__(self, about: Document) -> None:
        self.about = about
        self.statistics: Document | None = None
        self.samples: CounterSamples | None = None
        self.why: str | None = None
        self.is_hidden = False
        self.lag_bytes: int | None = None  # at its last answer
        self.gone_ms: int | None = None

    @property
    def replication(self) -> Document:
        """What it says of its replica group; of a broker without one, that it is the master."""
        found: Document = (self.statistics or {}).get("replication") or {"role": "master"}
        return found

    @property
    def answers(self) -> bool:
        """Whether its figures are those of now."""
        return self.statistics is not None and self.why is None and self.gone_ms is None

    @property
    def role(self) -> str | None:
        """master, slave, candidate, halted; silent = it does not answer; gone = no name server knows it; None = not asked yet.
        Of a hidden one what the name server says."""
        if self.gone_ms is not None:
            return "gone"
        if self.is_hidden:
            return "master" if self.about["broker_id"] == MASTER_ID else "slave"
        if self.why is not None:
            return "silent"
        if self.statistics is None:
            return None
        return "halted" if self.replication.get("halted") else str(self.replication["role"])


class SeenSubject:
    """A topic or a group. `asked_ms` None: it was not asked for yet; `why`: what was answered instead of figures."""

    def __init__(self) -> None:
        self.asked_ms: int | None = None
        self.why: str | None = None
        self.samples: CounterSamples | None = None
        self.document: Document = {}
        self.lags: deque[tuple[int, int]] = deque(maxlen=TREND_POINTS_MAX)

    def rates(self) -> dict[Hashable, float]:
        """Of each of its counters."""
        return {} if self.samples is None else self.samples.per_second()

    def read(self, sample: CounterSample) -> None:
        """One more sample."""
        self.asked_ms, self.why = sample.at_ms, None
        self.samples = CounterSamples(sample) if self.samples is None else self.samples.then(sample)


class ClusterFigures:
    """All that was answered so far."""

    def __init__(self) -> None:
        self.order = Order.IN
        self.brokers: dict[str, SeenBroker] = {}
        self._topics: dict[str, SeenSubject] = {}
        self._groups: dict[str, SeenSubject] = {}
        self._events: list[Document] = []
        self._unseen: dict[str, str] = {}
        self._cluster: str | None = None

    # ---- answers

    def on_cluster(self, now_ms: int, document: Document) -> None:
        """Which brokers are registered."""
        listed = {broker["address"]: broker for broker in document["brokers"]}
        for address, about in listed.items():
            known = self.brokers.setdefault(address, SeenBroker(about))
            known.about, known.gone_ms = about, None
            self._cluster = about["cluster"]
        for address, known in self.brokers.items():
            if address not in listed and known.gone_ms is None:
                known.gone_ms = now_ms
        gone = [address for address, known in self.brokers.items() if known.gone_ms is not None]
        for place, address in enumerate(sorted(gone, key=lambda each: self.brokers[each].gone_ms or 0, reverse=True)):
            if place >= GONE_MAX or now_ms - (self.brokers[address].gone_ms or 0) > GONE_MS:
                del self.brokers[address]

    def on_statistics(self, now_ms: int, address: str, statistics: Document) -> None:
        """A broker's counters."""
        broker = self.brokers[address]
        sample = CounterSample(now_ms, _counts(statistics), statistics["started_at_ms"])
        broker.statistics, broker.why, broker.is_hidden = statistics, None, False
        broker.samples = CounterSamples(sample) if broker.samples is None else broker.samples.then(sample)
        end, _ = self._group_facts().get(broker.about["broker_name"], (None, None))
        broker.lag_bytes = None if end is None else max(0, end - _written(statistics))

    def on_silent(self, address: str, why: str, *, is_hidden: bool = False) -> None:
        """A broker gave no figures. Those of its next answer are compared with the last ones, if it is the same process."""
        broker = self.brokers[address]
        broker.why, broker.is_hidden = why, is_hidden

    def silent_masters(self) -> dict[str, str]:
        """{address: broker name} of those that the name servers take for masters, and that do not answer."""
        brokers = self.brokers.items()
        return {
            address: broker.about["broker_name"]
            for address, broker in brokers
            if broker.role == "silent" and broker.about["broker_id"] == MASTER_ID
        }

    def on_topics(self, names: Iterable[str], *, is_whole: bool = True) -> None:
        """Which topics there are; not `is_whole`: among others, and those that were known stay."""
        self._topics = _listed(self._topics, names, is_whole)

    def on_groups(self, names: Iterable[str], *, is_whole: bool = True) -> None:
        """Which groups there are, likewise."""
        self._groups = _listed(self._groups, names, is_whole)

    def on_topic(self, now_ms: int, document: Document) -> None:
        """The ends of a topic's queues."""
        counts: dict[Hashable, int] = {
            (row["broker_name"], row["queue_id"], row.get("incarnation")): row["max_offset"]
            for row in document["queues"]
        }
        self._topics[document["topic"]].read(CounterSample(now_ms, counts))

    def on_group(self, now_ms: int, document: Document) -> None:
        """How far a group is in each queue."""
        counts: dict[Hashable, int] = {}
        for row in document["queues"]:
            queue = row["topic"], row["broker_name"], row["queue_id"], row.get("incarnation")
            counts["in", *queue] = row["broker_queue_offset"]
            if row["consumer_queue_offset"] is not None:
                counts["out", *queue] = row["consumer_queue_offset"]
        group = self._groups[document["group"]]
        if _brokers_of(document) != _brokers_of(group.document):
            group.lags.clear()  # that of other queues is no trend
        group.document = document
        group.read(CounterSample(now_ms, counts))
        if document["lag"] is not None:
            group.lags.append((now_ms, document["lag"]))
        while group.lags and now_ms - group.lags[0][0] > TREND_MS:
            group.lags.popleft()

    def on_refused(self, now_ms: int, subject: TopicOrGroup, why: str) -> None:
        """A topic or group gave no figures: it is gone, the user may not see it, or a broker does not answer."""
        found = self._of(subject).get(subject.name)
        if found is not None:
            found.asked_ms, found.why = now_ms, why

    def on_events(self, document: Document) -> None:
        """Events, those that are known already perhaps among them."""
        known = {json.dumps(event, sort_keys=True): event for event in (*self._events, *document["events"])}
        self._events = sorted(known.values(), key=lambda event: str(event["ts"]))[-ROWS_MAX:]
        missing = [f"no answer from {', '.join(document['silent'])}"] if document["silent"] else []
        missing += dict.fromkeys(document["refused"].values())
        self.on_seen("events", "; ".join(missing) or None)

    def on_seen(self, what: str, why_not: str | None) -> None:
        """Whether something could be asked for; `why_not`: what is shown instead."""
        if why_not is None:
            self._unseen.pop(what, None)
        else:
            self._unseen[what] = why_not

    # ---- what to ask next

    def subjects(self) -> list[TopicOrGroup]:
        """The topics and groups of the next round: those that are shown, and some others, the longest not asked for first."""
        shown: list[TopicOrGroup] = []
        others: list[tuple[int, TopicOrGroup]] = []
        for is_group, ranked, seen in (
            (True, self._ranked_groups(), self._groups),
            (False, self._ranked_topics(), self._topics),
        ):
            names = [row["group" if is_group else "topic"] for row in ranked]
            shown += [TopicOrGroup(is_group, name) for name in names[:ROWS_MAX]]
            others += [
                (-1 if (asked := seen[name].asked_ms) is None else asked, TopicOrGroup(is_group, name))
                for name in names[ROWS_MAX:]
            ]
        return shown + [subject for _, subject in sorted(others)[:OTHERS_MAX]]

    # ---- what is shown

    def document(self, at_ms: int) -> Document:
        """The document of `--json`; `at_ms`: since the epoch. None = unknown."""
        topics, groups, brokers = self._ranked_topics(), self._ranked_groups(), self._broker_rows()
        rows = {"brokers": brokers, "topics": topics, "groups": groups}
        return {
            "at_ms": at_ms,
            "cluster": self._cluster,
            "order": self.order.value,
            **{name: _sum_of([row[name] for row in brokers]) for name in FIGURES},
            **{name: found[:ROWS_MAX] for name, found in rows.items()},
            "events": self._events,
            "left_out": {name: max(0, len(found) - ROWS_MAX) for name, found in rows.items()},
            "not_asked_yet": {
                "topics": _not_asked(self._topics.values()),
                "groups": _not_asked(self._groups.values()),
            },
            "unseen": dict(self._unseen),
        }

    def _of(self, subject: TopicOrGroup) -> dict[str, SeenSubject]:
        return self._groups if subject.is_group else self._topics

    def _broker_rows(self) -> list[Document]:
        ends = self._group_facts()
        rows = [self._broker_row(address, broker, ends) for address, broker in self.brokers.items()]
        by_trouble = _ranked(rows, "lag_bytes" if self.order is Order.LAG else f"{self.order.value}_per_second")
        by_trouble.sort(key=lambda row: row["why"] is None)
        first = by_trouble[:ROWS_MAX]
        first.sort(key=lambda row: (row["broker_name"], row["role"] != "master", row["address"]))
        return first + by_trouble[ROWS_MAX:]

    def _group_facts(self) -> dict[str, tuple[int | None, Sequence[str] | None]]:
        """{broker name: (where its master's log ends, its in-sync set)}, as the replica of the newest epoch says."""
        told: dict[str, tuple[bool, int, SeenBroker]] = {}
        for broker in self.brokers.values():
            if not broker.answers or broker.role == "halted":
                continue
            name, claim = broker.about["broker_name"], (broker.role == "master", broker.replication.get("epoch", 0))
            if name not in told or claim > told[name][:2]:
                told[name] = (*claim, broker)
        return {
            name: (
                _written(broker.statistics) if is_master and broker.statistics else None,
                broker.replication.get("in_sync"),
            )
            for name, (is_master, _, broker) in told.items()
        }

    def _broker_row(
        self, address: str, broker: SeenBroker, facts: Mapping[str, tuple[int | None, Sequence[str] | None]]
    ) -> Document:
        answers = broker.answers
        statistics = (broker.statistics or {}) if answers else {}
        _, members = facts.get(broker.about["broker_name"], (None, None))
        rates = broker.samples.per_second() if broker.samples is not None and answers else {}
        store, replica = statistics.get("store", {}), broker.replication.get("replica")
        alone = statistics and "replication" not in statistics
        in_sync = None if not statistics or members is None or replica is None else replica in members
        return {
            "broker_name": broker.about["broker_name"],
            "replica": replica,
            "address": address,
            "role": broker.role,
            "why": "no name server knows it any more" if broker.gone_ms is not None else broker.why,
            "epoch": broker.replication.get("epoch", statistics.get("epoch")) if answers else None,
            "in_sync": True if alone else in_sync,
            "lag_bytes": broker.lag_bytes if answers else None,
            "in_per_second": _sum_of([rates.get("in")]),
            "in_bytes_per_second": _sum_of([rates.get("in_bytes")]),
            "out_per_second": _sum_of([rates.get("pulled"), rates.get("popped"), rates.get("lite_popped")]),
            "out_bytes_per_second": _sum_of([rates.get("pulled_bytes")]),
            "log_bytes": store["written_offset"] - store["begin_offset"] if store else None,
            "disk_use": store.get("disk_use"),
            "refuses_writes": store.get("refuses_writes"),
            "deletes_early": store.get("deletes_early"),
        }

    def _ranked_topics(self) -> list[Document]:
        out: dict[str, list[float]] = {}
        lags: dict[str, list[int]] = {}
        for group in self._groups.values():
            for key, rate in group.rates().items():
                if isinstance(key, tuple) and key[0] == "out":
                    out.setdefault(key[1], []).append(rate)
            for row in group.document.get("queues", ()):
                if row["lag"] is not None:
                    lags.setdefault(row["topic"], []).append(row["lag"])
        rows = [
            {
                "topic": name,
                "why": topic.why,
                "in_per_second": total(list(topic.rates().values())),
                "out_per_second": total(out.get(name, [])),
                "lag": sum(lags[name]) if name in lags else None,
                "span_seconds": None if topic.samples is None else topic.samples.span_seconds,
            }
            for name, topic in sorted(self._topics.items())
        ]
        return _ranked(rows, "lag" if self.order is Order.LAG else f"{self.order.value}_per_second")

    def _ranked_groups(self) -> list[Document]:
        rows = [self._group_row(name, group) for name, group in sorted(self._groups.items())]
        return _ranked(rows, "lag" if self.order is Order.LAG else f"{self.order.value}_per_second")

    def _group_row(self, name: str, group: SeenSubject) -> Document:
        rates = group.rates()
        ages = [row["lag_seconds"] for row in group.document.get("queues", ()) if row["lag_seconds"] is not None]
        return {
            "group": name,
            "why": group.why,
            "members": len(group.document["members"]) if group.document else None,
            "in_per_second": _rate_of(rates, "in"),
            "out_per_second": _rate_of(rates, "out"),
            "lag": group.document.get("lag"),
            "lag_seconds": max(ages, default=None),
            "lag_per_second": _trend(group.lags),
            "span_seconds": None if group.samples is None else group.samples.span_seconds,
        }


def _listed(known: dict[str, SeenSubject], names: Iterable[str], is_whole: bool) -> dict[str, SeenSubject]:
    listed = {name: known.get(name) or SeenSubject() for name in names}
    return listed if is_whole else {**known, **listed}


def _brokers_of(group: Document) -> set[str]:
    return {row["broker_name"] for row in group.get("queues", ())}


def _written(statistics: Document) -> int:
    return int(statistics["positions"]["written_offset"])


def _counts(statistics: Document) -> dict[Hashable, int]:
    return {
        "in": statistics["sends"]["messages"],
        "in_bytes": statistics["sends"]["bytes"],
        "pulled": statistics["pulls"]["messages"],
        "pulled_bytes": statistics["pulls"]["bytes"],
        "popped": statistics["pops"]["messages"],
        "lite_popped": statistics["lite_pops"]["messages"],
    }


def _rate_of(rates: Mapping[Hashable, float], kind: str) -> float | None:
    return total([rate for key, rate in rates.items() if isinstance(key, tuple) and key[0] == kind])


def _trend(lags: Sequence[tuple[int, int]]) -> float | None:
    """By how many messages a second the lag grows; below 0 it shrinks; None = there are no two samples."""
    if len(lags) < 2:
        return None
    (first_ms, first), (last_ms, last) = lags[0], lags[-1]
    return round((last - first) * 1000 / max(1, last_ms - first_ms), 3)


def _ranked(rows: Iterable[Document], figure: str) -> list[Document]:
    """The most first, what is unknown last; else as they were."""
    return sorted(rows, key=lambda row: (row[figure] is None, -(row[figure] or 0)))


def _sum_of(figures: Iterable[float | None]) -> float | None:
    return total([figure for figure in figures if figure is not None])


def _not_asked(seen: Iterable[SeenSubject]) -> int:
    return sum(subject.asked_ms is None for subject in seen)
