"""Messages of an asyncio producer that wait for room: order, bounds, deadlines, the end."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from zenitmq.client.sending.backlog import BACKLOG_BYTES, Backlog, Waiting
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import BufferFull, ClientClosed, NoRoute

LINE = ("trades", 0)


class Room:
    """What messages move into, while it is open; `error` is what a move raises."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.moved: list[int] = []
        self.failed: list[tuple[int, Exception]] = []
        self.tries = 0
        self.error: Exception | None = None

    def message(self, number: int, *, size_bytes: int = 1, wait_ms: int = 10_000) -> Waiting:
        return Waiting(size_bytes, monotonic_ms(), wait_ms, lambda ms: self._move(number), self._fail(number))

    def _move(self, number: int) -> Coroutine[Any, Any, None]:
        async def move() -> None:
            self.tries += 1
            await self.open.wait()
            if self.error is not None:
                raise self.error
            self.moved.append(number)

        return move()

    def _fail(self, number: int):
        return lambda error: self.failed.append((number, error))


def test_messages_of_a_line_keep_their_order_and_lines_do_not_wait_for_each_other() -> None:
    async def story() -> None:
        backlog, first, second = Backlog(), Room(), Room()
        assert not backlog
        for number in range(5):
            backlog.add(LINE, first.message(number))
        backlog.add(("trades", 1), second.message(5))
        assert backlog
        assert backlog.has(LINE)
        second.open.set()
        assert await backlog.wait_empty(1) is False
        assert second.moved == [5]
        assert not backlog.has(("trades", 1))
        first.open.set()
        assert await backlog.wait_empty(None) is True
        assert first.moved == [0, 1, 2, 3, 4]
        assert not backlog
        assert await backlog.wait_empty(None) is True

    asyncio.run(story())


def test_it_is_bounded_but_one_message_always_fits() -> None:
    async def story() -> None:
        backlog, room = Backlog(), Room()
        backlog.add(LINE, room.message(0, size_bytes=BACKLOG_BYTES + 1))
        with pytest.raises(BufferFull):
            backlog.add(LINE, room.message(1))
        room.open.set()
        await backlog.wait_empty(None)
        backlog.add(LINE, room.message(2, size_bytes=BACKLOG_BYTES))
        await backlog.wait_empty(None)
        assert room.moved == [0, 2]

    asyncio.run(story())


def test_those_whose_time_is_over_fail_with_the_one_before() -> None:
    async def story() -> None:
        backlog, room = Backlog(), Room()
        room.error = NoRoute("trades", "gone")
        room.open.set()
        for number in range(3):
            backlog.add(LINE, room.message(number, wait_ms=0))
        backlog.add(LINE, room.message(3))
        await backlog.wait_empty(None)
        assert [number for number, _ in room.failed] == [0, 1, 2, 3]
        assert room.tries == 2  # the first, and the one that had time left

    asyncio.run(story())


def test_the_time_of_a_message_runs_once_it_is_the_first() -> None:
    """A loop that was busy longer than messages may wait has cost them nothing, as long as they find room then."""

    async def story() -> None:
        backlog, room = Backlog(), Room()
        room.open.set()
        for number in range(100):
            backlog.add(LINE, room.message(number, wait_ms=0))
        await backlog.wait_empty(None)
        assert room.moved == list(range(100))
        assert room.failed == []

    asyncio.run(story())


def test_whatever_a_move_raises_is_told_and_the_next_goes_on() -> None:
    async def story() -> None:
        backlog, room = Backlog(), Room()
        room.open.set()
        room.error = TypeError("a body is bytes")
        backlog.add(LINE, room.message(0))
        await backlog.wait_empty(None)
        room.error = None
        backlog.add(LINE, room.message(1))
        await backlog.wait_empty(None)
        assert [type(error) for _, error in room.failed] == [TypeError]
        assert room.moved == [1]

    asyncio.run(story())


@pytest.mark.parametrize("has_begun", [False, True])
def test_closing_fails_all_that_waits(has_begun: bool) -> None:
    async def story() -> None:
        backlog, room = Backlog(), Room()
        for number in range(3):
            backlog.add(LINE, room.message(number))
        if has_begun:
            await asyncio.sleep(0)
        backlog.close()
        assert await backlog.wait_empty(None) is True
        assert [(number, type(error)) for number, error in room.failed] == [(n, ClientClosed) for n in range(3)]
        assert not backlog

    asyncio.run(story())
