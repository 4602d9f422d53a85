"""The client side of remoting: calls that wait, calls with a callback, and pushes of servers.

One per process and cluster. Synchronous calls use a connection of the calling thread (sync_calls.py); all others share one
connection to each address (channel.py), which the I/O thread manages (io_thread.py). A broken connection fails its requests
in flight at once and is replaced at the next use. Not usable in a forked child: create a new one there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from ..model.clock import monotonic_ms
from ..model.errors import BufferFull, ClientClosed, RemoteProtocolError, ZenitError
from .base_socket import WELCOME, is_inside, resolve_peer
from .channel import Channel, OnReply
from .client_socket import ClientContext, Dealer, Payload, Subscriber
from .commands import Reply, Request, RequestFor
from .direct.direct_dealer import DirectDealer
from .direct.loop_channels import LoopChannels
from .header import decode_request
from .io_thread import IoThread
from .security.key_ring import KeyRing
from .sync_calls import SyncCalls
from .timers import Timer

if TYPE_CHECKING:
    import asyncio  # a process without an event loop starts sooner without it

CLOSE_TIMEOUT_MS: Final = 3000

_R = TypeVar("_R", bound=Request)
_Reply = TypeVar("_Reply", bound=Reply)


class RemotingClient:
    """A client of any number of servers. Any thread; a context manager."""

    def __init__(self, name: str = "zenit-io", keys: KeyRing | None = None) -> None:
        """`name`: of the I/O thread. `keys`: for servers that want a key. Nothing is opened before it is needed."""
        self._name = name
        self.keys = keys
        self._context = ClientContext(keys)
        self._sync = SyncCalls(self._context, self._on_pushed)
        self._lock = threading.Lock()
        self._io: IoThread | None = None
        self._channels: dict[str, Channel[Dealer]] = {}
        self._loops: dict[asyncio.AbstractEventLoop, LoopChannels] = {}
        self._torn: deque[Channel[Dealer]] = deque()  # for the I/O thread to close
        self._subscribers: dict[str, Subscriber] = {}
        self._heard: dict[str, str] = {}  # a publisher's address: what it resolved to when it was subscribed to
        self._on_request: dict[type[Request], Callable[[str, Request, bytes], None]] = {}
        self._on_lost: Callable[[str], None] | None = None
        self._closed: str | None = None  # why
        self._is_ended = False  # nothing is left to close
        _LIVE.add(self)

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that all requests name; "" = not known yet."""
        return self._sync.cluster_id

    def name_cluster(self, cluster_id: str) -> None:
        """Makes all further requests name this cluster: a server of another one does nothing and answers WrongCluster."""
        with self._lock:
            self._sync.cluster_id = cluster_id
            for channel in self._channels.values():
                channel.cluster_id = cluster_id
            for channels in list(self._loops.values()):
                channels.name(cluster_id, self._sync.delegation)

    def act_for(self, delegation: str) -> None:
        """Makes all further requests those of a user, as a gateway may (model/security/delegation); "" = one's own again."""
        with self._lock:
            self._sync.delegation = delegation
            for channel in self._channels.values():
                channel.delegation = delegation
            for channels in list(self._loops.values()):
                channels.name(self._sync.cluster_id, delegation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- requests

    def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None = None, *, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """Sends to "host:port" and waits at most `timeout_ms` in all; returns the reply and its payload (b"" if there is
        none).

        Raises the error that the server answered, RequestTimeout, ConnectionLost (at once when the connection ends or is
        refused), ClientClosed, RemoteProtocolError, InvalidParameter (the address).
        """
        if self._closed is not None:
            raise ClientClosed(self._closed)
        return self._sync.call(address, request, payload, timeout_ms)

    def send_nowait(
        self,
        address: str,
        request: RequestFor[_Reply],
        payload: Payload | None,
        *,
        timeout_ms: int,
        on_reply: OnReply[_Reply],
    ) -> None:
        """that connection has just ended; the next one is new"""
        while not self._channel(address).send(request, payload, timeout_ms, on_reply):
            pass  # that connection has just ended; the next one is new

    def loop_channels(self, loop: asyncio.AbstractEventLoop, address: str) -> LoopChannels | None:
        """The connections of an event loop, for a server that it may reach by itself; None: by `send_nowait`. On the loop.
        Raises ClientClosed."""
        if self.keys is not None or is_inside(address):
            return None
        channels = self._loops.get(loop)
        if channels is None or self._closed is not None:
            with self._lock:
                if self._closed is not None:
                    raise ClientClosed(self._closed)
                named = self.cluster_id, self._sync.delegation
                channels = self._loops[loop] = LoopChannels(loop, self._loop_channel, *named)
                gone = [self._loops.pop(other) for other in list(self._loops) if other.is_closed()]
            for ended in gone:  # nobody else would close their connections
                ended.close("event loop")
        return channels

    def _loop_channel(self, dealer: DirectDealer) -> Channel[DirectDealer]:
        return Channel(dealer, self._on_pushed)

    def oneway(self, address: str, request: Request, payload: Payload | None = None) -> bool:
        """Sends a request without a reply; False if it could not even be queued."""
        return self._channel(address).send_oneway(request, payload)

    def on_request(self, request_class: type[_R], callback: Callable[[str, _R, bytes], None]) -> None:
        """Sets `callback(address, request, payload)` for requests that a server sends, in whichever thread receives them.

        A server sends on the connection of the last heartbeat or registration: send those by `send_nowait`.
        """
        self._on_request[request_class] = cast("Callable[[str, Request, bytes], None]", callback)

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """Sets `callback(address)`, called on the I/O thread after a shared connection ended: clients must register there
        again.
        """
        self._on_lost = callback

    # ---- the I/O thread

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Runs `callback` once on the I/O thread; it must not block."""
        return self._io_thread().add_timer(delay_ms, callback, 0)

    def run_soon(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the I/O thread, even if that is about to end; it must not block."""
        self._io_thread().post(callback)

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        """Runs `callback` each `interval_ms` on the I/O thread, first after one interval; it must not block."""
        return self._io_thread().add_timer(interval_ms, callback, interval_ms)

    def subscribe(
        self, address: str, on_message: Callable[[list[bytes]], None], on_welcome: Callable[[], None] | None = None
    ) -> None:
        """Calls `on_message([topic, body])` on the I/O thread for all that "host:port" publishes from now on, over its
        restarts. Of a second call for the same address nothing comes, unless its name has another address by now.

        `on_welcome()` comes once, on the same thread: what was published before it may be missed.

        Raises HostNotFound, BufferFull.
        """
        endpoint = resolve_peer(address)
        with self._lock:
            if self._heard.get(address) == endpoint:
                return
            self._heard[address] = endpoint
        self._io_thread().post(partial(self._subscribe, address, on_message, on_welcome))

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Ends all connections; what is in flight fails with ClientClosed. Takes at most about `timeout_ms`.

        Works once; after an interruption the next call continues.
        """
        with self._lock:
            if self._is_ended:
                return
            self._closed = "client"
            thread, loops = self._io, list(self._loops.values())
        for channels in loops:
            channels.close(self._closed)
        deadline_ms = monotonic_ms() + timeout_ms
        ended = thread is None or thread.stop(timeout_ms)
        if self._sync.close(deadline_ms) and ended:
            self._context.close()  # otherwise a thread still uses a socket, and this would wait for it
        self._is_ended = True

    # ---- internal

    def _io_thread(self) -> IoThread:
        with self._lock:
            if self._closed is not None:
                raise ClientClosed(self._closed)
            if self._io is None:
                self._io = IoThread(self._name, self._on_tick, self._on_end)
            self._io.start()
            return self._io

    def _channel(self, address: str) -> Channel[Dealer]:
        channel = self._channels.get(address)
        if channel is not None and not (channel.ended or channel.is_torn) and self._closed is None:
            return channel
        thread = self._io_thread()
        dealer = self._context.dealer(address)  # may wait for a DNS server: not under the lock
        with self._lock:
            fresh = Channel(dealer, self._on_pushed, self.cluster_id, self._sync.delegation)
            channel = self._channels.get(address)
            if self._closed is None and (channel is None or channel.ended or channel.is_torn):
                if channel is not None and channel.is_torn:
                    self._torn.append(channel)
                self._channels[address] = channel = fresh
        if channel is not fresh:
            fresh.end()
        if channel is None or self._closed is not None:
            raise ClientClosed(self._closed or "client")
        if channel is fresh:
            try:
                thread.post(partial(self._watch, thread, channel))
            except BufferFull:  # nothing would manage the channel: the next request creates a new one
                channel.end()
                raise
        return channel

    def _watch(self, thread: IoThread, channel: Channel[Dealer]) -> None:
        if not (channel.ended or channel.is_watched):
            channel.is_watched = True
            thread.watch(channel.dealer.fileno(), channel.on_readable)
            thread.watch(channel.dealer.monitor_fileno(), partial(self._look_at_monitor, thread, channel))

    def _look_at_monitor(self, thread: IoThread, channel: Channel[Dealer]) -> None:
        if not channel.ended and channel.dealer.is_lost():
            self._end(thread, channel)

    def _end(self, thread: IoThread, channel: Channel[Dealer]) -> None:
        """I/O thread: the connection has ended, or is not usable any more."""
        thread.unwatch(channel.dealer.fileno())
        thread.unwatch(channel.dealer.monitor_fileno())
        channel.end()
        if self._on_lost is not None:
            self._on_lost(channel.address)

    def _subscribe(
        self, address: str, on_message: Callable[[list[bytes]], None], on_welcome: Callable[[], None] | None
    ) -> None:
        assert self._io is not None
        before = self._subscribers.pop(address, None)
        if before is not None:
            self._io.unwatch(before.fileno())
            before.close()
        subscriber = self._subscribers[address] = self._context.subscriber(address)

        def on_readable() -> None:
            nonlocal on_welcome
            while (frames := subscriber.receive_nowait()) is not None:
                if frames != [WELCOME]:
                    on_message(frames)
                elif on_welcome is not None:
                    welcomed, on_welcome = on_welcome, None
                    welcomed()

        self._io.watch(subscriber.fileno(), on_readable)

    def _on_tick(self, now_ms: int) -> bool:
        in_flight = False
        while self._torn:
            self._end_torn(self._torn.popleft())
        for channel in list(self._channels.values()):
            if not channel.is_watched and self._io is not None:  # its creator may have been interrupted
                self._watch(self._io, channel)
            if channel.is_torn:
                self._end_torn(channel)
            channel.expire(now_ms)
            in_flight = in_flight or not channel.is_idle
        return in_flight

    def _end_torn(self, channel: Channel[Dealer]) -> None:
        if not channel.ended and self._io is not None:
            self._end(self._io, channel)

    def _on_end(self) -> None:
        """Last call of the I/O thread."""
        with self._lock:
            channels = [*self._channels.values(), *self._torn]
        for channel in channels:
            channel.end(ClientClosed("client"))
        for subscriber in self._subscribers.values():
            subscriber.close()

    def _on_pushed(self, address: str, header: bytes, payload: bytes) -> None:
        try:
            request = decode_request(header)[0]
        except RemoteProtocolError:
            return
        callback = self._on_request.get(type(request)) if not isinstance(request, ZenitError) else None
        if callback is not None and isinstance(request, Request):
            callback(address, request, payload)

    def _on_fork(self) -> None:
        self._is_ended = True
        self._closed = "a client that was made before this process was forked; make a new one here: it"


_LIVE: Final[weakref.WeakSet[RemotingClient]] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_LIVE):
        client._on_fork()  # noqa: SLF001  # sockets and threads do not survive a fork


os.register_at_fork(after_in_child=_after_fork)
