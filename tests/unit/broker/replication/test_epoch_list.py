"""The list of epochs: rows in order, and how far two logs agree."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from zenitmq.broker.replication.epochs import ROWS_MAX, Epoch, EpochList, truncation_point


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


def test_of_too_many_rows_the_oldest_goes() -> None:
    epochs = EpochList.of((number, number) for number in range(1, ROWS_MAX + 1)).with_row(ROWS_MAX + 1, ROWS_MAX + 1)
    assert (len(epochs.rows), epochs.rows[0].number, epochs.newest) == (ROWS_MAX, 2, ROWS_MAX + 1)


def test_a_storm_of_elections_costs_rows_that_hold_nothing_first() -> None:
    """A thousand masters that wrote nothing do not push out the rows of what is in the log."""
    epochs = rows((1, 0), (2, 50))
    for number in range(3, 2 * ROWS_MAX):
        epochs = epochs.with_row(number, 90)
    assert (len(epochs.rows), epochs.newest) == (ROWS_MAX, 2 * ROWS_MAX - 1)
    assert epochs.rows[:2] == rows((1, 0), (2, 50)).rows


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
        pytest.param(
            [(1, 0), (2, 50), (3, 50)], 50, [(1, 0), (2, 50)], 50, 50, id="epochs in which nothing was written"
        ),
    ],
)
def test_the_truncation_point(
    master: list[tuple[int, int]], master_end: int, slave: list[tuple[int, int]], slave_end: int, expected: int
) -> None:
    assert truncation_point(EpochList.of(master), master_end, EpochList.of(slave), slave_end) == expected
