"""Bare ROUTER and DEALER sockets with the options of the real ones and no protocol, for comparison in benchmarks.

Same frames, same options, no decisions. A request is [header, payload], its reply [header, payload ...]; only the
benchmark's raw path uses this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

import zmq

from .base_socket import Pollable, bind_tcp, connect_tcp, new_context, new_socket, plain_send
from .security.curve_socket import FRAME_OVERHEAD_BYTES, secure_client
from .security.key_file import KeyPair
from .server_socket import Payload

_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.SNDMORE)
_RCVMORE: Final = int(zmq.RCVMORE)


def zmq_version() -> str:
    """The version of the library below pyzmq."""
    return zmq.zmq_version()


class RawRouter:
    """Answers requests. Owned by one thread; context manager."""

    def __init__(self, bind: str, frame_bytes_max: int, keys: KeyPair | None = None) -> None:
        """`bind`: "host:port", port 0 = a free one. `keys`: encrypts, and lets in everybody who knows its public key."""
        self._context = new_context()
        overhead_bytes = 0 if keys is None else FRAME_OVERHEAD_BYTES
        self._socket = new_socket(self._context, "ROUTER", MAXMSGSIZE=frame_bytes_max + overhead_bytes)
        if keys is not None:
            self._socket.set(zmq.CURVE_SERVER, 1)
            self._socket.set(zmq.CURVE_SECRETKEY, keys.secret.encode())
        self._send = plain_send(self._socket)
        self.address = bind_tcp(self._socket, bind)

    @property
    def pollable(self) -> Pollable:
        """For a `Waiter`."""
        return self._socket

    def drain(
        self, arena: memoryview, *, wait_ms: int, requests_max: int, bytes_max: int
    ) -> tuple[list[bytes], list[bytes], int]:
        """Waits for one request, then takes what is there: (identities, headers, payload bytes side by side in `arena`).

        Empty where nothing came within `wait_ms`. `arena` must have room for one frame behind `bytes_max`.
        """
        identities: list[bytes] = []
        headers: list[bytes] = []
        used = 0
        receive, receive_into, get = self._socket.recv, self._socket.recv_into, self._socket.get
        self._socket.set(zmq.RCVTIMEO, wait_ms)
        flags = 0
        try:
            while len(identities) < requests_max and used < bytes_max:
                identity = receive(flags)
                flags = _NOBLOCK
                headers.append(receive(_NOBLOCK))
                identities.append(identity)
                if get(_RCVMORE):
                    used += receive_into(arena[used:])
        except zmq.Again:
            return identities, headers, used
        return identities, headers, used

    def reply(self, identity: bytes, frames: Sequence[Payload]) -> None:
        """Sends one reply."""
        send = self._send
        send(identity, _MORE)
        for index in range(len(frames) - 1):
            send(frames[index], _MORE)
        send(frames[-1])

    def close(self) -> None:
        """Ends the socket."""
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RawDealer:
    """Sends requests. Owned by one thread; context manager."""

    def __init__(self, address: str, keys: KeyPair | None = None, server_key: str = "") -> None:
        """`address`: as RawRouter.address gives it. `keys`: its own, for a server whose public key is `server_key`."""
        self._context = new_context()
        self._socket = new_socket(self._context, "DEALER")
        if keys is not None:
            secure_client(self._socket, keys, server_key)
        self._send = plain_send(self._socket)
        connect_tcp(self._socket, address)

    def send(self, header: bytes, payload: Payload | None = None) -> None:
        """Sends one request."""
        if payload is None:
            self._send(header)
        else:
            self._send(header, _MORE)
            self._send(payload)

    def receive(self, wait_ms: int) -> list[bytes] | None:
        """The next reply; None if none came within `wait_ms`."""
        self._socket.set(zmq.RCVTIMEO, wait_ms)
        return self._receive(0)

    def receive_payload(self, wait_ms: int) -> memoryview | None:
        """The second frame of the next reply, as received; None if none came within `wait_ms`."""
        self._socket.set(zmq.RCVTIMEO, wait_ms)
        try:
            self._socket.recv()
        except zmq.Again:
            return None
        return memoryview(self._socket.recv(copy=False))  # type: ignore[arg-type]  # a buffer, though not typed as one

    def receive_nowait(self) -> list[bytes] | None:
        """A reply that has already come, or None."""
        return self._receive(_NOBLOCK)

    def _receive(self, flags: int) -> list[bytes] | None:
        receive = self._socket.recv
        try:
            frames = [receive(flags)]
        except zmq.Again:
            return None
        while self._socket.get(_RCVMORE):
            frames.append(receive())
        return frames

    def close(self) -> None:
        """Ends the socket."""
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
