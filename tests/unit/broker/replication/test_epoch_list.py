"""The list of epochs: rows in order, and how far two logs agree."""

from __future__ import annotations

import random
from itertools import pairwise
from unittest.mock import patch

import pytest

from zenitmq.broker.replication import epochs as epoch_list
from zenitmq.broker.replication.epochs import ROWS_KEPT, ROWS_MAX, Epoch, EpochList, truncation_point
from zenitmq.model.errors import TooManyEpochs


def rows(*pairs: tuple[int, int]) -> EpochList:
    return EpochList.of(pairs)


@pytest.mark.parametrize("pairs", [[(2, 0), (1, 5)], [(1, 0), (1, 5)], [(1, 5), (2, 4)]])
def test_rows_out_of_order_are_no_list(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="epoch"):
        EpochList.of(pairs)


@pytest.mark.parametrize(("offset", "number"), [(-1, None), (0, 1), (99, 1), (100, 4), (101, 4), (10_000, 4)])
def test_a_byte_belongs_to_the_last_row_that_begins_at_or_before_it(offset: int, number: int | None) -> None:
    """Epochs 2 and 3 hold nothing: no byte is theirs."""
    row = rows((1, 0), (2, 100), (3, 100), (4, 100)).covering(offset)
    assert (row and row.number) == number


def test_where_the_next_epoch_begins() -> None:
    epochs = rows((1, 0), (2, 100), (3, 100), (4, 200))
    assert [epochs.begin_after(offset) for offset in (0, 99, 100, 199, 200)] == [100, 100, 200, 200, None]


def test_a_new_row_is_above_all_others() -> None:
    epochs = rows((1, 0)).with_row(3, 50)
    assert epochs.rows[-1] == Epoch(3, 50)
    for number, begin in ((3, 60), (2, 60), (4, 49)):
        with pytest.raises(ValueError, match="epoch"):
            epochs.with_row(number, begin)


def test_a_row_lives_as_long_as_its_bytes_however_many_there_are() -> None:
    epochs = rows((1, 0))
    for number in range(2, 3 * ROWS_KEPT):
        epochs = epochs.with_row(number, number)
    assert len(epochs.rows) == 3 * ROWS_KEPT - 1
    assert epochs.covering(0) == Epoch(1, 0)


def test_rows_whose_bytes_are_gone_go_oldest_first_once_there_are_many() -> None:
    epochs = EpochList.of((number, number * 10) for number in range(1, ROWS_KEPT + 1))
    after = epochs.with_row(ROWS_KEPT + 1, 20_000, kept_from=500)
    assert after.rows[0] == Epoch(2, 20)
    assert len(after.rows) == ROWS_KEPT
    many = EpochList.of((number, number * 10) for number in range(1, ROWS_KEPT + 101))
    after = many.with_row(ROWS_KEPT + 101, 20_000, kept_from=500)
    assert after.rows[:2] == (Epoch(49, 490), Epoch(50, 500))  # a slave that ends at 500 shares the row that ends there
    assert after.covering(500) == Epoch(50, 500)


def test_a_storm_of_elections_costs_rows_that_hold_nothing_first() -> None:
    """A thousand masters that wrote nothing do not push out the rows of what is in the log."""
    epochs = rows((1, 0), (2, 50))
    for number in range(3, 2 * ROWS_KEPT):
        epochs = epochs.with_row(number, 90, kept_from=60)
    assert (len(epochs.rows), epochs.newest) == (ROWS_KEPT, 2 * ROWS_KEPT - 1)
    assert epochs.rows[:2] == rows((1, 0), (2, 50)).rows


