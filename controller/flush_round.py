"""Asks replicas to make their whole logs durable, all at once, and reports which ones have.

Before a group changes to synchronous flushing, each replica that may be elected must confirm that, in the incarnation that the
group knows: acknowledged bytes may have been only in the memory of each of them. Loop thread; answers come from
the client's threads and are posted to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from ..model.errors import BufferFull, ZenitError
from ..model.groups.group import GroupNode
from ..remoting.channel import OnReply
from ..remoting.commands import FlushLog, Reply, RequestFor
from .store_worker import Poster

_Reply = TypeVar("_Reply", bound=Reply)

log = logging.getLogger(__name__)

Then = Callable[[frozenset[str]], None]


class Asker(Protocol):
    """The client of remoting, as far as a round uses it."""

    def send_nowait(
        self, address: str, request: RequestFor[_Reply], payload: None, *, timeout_ms: int, on_reply: OnReply[_Reply]
    ) -> None:
        """Sends; `on_reply` is called once, in any thread, unless this raises a ZenitError."""


class FlushRound:
    """One request to each of the named replicas of `node`, sent by `begin`. `then` gets the names of those that
    have flushed, once all have answered or their time is over."""

    def __init__(self, client: Asker, loop: Poster, node: GroupNode, names: frozenset[str], then: Then) -> None:
        self._client = client
        self._loop = loop
        self._node = node
        self._then = then
        self._awaited = set(names)
        self._flushed: set[str] = set()

    def begin(self, timeout_ms: int) -> None:
        """Asks all of them."""
        for replica in [replica for replica in self._node.replicas if replica.name in self._awaited]:
            who = replica.incarnation
            request = FlushLog(self._node.broker_name, replica.name, who.store_id, who.starts)
            then = partial(self._on_answer, replica.name)
            try:
                self._client.send_nowait(
                    replica.address, request, None, timeout_ms=timeout_ms, on_reply=partial(self._on_reply, then)
                )
            except ZenitError as error:
                then(error)

    def _on_reply(
        self, then: Callable[[ZenitError | None], None], _reply: Reply | None, _payload: bytes, error: ZenitError | None
    ) -> None:
        """A thread of the client's."""
        try:
            self._loop.post(partial(then, error))
        except BufferFull:
            log.error(
                "an answer of a replica was dropped: the loop is far behind, the change that waits for it is not made"
            )

    def _on_answer(self, name: str, error: ZenitError | None) -> None:
        self._awaited.discard(name)
        if error is None:
            self._flushed.add(name)
        else:
            log.warning("no flush group=%s replica=%s error=%s", self._node.broker_name, name, error)
        if not self._awaited:
            self._then(frozenset(self._flushed))
