"""Calls of one asyncio event loop: connections that the loop itself writes to and is woken by, without another thread.

A call through the shared connection passes ZeroMQ's thread and the client's I/O thread on its way back to the loop: three
wake-ups more. All methods belong to the loop's thread, except `close` and `name`. The loop answers the servers' pings: one that
was blocked for a while finds its idle connections unfit, and makes new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ...model.clock import monotonic_ms
from ...model.errors import ClientClosed
from ..channel import Channel, OnReply
from ..commands import Reply, Request, RequestFor
from .direct_dealer import DirectDealer, Payload

if TYPE_CHECKING:
    import asyncio  # a process without an event loop starts sooner without it

LOOK_MS: Final = 1000
"""While something is in flight, the longest time until connections are looked at."""
LATE_MS: Final = 50
"""How late after its deadline a request in flight may be failed."""

_T = TypeVar("_T")
_Reply = TypeVar("_Reply", bound=Reply)


class LoopChannels:
    """One loop's connections, one to each address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        new_channel: Callable[[DirectDealer], Channel[DirectDealer]],
        cluster_id: str = "",
        delegation: str = "",
    ) -> None:
        """`new_channel`: makes one over a connection that has just begun. Others: see `name`."""
        self.loop = loop
        self._new_channel = new_channel
        self._cluster_id = cluster_id
        self._delegation = delegation
        self._channels: dict[str, Channel[DirectDealer]] = {}
        self._to_flush: list[Channel[DirectDealer]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0  # when the timer ends

    def send(
        self,
        address: str,
        request: RequestFor[_Reply],
        payload: Payload | None,
        *,
        timeout_ms: int,
        on_reply: OnReply[_Reply],
    ) -> None:
        """As `RemotingClient.send_nowait`; calls back on the loop, perhaps before it returns."""
        channel = self._fit_channel(address)
        is_alone = channel.is_idle
        while not channel.send(request, payload, timeout_ms, on_reply):
            self._end(channel)  # it has just ended; the next one is new
            channel = self._fit_channel(address)
        if is_alone:
            self._flush(channel)
        elif (
            channel not in self._to_flush
        ):  # others answer soon: what is sent until the loop's next round leaves together
            if not self._to_flush:
                self.loop.call_soon(self._flush_all)
            self._to_flush.append(channel)
        self._look_within(timeout_ms + LATE_MS)

    def send_oneway(self, address: str, request: Request) -> bool:
        """Sends a request without a reply, behind those that were sent before; False if it could not even be queued."""
        channel = self._fit_channel(address)
        is_sent = channel.send_oneway(request, None)
        self._flush(channel)
        return is_sent

    def _flush_all(self) -> None:
        channels, self._to_flush = self._to_flush, []
        for channel in channels:
            self._flush(channel)

    def _flush(self, channel: Channel[DirectDealer]) -> None:
        if self._has_unsent(channel):
            self.loop.add_writer(channel.dealer.fileno(), self._on_writable, channel)

    def _has_unsent(self, channel: Channel[DirectDealer]) -> bool:
        """Whether something is left, after what the network takes now."""
        return not (channel.ended or channel.is_torn) and _whole(channel, channel.dealer.flush)

    def name(self, cluster_id: str, delegation: str) -> None:
        """Further requests name this cluster, and are those of this user. Any thread."""
        self._cluster_id, self._delegation = (
            cluster_id,
            delegation,
        )  # first: a channel that is just being made reads them
        for channel in list(self._channels.values()):
            channel.cluster_id, channel.delegation = cluster_id, delegation

    def _fit_channel(self, address: str) -> Channel[DirectDealer]:
        channel = self._channels.get(address)
        if channel is not None and (
            channel.ended
            or channel.is_torn
            or channel.dealer.is_unfit
            or (channel.is_idle and channel.dealer.has_rested(monotonic_ms()))
        ):
            self._end(channel)
            channel = None
        if channel is None:
            dealer = DirectDealer(address, is_watched=True)
            if dealer.is_unfit:  # no network reaches it
                dealer.close()
                raise dealer.loss()
            channel = self._new_channel(dealer)
            _whole(channel, partial(self._watch, channel))
            self._channels[address] = channel  # only now: an interruption before would leave one that nobody watches
            channel.cluster_id, channel.delegation = self._cluster_id, self._delegation
        return channel

    def _watch(self, channel: Channel[DirectDealer]) -> None:
        self.loop.add_reader(channel.dealer.fileno(), self._on_readable, channel)
        self.loop.add_writer(channel.dealer.fileno(), self._on_writable, channel)

    def _on_readable(self, channel: Channel[DirectDealer]) -> None:
        try:
            self._take(channel)
        finally:  # also one that has just been torn
            self._end_if_lost(channel)
        if not channel.ended and channel.dealer.has_unsent and channel not in self._to_flush:
            self._flush(channel)

    def _take(self, channel: Channel[DirectDealer]) -> None:
        """Answers that have come, or a part if they are many."""
        if not (channel.ended or channel.is_torn):
            _whole(channel, channel.dealer.read)
            channel.on_readable()

    def _on_writable(self, channel: Channel[DirectDealer]) -> None:
        try:
            if not self._has_unsent(channel) and not channel.ended:
                self.loop.remove_writer(channel.dealer.fileno())
        finally:
            self._end_if_lost(channel)

    def _end_if_lost(self, channel: Channel[DirectDealer]) -> None:
        if not channel.ended and (channel.is_torn or channel.dealer.has_ended):
            self._end(channel)

    def _end(self, channel: Channel[DirectDealer], error: ClientClosed | None = None) -> None:
        if channel.ended:
            return
        descriptor = channel.dealer.fileno()
        if not self.loop.is_closed():
            self.loop.remove_reader(descriptor)
            self.loop.remove_writer(descriptor)
        self._take(channel)
        channel.end(error)
        if self._channels.get(channel.address) is channel:
            del self._channels[channel.address]

    # ---- deadlines

    def _look_within(self, within_ms: int) -> None:
        due_ms = monotonic_ms() + min(within_ms, LOOK_MS)
        if self._timer is not None:
            if due_ms >= self._due_ms - LATE_MS:
                return
            self._timer.cancel()
        self._due_ms = due_ms
        self._timer = self.loop.call_later(min(within_ms, LOOK_MS) / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = monotonic_ms()
        try:
            for channel in list(self._channels.values()):
                if channel.is_torn or _whole(channel, channel.dealer.is_lost):
                    self._end(channel)
                else:
                    self._take(channel)
                    channel.expire(now_ms)
        finally:  # also after an interruption: the others' deadlines count
            due_ms = [channel.none_late_ms for channel in self._channels.values() if not channel.is_idle]
            if due_ms:
                self._look_within(max(LATE_MS, min(due_ms) + LATE_MS - now_ms))

    # ---- its end

    def close(self, why: str) -> None:
        """Ends all; what is in flight fails with ClientClosed. Any thread."""
        try:
            self.loop.call_soon_threadsafe(partial(self._end_all, why))
        except RuntimeError:  # the loop is closed
            self._end_all(why)

    def _end_all(self, why: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for channel in list(self._channels.values()):
            self._end(channel, ClientClosed(why))


def _whole(channel: Channel[DirectDealer], use: Callable[[], _T]) -> _T:
    """Uses its connection. If a signal handler raises meanwhile, what was sent or read may not be counted, or the loop does not
    watch it: it must end."""
    try:
        return use()
    except BaseException:
        channel.is_torn = True
        raise
