"""Who comes first goes first, whoever has to wait for something."""

from __future__ import annotations

import asyncio

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import RequestTimeout
from zenitmq.proxy.back.send_turns import SendTurns

SOON_MS = 5_000


def test_who_needs_not_wait_goes_behind_who_does() -> None:
    async def work() -> list[str]:
        turns, went, known = SendTurns(), [], asyncio.Event()

        async def go(name: str, *, may_go: bool, gives_up: bool = False) -> None:
            turn = turns.turn("topic", may_go=may_go)
            try:
                if not may_go:
                    await known.wait()
                if gives_up:
                    return
                if turn is not None:
                    await turn.reached(deadline_ms=monotonic_ms() + SOON_MS)
                went.append(name)
            finally:
                if turn is not None:
                    turn.leave()
                    turn.leave()

        await go("before", may_go=True)
        tasks = [asyncio.create_task(go("first", may_go=False))]
        tasks.append(asyncio.create_task(go("failed", may_go=False, gives_up=True)))
        tasks.append(asyncio.create_task(go("second", may_go=False)))
        await asyncio.sleep(0)
        known.set()
        tasks += [asyncio.create_task(go("third", may_go=True)), asyncio.create_task(go("fourth", may_go=True))]
        assert turns.turn("other", may_go=True) is None
        await asyncio.gather(*tasks)
        assert len(turns) == 0
        return went

    assert asyncio.run(work()) == ["before", "first", "second", "third", "fourth"]


def test_who_gives_up_lets_nobody_pass_those_before_it() -> None:
    async def work() -> None:
        turns = SendTurns()
        first, hasty, last = (turns.turn("topic", may_go=False) for _ in range(3))
        assert first is not None
        assert hasty is not None
        assert last is not None
        with pytest.raises(RequestTimeout):
            await hasty.reached(deadline_ms=monotonic_ms())
        hasty.leave()
        waits = asyncio.create_task(last.reached(deadline_ms=monotonic_ms() + SOON_MS))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waits.done()
        first.leave()
        await waits
        last.leave()
        assert len(turns) == 0

    asyncio.run(work())
