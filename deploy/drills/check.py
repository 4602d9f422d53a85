"""Compares the messages that producers saw acknowledged with the content of each replica at the end. Pure.

- *lost*: an acknowledged message that some replica does not have, anywhere.
- *changed*: a place (queue, queue offset) with two values: an acknowledgement named it for another message, body or
  position in the log than is there, two acknowledgements named it, or two replicas differ in it.
- *uneven*: a place that one replica has and another has not. *holes*: missing places inside a queue.
- *damaged*: bodies whose checksum is wrong.
- *duplicated*: stored again after the first time, as a retry may do. Not a fault.
- *reordered*: an acknowledged message whose first copy is before one that its producer sent earlier to
  the same queue.

A message that was never acknowledged may exist or not. Counts are those of the worst replica, except that *lost* and
*changed* include what any of them shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from .ledger import NOBODY, Numbers, Table, are_in, distinct, messages_of, places_of, split

EXAMPLES_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run; see above. `examples`: the first few errors, as text."""

    acknowledged: int
    lost: int = 0
    changed: int = 0
    uneven: int = 0
    holes: int = 0
    damaged: int = 0
    duplicated: int = 0
    reordered: int = 0
    examples: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether all promises held."""
        return not (self.lost or self.changed or self.uneven or self.holes or self.damaged or self.reordered)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several replica groups together."""
    parts = list(verdicts)
    counts = {
        field.name: sum(getattr(part, field.name) for part in parts)
        for field in fields(Verdict)
        if field.name != "examples"
    }
    return Verdict(**counts, examples=tuple(example for part in parts for example in part.examples)[:EXAMPLES_MAX])


def check(acknowledged: Table, replicas: Mapping[str, Table], *, is_compacted: bool = False) -> Verdict:
    """The verdict on `acknowledged` (rows of ACKNOWLEDGED) and each replica's rows (of STORED); at least one replica.

    `is_compacted`: of a message that the client itself sent again, the older copy may be gone, at one replica before another;
    so empty places count only where an acknowledgement names them. Replicas with identical rows are examined once, under
    their joined names.
    """
    examples: list[str] = []
    replicas = _told_apart(replicas)
    whole = {name: rows[rows["producer"] != NOBODY] for name, rows in replicas.items()}
    wanted = distinct(messages_of(acknowledged))
    lost = _union(_lost(wanted, rows, name, examples) for name, rows in whole.items())
    changed = _union(_changed(acknowledged, replicas, examples))
    uneven = _uneven(replicas, examples) if not is_compacted else ()
    return Verdict(
        acknowledged=len(wanted),
        lost=len(lost),
        changed=len(changed),
        uneven=len(uneven),
        holes=max(_holes(rows) for rows in replicas.values()) if not is_compacted else 0,
        damaged=max(len(replicas[name]) - len(rows) for name, rows in whole.items()),
        duplicated=max(len(rows) - len(distinct(messages_of(rows))) for rows in whole.values()),
        reordered=max(_reordered(wanted, rows) for rows in whole.values()),
        examples=tuple(examples),
    )


def _told_apart(replicas: Mapping[str, Table]) -> dict[str, Table]:
    """One table for all replicas with equal rows, byte for byte."""
    apart: dict[str, Table] = {}
    for name, rows in replicas.items():
        same = next((other for other, known in apart.items() if np.array_equal(known, rows)), None)
        if same is None:
            apart[name] = rows
        else:
            apart[f"{same}, {name}"] = apart.pop(same)
    return apart


def _lost(wanted: Numbers, rows: Table, name: str, examples: list[str]) -> Numbers:
    """`wanted`: the acknowledged messages, distinct."""
    missing = wanted[~are_in(wanted, distinct(messages_of(rows)))]
    _tell(examples, missing, f"message (producer, sequence) {{}} was acknowledged and is not at {name}")
    return missing


def _changed(acknowledged: Table, replicas: Mapping[str, Table], examples: list[str]) -> list[Numbers]:
    """Places with two values, source by source."""
    found = [_two_values(acknowledged, acknowledged)]
    _tell(examples, found[0], "place (queue, offset) {} was acknowledged for two messages")
    first: tuple[str, Table] | None = None
    for name, rows in replicas.items():
        differs = _two_values(acknowledged, rows)
        _tell(examples, differs, f"place (queue, offset) {{}} is not at {name} what was acknowledged")
        moved = _moved(acknowledged, rows)
        _tell(examples, moved, f"nothing is at {name} in place (queue, offset) {{}}, which was acknowledged")
        found += [differs, moved]
        if first is not None:
            unlike = _two_values(first[1], rows)
            _tell(examples, unlike, f"place (queue, offset) {{}} differs between {first[0]} and {name}")
            found.append(unlike)
        first = first or (name, rows)
    return found


