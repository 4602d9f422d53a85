"""Requests that wait, unanswered, while a master hands over to another replica. Loop thread.

They were not begun, so none of them can be carried out twice. Their senders learn where to go at the moment when that is known,
instead of asking again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...model.errors import BrokerBusy, ZenitError
from ...remoting.commands import Request
from ...remoting.server import Call

HELD_MAX: Final = 4_096
RETRY_MS: Final = 50


class HeldCalls:
    """`is_open`: requests wait here, up to HELD_MAX of them."""

    def __init__(self, fail: Callable[[Call[Request], ZenitError], None]) -> None:
        """`fail` answers a call with an error."""
        self.is_open = False
        self._fail = fail
        self._calls: list[Call[Any]] = []

    def hold(self, call: Call[Any]) -> None:
        """It waits. Raises BrokerBusy if too many do."""
        if len(self._calls) >= HELD_MAX:
            raise BrokerBusy(RETRY_MS, "its mastership is being handed over")
        call.payload = b""
        self._calls.append(call)

    def release(self, error: ZenitError) -> None:
        """Nobody waits any longer: all are answered with this error."""
        self.is_open = False
        calls, self._calls = self._calls, []
        for call in calls:
            self._fail(call, error)
