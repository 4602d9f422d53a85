"""Requests to the name servers. They share nothing, so a restarted one may not know yet what another knows."""

from __future__ import annotations

from typing import Final, TypeVar

from ...model.clock import monotonic_ms
from ...model.errors import (
    AuthenticationFailed,
    ConnectionLost,
    HandshakeFailed,
    InvalidParameter,
    NoRoute,
    RequestTimeout,
    TopicNotFound,
    UnknownRequest,
    WrongCluster,
    ZenitError,
)
from ...remoting.commands import GetTopicList, Reply, RequestFor
from .waiting import Waits

_Reply = TypeVar("_Reply", bound=Reply)

PAGE_TOPICS: Final = 4096


class NameServers:
    """The name servers of one cluster; the one that answered last is asked first. Any thread may call."""

    __slots__ = ("_turn", "addresses")

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self._turn = 0

    @property
    def preferred(self) -> str:
        """The address to ask first."""
        return self.addresses[self._turn % len(self.addresses)]

    def on_failed(self, address: str) -> None:
        """This one did not answer; another is asked first from now on."""
        if address == self.preferred:
            self._turn += 1

    async def topics(self, waits: Waits, *, timeout_ms: int) -> list[str]:
        """The names of all topics, sorted; in pages, as one answer has room for some ten thousand. Raises what `ask` does."""
        deadline_ms = monotonic_ms() + timeout_ms
        found: list[str] = []
        while True:
            request = GetTopicList(found[-1] if found else "", PAGE_TOPICS)
            reply, _, _ = await self.ask(request, waits, timeout_ms=max(1, deadline_ms - monotonic_ms()))
            found += reply.topics
            if not (reply.has_more and reply.topics):
                return found

    async def ask(self, request: RequestFor[_Reply], waits: Waits, *, timeout_ms: int) -> tuple[_Reply, bytes, str]:
        """The first good answer: (reply, payload, the server's address).

        If a server cannot be reached, does not know our key, does not know the topic, knows no broker that serves it or belongs
        to another cluster, the next is asked; the remaining time is divided among the remaining servers. Raises the first
        error, but rather TopicNotFound, rather than that NoRoute, and rather than all WrongCluster.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        first = self._turn
        failure: ZenitError | None = None
        try:
            for step in range(len(self.addresses)):
                address = self.addresses[(first + step) % len(self.addresses)]
                left_ms = deadline_ms - monotonic_ms()
                if left_ms <= 0:
                    break
                try_ms = max(1, left_ms // (len(self.addresses) - step))
                try:
                    reply, payload = await _call(waits, address, request, try_ms)
                except TopicNotFound as error:
                    failure = failure if isinstance(failure, (WrongCluster, NoRoute)) else error
                except NoRoute as error:
                    failure = failure if isinstance(failure, WrongCluster) else error
                except WrongCluster as error:
                    self.on_failed(address)
                    failure = error
                except UnknownRequest:
                    self.on_failed(address)
                    failure = failure or InvalidParameter(
                        "namesrv",
                        address,
                        "the address of a name server; a server of another role, such as a broker, answers there",
                    )
                except (AuthenticationFailed, ConnectionLost, RequestTimeout) as error:
                    self.on_failed(address)
                    failure = failure or error
                else:
                    return reply, payload, address
            raise failure or RequestTimeout(f"{type(request).__name__} to {self.preferred}", timeout_ms)
        finally:  # the error refers to this frame and so to all callers: they would stay until a garbage collection
            del failure


async def _call(waits: Waits, address: str, request: RequestFor[_Reply], timeout_ms: int) -> tuple[_Reply, bytes]:
    """A handshake that fails is tried once more: while a server's key is changed, it may have the other one that we know. If
    the server is then out of reach, the handshake is still what to tell."""
    deadline_ms = monotonic_ms() + timeout_ms
    try:
        return await waits.call(address, request, timeout_ms=timeout_ms)
    except HandshakeFailed as refused:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise
        try:
            return await waits.call(address, request, timeout_ms=left_ms)
        except (ConnectionLost, RequestTimeout):
            raise refused from None