def _two_values(one: Table, other: Table) -> Numbers:
    """Places in both tables with different values. A table may be compared with itself."""
    places = np.concatenate((places_of(one), places_of(other)))
    order = np.argsort(places, kind="stable")
    places = places[order]
    same_place = places[1:] == places[:-1]
    differs = np.zeros(len(same_place), dtype=np.bool_)
    for field in ("producer", "sequence", "checksum", "physical_offset"):
        column = np.concatenate((one[field], other[field]))[order]
        differs |= column[1:] != column[:-1]
    return distinct(places[1:][same_place & differs])


def _moved(acknowledged: Table, rows: Table) -> Numbers:
    """Places acknowledged for messages that the replica has only elsewhere, with nothing in that place."""
    places = places_of(acknowledged)
    is_empty = ~are_in(places, distinct(places_of(rows)))
    is_held = are_in(messages_of(acknowledged), distinct(messages_of(rows)))
    return distinct(places[is_empty & is_held])


def _uneven(replicas: Mapping[str, Table], examples: list[str]) -> Numbers:
    held = {name: distinct(places_of(rows)) for name, rows in replicas.items()}
    everywhere = _union(held.values())
    found = []
    for name, places in held.items():
        missing = everywhere[~are_in(everywhere, places)]
        _tell(examples, missing, f"place (queue, offset) {{}} is empty at {name} alone")
        found.append(missing)
    return _union(found)


def _holes(rows: Table) -> int:
    """The number of missing places between the first and the last of each queue."""
    places = distinct(places_of(rows))
    steps = np.diff(places)
    same_queue = (places[1:] >> np.uint64(48)) == (places[:-1] >> np.uint64(48))
    return int((steps[same_queue] - np.uint64(1)).sum())


def _reordered(wanted: Numbers, rows: Table) -> int:
    """How many acknowledged messages directly follow one with a higher number of their producer, in their queue."""
    rows = rows[are_in(messages_of(rows), wanted)]
    rows = rows[np.argsort(places_of(rows), kind="stable")]
    rows = rows[_first_of_each(messages_of(rows))]
    stream = (rows["producer"].astype(np.uint32) << np.uint32(16)) | rows["queue"]
    order = np.argsort(stream, kind="stable")
    stream, sequence = stream[order], rows["sequence"][order]
    return int(((stream[1:] == stream[:-1]) & (sequence[1:] < sequence[:-1])).sum())


def _first_of_each(numbers: Numbers) -> Numbers:
    """The index of each number's first occurrence, ascending."""
    order = np.argsort(numbers, kind="stable")
    listed = numbers[order]
    is_first = np.ones(len(listed), dtype=np.bool_)
    is_first[1:] = listed[1:] != listed[:-1]
    firsts: Numbers = np.sort(order[is_first])
    return firsts


def _union(parts: Iterable[Numbers]) -> Numbers:
    listed = list(parts)
    return distinct(np.concatenate(listed)) if listed else np.zeros(0, dtype=np.uint64)


def _tell(examples: list[str], numbers: Numbers, text: str) -> None:
    examples += [text.format(split(int(number))) for number in numbers[: EXAMPLES_MAX - len(examples)]]


# ---- time

UNDER_WAY_NS: Final = 10_000_000
"""An acknowledgement this soon after a fault may be of a send before it, and says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fault: `begin_ns`: its begin; `done_ns`: its completion (the process gone, the rule in place).

    `mend_ns`: when its mending began. `end_ns`: when it was mended. All monotonic. `name`: the deed and its processes;
    `kind`: the fault's name in the catalogue.
    """

    name: str
    kind: str
    begin_ns: int
    done_ns: int
    mend_ns: int
    end_ns: int


def first_write_ms(times_ns: Numbers, mark: Mark) -> float | None:
    """From the begin of a fault to the first acknowledgement after its completion; None if there was none.

    `times_ns`: of the acknowledgements, sorted.
    """
    at = int(np.searchsorted(times_ns, np.uint64(mark.done_ns + UNDER_WAY_NS), side="right"))
    return None if at == len(times_ns) else round((int(times_ns[at]) - mark.begin_ns) / 1e6, 1)


def longest_gap_ms(times_ns: Numbers, begin_ns: int, end_ns: int) -> float:
    """The longest time within [begin, end] without an acknowledgement. `times_ns`: sorted."""
    begin, end = np.uint64(begin_ns), np.uint64(end_ns)
    inside = times_ns[(times_ns > begin) & (times_ns < end)]
    edges = np.concatenate((np.array([begin]), inside, np.array([end])))
    return round(float(np.diff(edges).max()) / 1e6, 1)
