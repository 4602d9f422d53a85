"""Each kind of damage is found, and nothing else is: a whole run is damaged in one way at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.deploy.drills.check import Mark, Verdict, check, first_write_ms, longest_gap_ms
from zenitmq.deploy.drills.ledger import (
    ACKNOWLEDGED,
    BODY_BYTES_MIN,
    NOBODY,
    STORED,
    Bodies,
    Table,
    are_in,
    distinct,
    read_body,
    split,
)

NAMES = ("broker-a-1", "broker-a-2", "broker-a-3")


def stored_run(producers: int, count: int, queues: int = 2) -> Table:
    """What a replica holds when `producers` sent `count` messages each, in turn; all in order."""
    rows = np.zeros(producers * count, dtype=STORED)
    offsets = [0] * queues
    for k in range(len(rows)):
        producer, sequence = k % producers, k // producers
        queue = producer % queues
        rows[k] = (sequence, offsets[queue], 100 * k, producer * 1000 + sequence, producer, queue)
        offsets[queue] += 1
    return rows


def acknowledged(rows: Table) -> Table:
    """Every row acknowledged, a millisecond apart."""
    table = np.zeros(len(rows), dtype=ACKNOWLEDGED)
    for name in STORED.names or ():
        table[name] = rows[name]
    table["time_ns"] = 1_000_000 * np.arange(len(rows), dtype=np.uint64)
    return table


def three(rows: Table) -> dict[str, Table]:
    return {name: rows.copy() for name in NAMES}


def counts(verdict: Verdict) -> dict[str, int]:
    """What is not zero, but for `acknowledged`."""
    names = ("lost", "changed", "uneven", "holes", "damaged", "duplicated", "reordered")
    return {name: getattr(verdict, name) for name in names if getattr(verdict, name)}


def test_in_a_compacted_topic_only_what_was_acknowledged_must_be_in_its_place() -> None:
    """The copy of a send that the client repeated by itself may be gone, at one replica before another."""
    rows = stored_run(4, 50)
    twice = rows.copy()
    twice["queue_offset"] += (rows["queue_offset"] >= 20).astype(np.uint64)  # in each queue, place 20 had such a copy
    held = dict(zip(NAMES, (twice, twice, twice), strict=True))
    assert counts(check(acknowledged(twice), held)) == {"holes": 2}
    assert check(acknowledged(twice), held, is_compacted=True).is_clean
    held[NAMES[0]] = twice[1:]
    assert counts(check(acknowledged(twice), held, is_compacted=True)) == {"lost": 1}


def test_a_run_without_damage_is_clean() -> None:
    rows = stored_run(3, 20)
    verdict = check(acknowledged(rows), three(rows))
    assert verdict == Verdict(acknowledged=60)
    assert verdict.is_clean


def test_what_was_never_acknowledged_may_be_stored() -> None:
    rows = stored_run(3, 20)
    assert counts(check(acknowledged(rows)[:41], three(rows))) == {}


def test_nothing_acknowledged_and_nothing_stored_is_clean() -> None:
    empty = stored_run(1, 0)
    assert check(acknowledged(empty), three(empty)) == Verdict(acknowledged=0)


def test_a_message_that_one_replica_lacks_at_its_end_is_lost() -> None:
    rows = stored_run(2, 10, queues=1)
    replicas = three(rows)
    replicas[NAMES[1]] = rows[:-1]
    verdict = check(acknowledged(rows), replicas)
    assert counts(verdict) == {"lost": 1, "uneven": 1}
    assert verdict.examples[0] == "message (producer, sequence) (1, 9) was acknowledged and is not at broker-a-2"


def test_an_unacknowledged_end_that_one_replica_lacks_is_uneven() -> None:
    rows = stored_run(2, 10, queues=1)
    replicas = three(rows)
    replicas[NAMES[2]] = rows[:-1]
    assert counts(check(acknowledged(rows)[:-1], replicas)) == {"uneven": 1}


def test_a_place_given_to_another_message_everywhere_is_lost_and_changed() -> None:
    """A new master without the tail of the old one: the offset is used again."""
    rows = stored_run(1, 10, queues=1)
    after = rows.copy()
    after["sequence"][9] = 10
    verdict = check(acknowledged(rows), three(after))
    assert counts(verdict) == {"lost": 1, "changed": 1}
    assert not verdict.is_clean


def test_two_acknowledgements_of_one_place_are_a_change() -> None:
    rows = stored_run(1, 10, queues=1)
    table = acknowledged(np.concatenate((rows, rows[-1:])))
    table["sequence"][10] = 10
    verdict = check(table, three(rows))
    assert counts(verdict) == {"lost": 1, "changed": 1}


@pytest.mark.parametrize("field", ["checksum", "physical_offset"])
def test_other_bytes_or_another_position_are_a_change(field: str) -> None:
    rows = stored_run(1, 10, queues=1)
    after = rows.copy()
    after[field][4] += 1
    assert counts(check(acknowledged(rows), three(after))) == {"changed": 1}


def test_replicas_that_differ_where_nothing_was_acknowledged_are_a_change() -> None:
    rows = stored_run(1, 10, queues=1)
    replicas = three(rows)
    replicas[NAMES[2]]["checksum"][9] += 1
    assert counts(check(acknowledged(rows)[:9], replicas)) == {"changed": 1}


def test_a_message_that_moved_is_a_change_and_not_lost() -> None:
    rows = stored_run(1, 10, queues=1)
    after = rows.copy()
    after["queue_offset"][9] = 10
    assert counts(check(acknowledged(rows), three(after))) == {"changed": 1, "holes": 1}


def test_a_body_that_does_not_prove_itself_is_damaged() -> None:
    rows = stored_run(1, 10, queues=1)
    after = rows.copy()
    after["producer"][3], after["sequence"][3] = NOBODY, 0
    assert counts(check(acknowledged(rows)[4:], three(after))) == {"damaged": 1}
    assert counts(check(acknowledged(rows), three(after))) == {"damaged": 1, "lost": 1, "changed": 1}


def test_a_retry_that_stored_twice_is_told_and_not_a_fault() -> None:
    rows = stored_run(1, 10, queues=1)
    twice = np.concatenate((rows[:6], rows[5:]))
    twice["queue_offset"] = np.arange(11)
    twice["physical_offset"] = 100 * np.arange(11)
    verdict = check(acknowledged(twice[np.arange(11) != 5]), three(twice))
    assert counts(verdict) == {"duplicated": 1}
    assert verdict.is_clean


def test_messages_of_one_producer_that_changed_places_are_reordered() -> None:
    rows = stored_run(2, 10, queues=1)
    swapped = rows.copy()
    for name in ("sequence", "producer", "checksum"):
        swapped[name][[4, 6]] = rows[name][[6, 4]]  # both of producer 0
    assert counts(check(acknowledged(swapped), three(swapped))) == {"reordered": 1}


def test_a_late_second_copy_does_not_count_as_reordered() -> None:
    rows = stored_run(1, 10, queues=1)
    twice = np.concatenate((rows, rows[2:3]))
    twice["queue_offset"][10], twice["physical_offset"][10] = 10, 1000
    assert counts(check(acknowledged(rows), three(twice))) == {"duplicated": 1}


@st.composite
def damaged_runs(draw: st.DrawFn) -> tuple[str, Table, dict[str, Table]]:
    """(the kind of damage, the acknowledgements, the replicas): one replica is damaged in one place."""
    rows = stored_run(draw(st.integers(1, 4)), draw(st.integers(2, 12)), draw(st.integers(1, 3)))
    replicas = three(rows)
    name = draw(st.sampled_from(NAMES))
    at = draw(st.integers(0, len(rows) - 1))
    kind = draw(st.sampled_from(["lost", "changed", "damaged", "none"]))
    if kind == "lost":
        replicas[name] = np.delete(rows, at)
    elif kind == "changed":
        field = draw(st.sampled_from(["checksum", "physical_offset"]))
        replicas[name][field][at] ^= 1 << draw(st.integers(0, 31))
    elif kind == "damaged":
        replicas[name]["producer"][at] = NOBODY
    for other in NAMES:  # in which order a replica was read does not matter
        replicas[other] = replicas[other][draw(st.permutations(range(len(replicas[other]))))]
    return kind, acknowledged(rows), replicas


@settings(max_examples=150)
@given(damaged_runs())
def test_any_damage_to_any_replica_is_found(run: tuple[str, Table, dict[str, Table]]) -> None:
    kind, table, replicas = run
    verdict = check(table, replicas)
    assert verdict.is_clean == (kind == "none")
    if kind != "none":
        assert getattr(verdict, kind) == 1
        assert verdict.examples


@given(st.integers(0, 0xFFFE), st.integers(0, (1 << 48) - 1), st.integers(BODY_BYTES_MIN, 300))
def test_a_body_names_its_message(producer: int, sequence: int, body_bytes: int) -> None:
    body = Bodies(7, producer, body_bytes).make(sequence)
    assert len(body) == body_bytes
    assert read_body(body, 7) == (producer, sequence)
    assert read_body(body, 8) == (NOBODY, 0)
    assert split((producer << 48) | sequence) == (producer, sequence)


@given(st.integers(0, 99), st.integers(0, 7))
def test_a_flipped_bit_or_a_cut_end_is_seen(at: int, bit: int) -> None:
    body = bytearray(Bodies(7, 3, 100).make(41))
    body[at] ^= 1 << bit
    assert read_body(bytes(body), 7) == (NOBODY, 0)
    assert read_body(Bodies(7, 3, 100).make(41)[:at], 7) == (NOBODY, 0)


TIMES = np.array([10, 20, 30, 730, 740, 900], dtype=np.uint64) * np.uint64(1_000_000)
MARK = Mark(
    name="kill master",
    kind="kill: master",
    begin_ns=31_000_000,
    done_ns=40_000_000,
    mend_ns=700_000_000,
    end_ns=800_000_000,
)


def test_the_first_write_counts_from_the_begin_of_the_fault_and_not_what_was_under_way() -> None:
    assert first_write_ms(TIMES, MARK) == 699.0
    assert first_write_ms(TIMES, replace(MARK, begin_ns=15_000_000, done_ns=16_000_000)) == 15.0
    assert first_write_ms(TIMES, replace(MARK, done_ns=900_000_000)) is None


def test_the_longest_gap_counts_the_edges() -> None:
    assert longest_gap_ms(TIMES, 0, 901_000_000) == 700.0
    assert longest_gap_ms(TIMES, 0, 2_000_000_000) == 1100.0
    assert longest_gap_ms(TIMES, 100_000_000, 200_000_000) == 100.0


def test_replicas_that_hold_the_same_are_named_together() -> None:
    rows = stored_run(2, 10)
    verdict = check(acknowledged(rows), {NAMES[0]: rows[1:], NAMES[1]: rows.copy(), NAMES[2]: rows[1:]})
    assert counts(verdict) == {"lost": 1, "uneven": 1}
    assert any(f"is not at {NAMES[0]}, {NAMES[2]}" in example for example in verdict.examples)


@given(st.lists(st.integers(0, 20)), st.lists(st.integers(0, 20)))
def test_numbers_are_compared_as_sets(one: list[int], other: list[int]) -> None:
    numbers, known = (np.array(listed, dtype=np.uint64) for listed in (one, other))
    assert distinct(numbers).tolist() == sorted(set(one))
    assert are_in(numbers, distinct(known)).tolist() == [number in other for number in one]
