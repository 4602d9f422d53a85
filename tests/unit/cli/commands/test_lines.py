"""Lines become messages byte for byte, and their words become keys."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from unittest.mock import MagicMock

import pytest
import typer

from zenitmq.cli.commands.messages.produce import Tally, _send_one, key_of, messages_of
from zenitmq.cli.options import parse_pairs, parse_time_ms
from zenitmq.model.clock import now_ms
from zenitmq.model.errors import MessageTooLarge, StoreNotWriteable
from zenitmq.model.message import BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("data", "bodies"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"a\r\n\n\xff\x00\n", [b"a\r", b"", b"\xff\x00"]),
        (b"\n", [b""]),
    ],
)
def test_a_line_is_a_message(data: bytes, bodies: list[bytes]) -> None:
    assert list(messages_of(io.BytesIO(data), skip_empty=False)) == bodies
    assert list(messages_of(io.BytesIO(data), skip_empty=True)) == [body for body in bodies if body]


@pytest.mark.parametrize("more", [0, 1, 2, 3, 100])
def test_of_an_endless_line_only_so_much_is_held_as_is_refused(more: int) -> None:
    """`zenit produce < /dev/zero` took all memory of the machine."""
    line = b"x" * (BODY_BYTES_MAX + more)
    found = list(messages_of(io.BytesIO(line + b"\n" + b"y" * 3 * BODY_BYTES_MAX + b"\nnext\nlast"), skip_empty=False))
    assert [len(body) > BODY_BYTES_MAX for body in found] == [more > 0, True, False, False]
    assert max(map(len, found)) <= BODY_BYTES_MAX + 2
    assert found[2:] == [b"next", b"last"]


@pytest.mark.parametrize(
    ("line", "field", "key"),
    [
        (b"2026-11-21 install curl", 1, "2026-11-21"),
        (b"2026-11-21  install\tcurl", 3, "curl"),
        (b"  padded", 1, "padded"),
        (b"one", 2, None),
        (b"", 1, None),
        (b"\xff x", 1, "\ufffd"),
    ],
)
def test_the_nth_word_is_the_key(line: bytes, field: int, key: str | None) -> None:
    assert key_of(line, field) == key


def test_the_tally_counts_and_remembers_the_first_error() -> None:
    tally = Tally()
    tally.taken, tally.bytes = 10, 1000
    tally.on_failed(2, 300, MessageTooLarge("message body", 2, 1))
    assert not tally.is_refused, "the next lines may be shorter"
    tally.on_failed(1, 100, StoreNotWriteable("later"))
    assert tally.is_refused
    assert tally.summary(2000) == {"sent": 7, "failed": 3, "bytes": 600, "seconds": 2.0, "messages_per_second": 3.5}
    assert "message body" in tally.first_error


def test_pairs() -> None:
    assert parse_pairs(["a=1", "b=x=y"], "--prop") == {"a": "1", "b": "x=y"}
    assert parse_pairs(None, "--prop") == {}


@pytest.mark.parametrize("text", ["a", "=1", "a="])
def test_what_is_no_pair_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="name=value"):
        parse_pairs([text], "--prop")


def test_times_are_iso_or_milliseconds() -> None:
    moment = datetime(2026, 11, 21, 9, 50, tzinfo=UTC)
    assert parse_time_ms("2026-11-21T09:50:00+00:00", "--to") == round(moment.timestamp() * 1000)
    assert parse_time_ms("1700000000123", "--to") == 1_700_000_000_123
    assert 0 <= now_ms() - 600_000 - parse_time_ms("10m", "--since") < 60_000
    with pytest.raises(typer.BadParameter, match="yesterday"):
        parse_time_ms("yesterday", "--to")
    with pytest.raises(typer.BadParameter):
        parse_time_ms("10m", "--deliver-at", ago=False)


def test_a_line_whose_send_was_interrupted_is_not_counted_as_sent() -> None:
    """A full disk holds the sender up; Ctrl-C there must not make a message of the line that waits."""

    def interrupted(_body: bytes) -> None:
        raise KeyboardInterrupt

    tally = Tally()
    _send_one(lambda _body: None, MagicMock(), b"first", tally)
    with pytest.raises(KeyboardInterrupt):
        _send_one(interrupted, MagicMock(), b"second", tally)
    assert (tally.taken, tally.summary(1000)["sent"], tally.summary(1000)["bytes"]) == (1, 1, 5)
