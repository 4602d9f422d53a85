"""CURVE keys on sockets, and the thread that answers ZAP questions. Imports zmq.

A server's sockets share one context, in which the ZAP thread is bound before any of them: without a handler ZeroMQ lets
everyone in. A domain is set and enforced on each, for without one it does not even ask.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import zmq
from zmq.utils import z85

from ...model.clock import Clock
from ..base_socket import new_context
from .admission import LATER, NO, NOT_YET, Admission, Doorkeeper
from .key_file import KeyPair

log = logging.getLogger(__name__)

DOMAIN: Final = b"zenit"
SERVERS_DOMAIN: Final = b"zenit-servers"
"""Of sockets to which only servers may connect."""

ENDPOINT: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"
IO_THREADS: Final = 2  # encryption runs in them, without Python's lock
FRAME_OVERHEAD_BYTES: Final = 33
"""What encryption adds to a frame (ZMTP's CURVE mechanism): the name of the command 8, nonce 8, box 16, flags 1."""

STOP_MS: Final = 5_000
LEARNING_MS: Final = 3_000  # how long a connection may wait for its user to be known; a handshake has HANDSHAKE_IVL
WAITING_MAX: Final = 1_000  # connections; others are put off
LOOK_MS: Final = 20  # at those that wait
_STOP: Final = b"stop"


def new_key_pair() -> KeyPair:
    """A fresh pair, from the operating system's random numbers."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def secure_client(socket: zmq.Socket[bytes], pair: KeyPair, server_key: str) -> None:
    """Before it connects: the socket proves `pair`, and talks only to who has the secret of `server_key`."""
    socket.set(zmq.CURVE_SERVERKEY, server_key.encode())
    socket.set(zmq.CURVE_PUBLICKEY, pair.public.encode())
    socket.set(zmq.CURVE_SECRETKEY, pair.secret.encode())


class ServerSecurity:
    """The context of a secured server's sockets, and its doorkeeper. Open it before the sockets, close it after them."""

    def __init__(self, pair: KeyPair, doorkeeper: Doorkeeper, clock: Clock) -> None:
        self.pair = pair
        self._doorkeeper = doorkeeper
        self._clock = clock
        self.context = new_context()
        self.context.set(zmq.IO_THREADS, IO_THREADS)
        self._questions = self.context.socket(zmq.ROUTER)
        self._questions.bind(ENDPOINT)
        self.on_refused: Callable[[str, str, str], None] | None = None
        """(address, key, reason), called in the ZAP thread: the event."""
        self._waiting: deque[tuple[list[bytes], int]] = (
            deque()
        )  # (the question, until when it may wait); the thread's own
        self._thread = threading.Thread(target=self._answer, name="zenit-zap", daemon=True)
        self._thread.start()

    def secure(self, socket: zmq.Socket[bytes], *, only_servers: bool = False) -> None:
        """For the addresses that are bound next: CURVE, and each peer is asked about."""
        socket.set(zmq.ZAP_DOMAIN, SERVERS_DOMAIN if only_servers else DOMAIN)
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, self.pair.secret.encode())

    def open_up(self, socket: zmq.Socket[bytes]) -> None:
        """For the addresses that are bound next: no keys; each peer is asked about nevertheless."""
        socket.set(zmq.CURVE_SERVER, 0)

    def close(self) -> None:
        """Ends the thread and the context; the sockets are closed already."""
        stop = self.context.socket(zmq.DEALER)
        stop.connect(ENDPOINT)
        stop.send(_STOP)
        self._thread.join(STOP_MS / 1000)
        stop.close(linger=0)
        self.context.term()

    def _answer(self) -> None:
        try:
            while True:
                if self._waiting and not self._questions.poll(LOOK_MS):
                    self._ask_again()
                    continue
                frames = self._questions.recv_multipart()
                if frames[-1] == _STOP and len(frames) == 2:
                    return
                if len(frames) >= 8 and not frames[1]:
                    self._answer_one(frames)
                self._ask_again()
        finally:
            self._questions.close(linger=0)

    def _ask_again(self) -> None:
        """For those who wait, the oldest first, until one still has to."""
        now_ms = self._clock.monotonic_ms()
        while self._waiting:
            frames, until_ms = self._waiting[0]
            admission = self._admission(frames, now_ms, is_asked_again=True)
            if admission.status == NOT_YET:
                if now_ms < until_ms:
                    return
                admission = Admission(
                    NO, "no master has told its users yet"
                )  # LATER ends no connection that has waited
            self._waiting.popleft()
            self._reply(frames, admission)

    def _answer_one(self, frames: list[bytes]) -> None:
        """frames: [routing id, empty, version, request id, domain, address, identity, mechanism, credentials ...]."""
        now_ms = self._clock.monotonic_ms()
        admission = self._admission(frames, now_ms)
        if admission.status == NOT_YET and len(self._waiting) < WAITING_MAX:
            self._waiting.append((frames, now_ms + LEARNING_MS))
        else:
            self._reply(frames, admission)

    def _admission(self, frames: list[bytes], now_ms: int, *, is_asked_again: bool = False) -> Admission:
        if frames[2] != VERSION or frames[4] not in (DOMAIN, SERVERS_DOMAIN):
            return Admission(NO, "another domain")
        try:
            return self._doorkeeper.decide(
                frames[7].decode("ascii", "replace"),
                _key_in(frames),
                _address_in(frames),
                now_ms,
                only_servers=frames[4] == SERVERS_DOMAIN,
                is_asked_again=is_asked_again,
            )
        except Exception:  # the door stays closed, and the thread alive
            log.exception("an admission failed")
            return Admission(NO, "a fault of the server")

    def _reply(self, frames: list[bytes], admission: Admission) -> None:
        status, reason = (admission.status or LATER).encode(), admission.reason.encode()
        self._questions.send_multipart(
            [frames[0], b"", VERSION, frames[3], status, reason, admission.key.encode(), b""]
        )
        if not admission.key and self.on_refused is not None:
            try:
                self.on_refused(_address_in(frames), _key_in(frames), admission.reason)
            except Exception:  # without this thread nobody would get in any more
                log.exception("a refusal was not told")


def _key_in(frames: list[bytes]) -> str:
    """The key of who asks ZAP, Z85; "" without one."""
    is_curve = frames[7] == b"CURVE" and len(frames) == 9 and len(frames[8]) == 32
    return z85.encode(frames[8]).decode() if is_curve else ""


def _address_in(frames: list[bytes]) -> str:
    return plain_address(frames[5].decode("ascii", "replace"))


def plain_address(address: str) -> str:
    """Of IPv4 without what a socket for both puts before it."""
    return address.removeprefix("::ffff:")


def user_key(frame: zmq.Frame) -> str:
    """The key of the connection on which a frame came, as the ZAP thread named it; "" for one of our own process."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""


def peer_address(frame: Any) -> str:
    """The IP address of that connection; "" if it has none."""
    try:
        return plain_address(str(frame.get("Peer-Address")))
    except zmq.ZMQError:
        return ""
