"""Every ZeroMQ option that we set, with its reason, as data for the sockets, docs/formats/remoting.md and a test. Pure.

ZeroMQ's defaults drop messages silently (full queues, unknown peers), keep unsent bytes at close for ever and notice a dead
peer only when TCP does. So no default that loses data or is unbounded stays. The reasons give the units.
"""

from __future__ import annotations

from typing import Final

from ..model.plain_dataclass import dataclass

HEADER_BYTES_MAX: Final = 1024 * 1024
"""The largest header frame; the largest real one is a broker's registration with all its topics."""

FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest frame, unless the arena sets another limit; a larger one closes the connection."""

FRAMES_MAX: Final = 1024
"""Payload frames of one message; a pull reply has one per slice of the log."""

IN_FLIGHT_MAX: Final = 4096
"""Unanswered requests of one asynchronous connection: a long poll per queue, and other requests of the process."""


@dataclass(frozen=True, slots=True)
class SocketOption:
    """One option: ZeroMQ's name without `ZMQ_`, the value we set and why."""

    name: str
    value: int
    reason: str


_ALIVE: Final = (
    SocketOption(
        "HEARTBEAT_IVL",
        2000,
        "ms between pings below our protocol; off by default, so a pulled cable would go unnoticed",
    ),
    SocketOption(
        "HEARTBEAT_TIMEOUT", 6000, "ms without any traffic after which the connection is closed: three missed pings"
    ),
    SocketOption(
        "HEARTBEAT_TTL", 10000, "ms after which the other side may close, even if it pings less often than we do"
    ),
    SocketOption("HANDSHAKE_IVL", 5000, "ms a stranger may take to speak ZeroMQ before its connection is closed"),
    SocketOption(
        "TCP_KEEPALIVE", 1, "the kernel watches too, for peers whose process is stopped but whose machine answers"
    ),
    SocketOption("TCP_KEEPALIVE_IDLE", 30, "s of silence before the first probe; the kernel's default is two hours"),
    SocketOption("TCP_KEEPALIVE_INTVL", 5, "s between probes"),
    SocketOption("TCP_KEEPALIVE_CNT", 3, "unanswered probes that end the connection"),
    SocketOption("IPV6", 1, "IPv6 addresses work as IPv4 ones do; off by default"),
)

ROUTER: Final = (
    SocketOption(
        "RCVHWM", 256, "requests read ahead for one peer; then its TCP window closes and it waits. Nothing is lost"
    ),
    SocketOption(
        "SNDHWM",
        2 * IN_FLIGHT_MAX,
        "replies waiting for one peer: more than it may have in flight, so only one that reads nothing loses any",
    ),
    SocketOption(
        "MAXMSGSIZE",
        FRAME_BYTES_MAX,
        "bytes of a frame (here: the arena's frame_bytes_max); a larger one closes the connection before it is received",
    ),
    SocketOption(
        "ROUTER_MANDATORY", 1, "a reply to nobody or to a full queue is an error that we count; by default it vanishes"
    ),
    SocketOption("ROUTER_HANDOVER", 0, "a stranger who gives another's identity is refused, not handed its replies"),
    SocketOption("LINGER", 500, "ms to get last replies out at close; the default waits for ever"),
    SocketOption(
        "BACKLOG", 1024, "connections the kernel holds before we accept them: a fleet that reconnects at once"
    ),
    *_ALIVE,
)

DEALER: Final = (
    SocketOption(
        "RCVHWM",
        2 * IN_FLIGHT_MAX,
        "replies read ahead; requests in flight are bounded, so it is never reached by a sound server",
    ),
    SocketOption(
        "SNDHWM", 2 * IN_FLIGHT_MAX, "requests waiting to go out; our own window (count and bytes) refuses first"
    ),
    SocketOption(
        "MAXMSGSIZE", 64 * 1024 * 1024, "bytes of a reply's frame; pull replies are bounded by what was asked for"
    ),
    SocketOption("LINGER", 0, "ms: a closed connection's requests are failed already and must not go out later"),
    SocketOption(
        "IMMEDIATE", 0, "requests may queue while the first connection is made; safe because it is never made again"
    ),
    SocketOption(
        "RECONNECT_IVL",
        -1,
        "never: a broken connection is replaced, so that no request goes out after its caller was told that it failed",
    ),
    SocketOption("CONNECT_TIMEOUT", 3000, "ms for the TCP handshake; the kernel's default is minutes"),
    *_ALIVE,
)

PUB: Final = (
    SocketOption(
        "SNDHWM", 1000, "announcements for one slow subscriber; more are dropped, and it polls every 30 s anyway"
    ),
    SocketOption("MAXMSGSIZE", 65536, "bytes of a subscription that a peer may send"),
    SocketOption("LINGER", 100, "ms to get last announcements out at close"),
    SocketOption("BACKLOG", 1024, "connections the kernel holds before we accept them"),
    *_ALIVE,
)

SUB: Final = (
    SocketOption("RCVHWM", 1000, "announcements read ahead; a lost one is made good by the poll every 30 s"),
    SocketOption("MAXMSGSIZE", 4 * 1024 * 1024, "bytes of an announcement"),
    SocketOption("LINGER", 0, "ms: nothing is ever sent but subscriptions"),
    SocketOption("RECONNECT_IVL", 100, "ms before the first new try: a subscription outlives its server's restart"),
    SocketOption(
        "RECONNECT_IVL_MAX", 2000, "ms: tries back off to this, so that a server that is down is not hammered"
    ),
    SocketOption("CONNECT_TIMEOUT", 3000, "ms for the TCP handshake; the kernel's default is minutes"),
    *_ALIVE,
)

WAKE: Final = (
    SocketOption("SNDHWM", 16, "one wake-up is outstanding at a time; the queue it announces is bounded by itself"),
    SocketOption("LINGER", 0, "ms: a wake-up is worth nothing at close"),
)

SOCKET_TABLES: Final[dict[str, tuple[SocketOption, ...]]] = {
    "ROUTER": ROUTER,
    "DEALER": DEALER,
    "PUB": PUB,
    "SUB": SUB,
    "WAKE": WAKE,
}
