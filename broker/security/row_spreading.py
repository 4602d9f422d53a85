"""A master tells the name servers and controllers its users and roles, and takes what they know: each second.

So a new group, a name server that restarted with nothing and both sides of a partition that healed come to know the same rows
(remoting/security/row_exchange). One request at a time to each server, and a second one at once if it brings news. A server of
an older release knows no such request: it is asked again in vain.

Loop thread; answers come from the client's thread and are posted to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from ...model.clock import Clock
from ...model.errors import BufferFull, InvalidParameter, ZenitError
from ...remoting.client import RemotingClient
from ...remoting.commands import ExchangeReply
from ...remoting.security.row_exchange import RowExchange
from ...remoting.security.rows_handler import RowsHandler
from ...remoting.server import RequestLoop

log = logging.getLogger(__name__)

INTERVAL_MS: Final = 1000
TIMEOUT_MS: Final = 2000
GIVE_UP_MS: Final = 2 * TIMEOUT_MS  # an answer that has not even failed by then is lost


class SpreadingLink:
    """What is known of one server."""

    def __init__(self, address: str, exchange: RowExchange) -> None:
        self.address = address
        self.exchange = exchange
        self.asked_at_ms: int | None = None  # since when an answer is awaited
        self.number = 0  # of the last request: an answer to an earlier one does not count


class RowSpreading:
    """`servers`: "host:port" of each name server and controller. `leads`: only a master exchanges rows."""

    def __init__(
        self,
        handler: RowsHandler,
        client: RemotingClient,
        loop: RequestLoop,
        clock: Clock,
        *,
        servers: Iterable[str],
        leads: Callable[[], bool],
    ) -> None:
        self._handler = handler
        self._client = client
        self._loop = loop
        self._clock = clock
        self._leads = leads
        self._links = [SpreadingLink(address, RowExchange(handler.rows)) for address in dict.fromkeys(servers)]

    def start(self) -> None:
        """Called before the loop runs, or on it."""
        if self._links:
            self._loop.every(INTERVAL_MS, self.on_tick)

    def on_tick(self) -> None:
        """Asks each server of which no answer is awaited."""
        if not self._leads():
            return
        now_ms = self._clock.monotonic_ms()
        for link in self._links:
            if link.asked_at_ms is None or now_ms - link.asked_at_ms >= GIVE_UP_MS:
                self._ask(link, is_second=False)

    def _ask(self, link: SpreadingLink, *, is_second: bool) -> None:
        link.asked_at_ms = self._clock.monotonic_ms()
        link.number += 1
        try:
            self._client.send_nowait(
                link.address,
                link.exchange.request(),
                None,
                timeout_ms=TIMEOUT_MS,
                on_reply=partial(self._post_answer, link, link.number, is_second),
            )
        except ZenitError:
            link.asked_at_ms = None

    def _post_answer(
        self,
        link: SpreadingLink,
        number: int,
        is_second: bool,
        reply: ExchangeReply | None,
        _: bytes,
        error: ZenitError | None,
    ) -> None:
        """A thread of the client's. If the loop has no room, the link asks again after GIVE_UP_MS."""
        with suppress(BufferFull):
            self._loop.post(partial(self._on_answer, link, number, is_second, reply, error))

    def _on_answer(
        self, link: SpreadingLink, number: int, is_second: bool, reply: ExchangeReply | None, error: ZenitError | None
    ) -> None:
        if number != link.number:
            return
        link.asked_at_ms = None
        if reply is None:
            log.debug("a server does not exchange users and roles address=%s error=%s", link.address, error)
            return
        try:
            rows, unread = link.exchange.on_reply(reply, self._clock.now_ms())
        except InvalidParameter as wrong:
            log.warning("a server answers wrongly about users and roles address=%s error=%s", link.address, wrong)
            return
        self._handler.note_unread(unread)
        self._handler.take(rows)
        if link.exchange.has_news and not is_second and self._leads():
            self._ask(link, is_second=True)
