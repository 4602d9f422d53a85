"""A master's exchange of users with other servers: one request at a time, a second one at once if there is news."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.broker.security.row_spreading import GIVE_UP_MS, RowSpreading
from zenitmq.broker.security.security_table import PIECE_CHARACTERS, SecurityTable, event_merged, in_pieces
from zenitmq.model.errors import ConnectionLost, StoreFormatError, UnknownRequest
from zenitmq.model.security.access_rows import AccessRows
from zenitmq.model.security.principals import User
from zenitmq.model.security.row_codec import SecurityRow, encode_row, row_of
from zenitmq.remoting.commands import ExchangeReply
from zenitmq.remoting.security.row_exchange import answer


class Handler:
    """Of the master: it takes rows at once."""

    def __init__(self) -> None:
        self.rows = AccessRows()
        self.unread = 0

    def take(self, rows: list[SecurityRow]) -> None:
        self.rows.merge(rows)

    def note_unread(self, count: int) -> None:
        self.unread += count


class Around:
    """Client, loop and clock: what was asked waits in `asked`."""

    def __init__(self) -> None:
        self.now = 0
        self.leads = True
        self.asked: list[tuple[str, Any, Callable[..., None]]] = []
        self.error: Exception | None = None

    def send_nowait(self, address: str, request: Any, payload: object, *, timeout_ms: int, on_reply: Any) -> None:
        assert payload is None
        assert timeout_ms > 0
        if self.error is not None:
            raise self.error
        self.asked.append((address, request, on_reply))

    def post(self, callback: Callable[[], None]) -> None:
        callback()

    def monotonic_ms(self) -> int:
        return self.now

    now_ms = monotonic_ms


@pytest.fixture
def around() -> Around:
    return Around()


def spreading(handler: Handler, around: Around, *servers: str) -> RowSpreading:
    parts: Any = around
    master: Any = handler
    return RowSpreading(master, parts, parts, parts, servers=servers, leads=lambda: around.leads)


def test_what_differs_goes_both_ways_within_one_tick(around: Around) -> None:
    master, other = Handler(), AccessRows()
    master.rows.merge([row_of(User("mine", ()), 1)])
    other.merge([row_of(User("theirs", ()), 1)])
    spread = spreading(master, around, "n:1", "n:1")
    spread.on_tick()
    spread.on_tick()  # it waits for the answer
    for step in range(2):
        ((_, request, on_reply),) = around.asked
        around.asked.clear()
        other.merge([row_of(User("mine", ()), 1)] if request.rows else [])
        assert bool(request.rows) == bool(step)
        on_reply(answer(other, request), b"", None)
    assert not around.asked
    assert other.digests() == master.rows.digests()


def test_only_a_master_asks_and_a_lost_answer_is_given_up(around: Around) -> None:
    spread = spreading(Handler(), around, "n:1")
    around.leads = False
    spread.on_tick()
    assert not around.asked
    around.leads = True
    spread.on_tick()
    around.now = GIVE_UP_MS
    spread.on_tick()
    (_, _, late), (_, _, other) = around.asked
    late(ExchangeReply((1,), (), ""), b"", None)  # of a request that was given up
    other(None, b"", UnknownRequest(9175))
    spread.on_tick()
    assert len(around.asked) == 3
    around.asked[-1][2](ExchangeReply((1,), ("x",), ""), b"", None)  # no digests, no row
    around.error = ConnectionLost("n:1")
    spread.on_tick()
    around.error = None
    spread.on_tick()
    assert len(around.asked) == 4


def test_rows_of_a_newer_version_are_noted(around: Around) -> None:
    master = Handler()
    spread = spreading(master, around, "n:1")
    spread.on_tick()
    text = encode_row(row_of(User("new", ()), 1)).replace('"kind":"normal"', '"kind":"normal","newer":1')
    around.asked[0][2](ExchangeReply((0,) * 64, (text,), ""), b"", None)
    assert (len(master.rows), master.unread) == (0, 1)


def test_rows_are_stored_in_pieces_that_any_broker_takes() -> None:
    rows = [row_of(User(f"u{number}", ("k" * 40,)), 1) for number in range(1000)]
    pieces = in_pieces(rows)
    assert [row for piece in pieces for row in piece] == rows
    assert len(pieces) > 1
    assert all(sum(len(encode_row(row)) for row in piece) <= PIECE_CHARACTERS for piece in pieces)
    assert in_pieces([]) == []
    assert len(event_merged(pieces[0])["rows"]) == len(pieces[0])


def test_a_damaged_snapshot_is_refused() -> None:
    for wrong in ({"rows": {}}, {"rows": [1]}):
        with pytest.raises(StoreFormatError, match=r"security\.json"):
            SecurityTable().load(wrong)
