"""Epochs: one more at each start, durable, in RocketMQ's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.group.epoch_file import (
    FILE_NAME,
    Epoch,
    begin_epoch,
    next_epoch,
    parse_epochs,
    read_epochs,
    render_epochs,
)
from zenitmq.model.errors import StoreFormatError
from zenitmq.model.queue import PhysicalOffset

AT_0, AT_9 = Epoch(1, PhysicalOffset(0)), Epoch(2, PhysicalOffset(9))


def test_text_and_epochs_are_inverse() -> None:
    text = render_epochs((AT_0, AT_9))
    assert text.splitlines()[0] == "2"
    assert text.splitlines()[2:] == ["1-0", "2-9"]
    assert parse_epochs(text) == (AT_0, AT_9)


def test_a_checksum_of_zero_is_not_compared() -> None:
    assert parse_epochs("1\n0\n1-0\n") == (AT_0,)


@pytest.mark.parametrize("text", ["", "x", "1\n0\n", "1\n5\n1-0\n", "2\n0\n1-0\n", "1\n0\n1:0\n", "1\n0\n1-x\n"])
def test_another_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(StoreFormatError, match=FILE_NAME):
        parse_epochs(text)


def test_an_epoch_without_records_drops_out() -> None:
    assert next_epoch((AT_0, AT_9), PhysicalOffset(0), PhysicalOffset(9)) == (AT_0, Epoch(3, PhysicalOffset(9)))


def test_each_start_is_one_epoch_more(tmp_path: Path) -> None:
    numbers = [begin_epoch(str(tmp_path), PhysicalOffset(0), PhysicalOffset(offset)).number for offset in (0, 0, 40)]
    assert numbers == [1, 2, 3]
    assert parse_epochs((tmp_path / FILE_NAME).read_text()) == (
        Epoch(2, PhysicalOffset(0)),
        Epoch(3, PhysicalOffset(40)),
    )


def test_what_a_log_held_before_its_first_epoch_belongs_to_that() -> None:
    """A store that RocketMQ has written: no byte of it is without an epoch, or no replica could be sent it."""
    assert next_epoch((), PhysicalOffset(40), PhysicalOffset(90)) == (Epoch(1, PhysicalOffset(40)),)


def test_an_epoch_stays_as_long_as_its_bytes() -> None:
    epochs: tuple[Epoch, ...] = ()
    for offset in range(1200):
        epochs = next_epoch(epochs, PhysicalOffset(0), PhysicalOffset(offset))
    assert (len(epochs), epochs[0].number, epochs[-1].number) == (1200, 1, 1200)
    assert parse_epochs(render_epochs(epochs)) == epochs
    after = next_epoch(epochs, PhysicalOffset(1000), PhysicalOffset(1200))
    assert (len(after), after[0].begin) == (1000, 201)


@pytest.mark.parametrize("data", [b"1\n5\n1-0\n", b"\xff", b"2\n0\n2-0\n1-0\n", b"2\n0\n1-9\n2-0\n"])
def test_a_damaged_file_says_where_it_lies_and_what_to_do(tmp_path: Path, data: bytes) -> None:
    """A start ended with `cannot open epochFileCheckpoint: checksum`, or a traceback."""
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(
        StoreFormatError, match=rf"{tmp_path}/{FILE_NAME}.*move the store's directory away.*without a group"
    ):
        read_epochs(str(tmp_path))