def test_a_list_that_is_full_says_what_makes_room() -> None:
    full = EpochList.of((number, number) for number in range(1, ROWS_MAX + 1))
    with pytest.raises(TooManyEpochs, match="lower retention_ms or retention_bytes"):
        full.with_row(ROWS_MAX + 1, ROWS_MAX + 1)
    assert len(full.with_row(ROWS_MAX + 1, ROWS_MAX + 1, kept_from=ROWS_MAX // 2).rows) == ROWS_MAX // 2 + 3


def test_a_list_without_its_oldest_rows_never_finds_another_truncation_point() -> None:
    """Over small histories of a group, some of whose replicas lead alone for a while: what the master's whole list finds at
    or above its log's begin, the trimmed one finds; below, it is told that they agree nowhere, or on what is gone."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(3_000):
        begins = [0, *sorted(rng.choices(range(12), k=rng.randint(1, 8)))]
        whole = list(enumerate(begins, 1))
        end = begins[-1] + rng.randint(0, 3)
        begin = rng.randint(0, end)
        parted = rng.randint(0, len(whole))
        slave = whole[:parted]
        slave_begin = slave[-1][1] if slave else 0
        slave += [(len(whole) + 1, slave_begin + rng.randint(0, 3))] * rng.randint(0, 1)
        slave_end = (slave[-1][1] if slave else 0) + rng.randint(0, 4)
        with patch.object(epoch_list, "ROWS_KEPT", 1):
            trimmed = EpochList(epoch_list._trimmed(rows(*whole).rows, begin))
        exact = truncation_point(rows(*whole), end, rows(*slave), slave_end)
        found = truncation_point(trimmed, end, rows(*slave), slave_end)
        assert exact is not None
        story = f"seed {seed}: {whole} to {end} from {begin}, trimmed {trimmed.rows}; {slave} to {slave_end}"
        if exact >= begin:
            assert found == exact, story
        else:
            assert found is None or found < begin, story
        if found is None:
            assert exact <= min(trimmed.rows[0].begin, slave_end) < begin, story


def test_a_row_that_holds_nothing_changes_no_truncation_point() -> None:
    """Over every pair of small histories that share a beginning: the masters' with and without its empty rows."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(3_000):
        begins = [0, *sorted(rng.choices(range(6), k=rng.randint(1, 5)))]
        shared = list(enumerate(begins, 1))
        begun, end = len(shared) + 1, begins[-1] + rng.randint(0, 2)
        master = shared + [(begun + 2 * i, end + i) for i in range(rng.randint(0, 2))]
        slave = shared[: rng.randint(1, len(shared))] + [(begun + 1, end + 1)] * rng.randint(0, 1)
        last = master[-1]
        full = [row for row, after in pairwise(master) if row[1] != after[1]] + [last]
        ends = master[-1][1] + rng.randint(0, 3), slave[-1][1] + rng.randint(0, 3)
        both = [truncation_point(rows(*some), ends[0], rows(*slave), ends[1]) for some in (master, full)]
        assert both[0] == both[1], f"seed {seed}: {master} {slave} {ends}: {both}"


def test_a_cut_drops_rows_at_the_offset_and_a_recovery_keeps_them() -> None:
    """A cut log has no byte of the epoch that begins where it ends; a recovered one may only not have got it yet."""
    epochs = rows((1, 0), (2, 100), (3, 200))
    assert epochs.below(100) == rows((1, 0))
    assert epochs.below(101) == epochs.below(200) == rows((1, 0), (2, 100))
    assert epochs.recovered(100) == rows((1, 0), (2, 100))
    assert epochs.recovered(99) == rows((1, 0))
    assert epochs.below(0) == EpochList()
    assert epochs.below(201) is epochs


@pytest.mark.parametrize(
    ("master", "master_end", "slave", "slave_end", "expected"),
    [
        pytest.param([(1, 0)], 50, [(1, 0)], 70, 50, id="the slave is ahead in the same epoch"),
        pytest.param([(1, 0)], 70, [(1, 0)], 50, 50, id="the slave is behind"),
        pytest.param([(1, 0), (2, 50)], 90, [(1, 0)], 70, 50, id="it wrote on in an epoch that others had ended"),
        pytest.param([(1, 0)], 90, [(1, 0), (2, 50)], 70, 50, id="it led an epoch that nobody else has"),
        pytest.param([(1, 0), (3, 60)], 90, [(1, 0), (2, 40)], 70, 40, id="the lower of both ends"),
        pytest.param([(1, 0), (2, 30)], 90, [(1, 0), (2, 40)], 70, 30, id="the same epoch from elsewhere"),
        pytest.param([(1, 0)], 90, [(2, 0)], 70, 0, id="nothing in common"),
        pytest.param([(1, 0)], 90, [], 0, 0, id="an empty log"),
        pytest.param([(3, 100), (4, 300)], 400, [(1, 0), (2, 50), (3, 100)], 350, 300, id="the oldest rows are gone"),
        pytest.param([(3, 100), (4, 300)], 400, [(1, 0), (2, 50)], 350, None, id="the shared rows are gone"),
        pytest.param(
            [(1, 0), (2, 50), (3, 50)], 50, [(1, 0), (2, 50)], 50, 50, id="epochs in which nothing was written"
        ),
    ],
)
def test_the_truncation_point(
    master: list[tuple[int, int]], master_end: int, slave: list[tuple[int, int]], slave_end: int, expected: int | None
) -> None:
    assert truncation_point(EpochList.of(master), master_end, EpochList.of(slave), slave_end) == expected
