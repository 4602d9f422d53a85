"""A request of a classic client on its way to a handler, and what the handler answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Final, Protocol

from ...model.clock import monotonic_ms
from ...model.errors import InvalidParameter, NoRoute, RequestTimeout, TopicNotFound
from ...model.ids import HostAddress
from ...model.plain_dataclass import dataclass
from ..back.parts import Back
from ..back.send_turns import SendTurn
from .codes import ClassicStatus
from .fields import BROKER, ClassicFields
from .frames import ClassicFrame

log = logging.getLogger(__name__)

SEND_MS: Final = 2_800
"""Of a send: clients give up after 3 s, and then try another broker."""
CALL_MS: Final = 4_000
ROUTE_LOOK_MS: Final = 20
POLL_MS_MAX: Final = 30_000
POLL_GRACE_MS: Final = 3_000


class ClassicLink(Protocol):
    """A client's connection, as handlers see it. On the event loop."""

    peer: HostAddress
    """The client's address."""
    polls: int
    """Its requests under way that may wait for messages."""

    def push(self, frame: ClassicFrame) -> bool:
        """Sends a request to the client; False if it takes none now."""

    async def ask(self, frame: ClassicFrame, *, timeout_ms: int) -> ClassicFrame:
        """The client's answer to a request. Raises ConnectionLost, RequestTimeout."""

    def prove(self) -> None:
        """A request was signed by a user: the client is no stranger."""


@dataclass(slots=True)
class ClassicCall:
    """`back`: in the name of the user who signed. `broker_name`: by the request, or by the port that it came to; "" = neither
    says. `deadline_ms`: monotonic. `may_wait`: False where too many long polls wait already. `answer_bytes`: for so many bytes
    of messages it may ask. `turn`: of a send, behind those that its client sent to the same topic before; None = it need not
    wait."""

    frame: ClassicFrame
    fields: ClassicFields
    link: ClassicLink
    back: Back
    broker_name: str
    deadline_ms: int
    may_wait: bool = True
    answer_bytes: int = 0
    turn: SendTurn | None = None

    def poll_ms(self, asked_ms: int) -> int:
        """How long it may wait for messages; it has that time in addition."""
        if not self.may_wait or asked_ms <= 0:
            return 0
        wait_ms = min(asked_ms, POLL_MS_MAX)
        self.deadline_ms = monotonic_ms() + wait_ms + POLL_GRACE_MS
        return wait_ms

    async def broker_of(self, topic: str) -> str:
        """The broker that is meant; the topic's only one where the request does not say. Raises InvalidParameter, and why
        there is no route."""
        if self.broker_name:
            return self.broker_name
        route = await self.back.backend.route(topic, deadline_ms=self.deadline_ms)
        names = sorted({data.broker_name for data in route.queues})
        if len(names) != 1:
            expected = f"the broker's name ({', '.join(names)}), or come by that broker's port, as the route tells it"
            raise InvalidParameter(BROKER.name, "", expected)
        return names[0]

    async def await_route(self, topic: str, broker_name: str) -> None:
        """Until a topic that was just made can be found. Raises RequestTimeout where no name server tells of it in time."""
        connection, waits = self.back.backend.connection, self.back.backend.waits
        while True:
            left_ms = self.deadline_ms - monotonic_ms()
            if left_ms <= 0:
                raise RequestTimeout(f"the route of topic {topic}", CALL_MS)
            try:
                route = await connection.routes.refresh(topic, waits, timeout_ms=left_ms)
                if any(data.broker_name == broker_name for data in route.queues):
                    return
            except (TopicNotFound, NoRoute):
                pass
            await waits.sleep(ROUTE_LOOK_MS)

    async def any_broker(self) -> str:
        """The broker that is meant, or any. Raises NoRoute."""
        return self.broker_name or await self.back.backend.any_master(deadline_ms=self.deadline_ms)


@dataclass(frozen=True, slots=True)
class ClassicAnswer:
    """What a client is answered. `fields`: extFields."""

    status: int = ClassicStatus.SUCCESS
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str = ""


DONE: Final = ClassicAnswer()

ClassicHandler = Callable[[ClassicCall], Awaitable[ClassicAnswer]]
"""Raises ZenitError."""


class BrokerPorts:
    """The ports that stand for brokers: old clients name a broker by its address alone. On the event loop."""

    def __init__(self, host: str, ip: bytes, open_port: Callable[[str], int]) -> None:
        """`host`: in routes; `ip`: the same, packed, in the ids of messages. `open_port(broker name)`: serves it and returns
        the port; raises OSError."""
        self._host = f"[{host}]" if ":" in host else host
        self._ip = ip
        self._open_port = open_port
        self._ports: dict[str, int] = {}
        self._without: set[str] = set()  # brokers whose ports could not be opened, which is told once
        self.addresses: dict[str, str] = {}
        """{broker name: "host:port"}"""

    def learn(self, broker_names: AbstractSet[str]) -> None:
        """Opens the ports of brokers that have none yet; those that cannot be opened are tried again the next time."""
        for name in sorted(broker_names - self._ports.keys()):
            try:
                port = self._ports[name] = self._open_port(name)
            except OSError as error:
                if name not in self._without:
                    self._without.add(name)
                    log.error(
                        "no port for a broker, which clients of this protocol miss: set broker_port or broker_names so that"
                        " its port is free broker=%s error=%s",
                        name,
                        error,
                    )
                continue
            self._without.discard(name)
            self.addresses[name] = f"{self._host}:{port}"

    def host_of(self, broker_name: str) -> HostAddress:
        """What stands for a broker in records and ids; port 0 for one that is not known."""
        return HostAddress(self._ip, self._ports.get(broker_name, 0))

    def name_of(self, host: HostAddress) -> str:
        """The broker that an address in an id of ours stands for. Raises InvalidParameter."""
        for name, port in self._ports.items():
            if port == host.port:
                return name
        raise InvalidParameter("msgId", str(host), "the id of a message that this proxy told")
