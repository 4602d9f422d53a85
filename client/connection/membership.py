"""Heartbeats of every producer and consumer of this process to the brokers, and the notices that come back.

Heartbeats use the shared channel of each broker, since a broker sends `ConsumersChanged` back on the channel of
a group's heartbeat. They are sent at once when a member joins, and then at the broker's interval. A process with many members,
such as a proxy, tells a broker then only that they live, many in one request, as far as that broker has taken their heartbeats.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from ...model.clock import monotonic_ms
from ...model.errors import ClientClosed, SubscriptionConflict, UnknownRequest, ZenitError
from ...model.handles.transaction import client_of
from ...model.plain_dataclass import dataclass
from ...remoting.client import RemotingClient
from ...remoting.commands import (
    CheckTransaction,
    ConsumersChanged,
    Done,
    Heartbeat,
    HeartbeatReply,
    KeepClients,
    KeepClientsReply,
    OffsetsReset,
    PushReply,
    Reply,
    RequestFor,
    UnregisterClient,
)
from .client_process import ClientProcess, this_process
from .waiting import Waits

log = logging.getLogger(__name__)

_T = TypeVar("_T")

TICK_MS: Final = 1_000
HEARTBEAT_MS: Final = 10_000  # until a broker says otherwise
TIMEOUT_MS: Final = 3_000
LEAVE_MS: Final = 1_000
CONFLICTS_MAX: Final = 1_000
REFUSALS_MAX: Final = 10_000
KEPT_MIN: Final = 16
"""A process with fewer members sends the heartbeat of each."""
KEPT_AT_A_TIME: Final = 500

OnCheck = Callable[[CheckTransaction, bytes], None]
"""(which transaction, the record of its message). It must not block."""

OnPushedReply = Callable[[PushReply, bytes], None]
"""(what it answers, the record of the reply). It must not block."""


Consumer = tuple[str, str, tuple[tuple[str, str, str], ...]]
"""(group, model, ((topic, kind, expression), ...))."""


@dataclass(frozen=True, slots=True)
class Member:
    """One client object, as brokers know it.

    `allocation`: the name of its allocation. `more_producer_groups`, `more_consumers`: a client of a proxy may be in several
    groups. `process`: where such a client runs; None = here.
    """

    client_id: str
    producer_group: str | None = None
    consumer: Consumer | None = None
    allocation: str = ""
    more_producer_groups: tuple[str, ...] = ()
    more_consumers: tuple[Consumer, ...] = ()
    process: ClientProcess | None = None

    @property
    def producer_groups(self) -> tuple[str, ...]:
        """All of them."""
        return (*((self.producer_group,) if self.producer_group else ()), *self.more_producer_groups)

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """All of them."""
        return (*((self.consumer,) if self.consumer else ()), *self.more_consumers)


class Membership:
    """The members of this process in one cluster. Any thread may call; `announce` and `leave` wait."""

    def __init__(self, remoting: RemotingClient, brokers: Callable[[], dict[str, str]]) -> None:
        """`brokers`: {broker name: address} of the brokers known now."""
        self._remoting = remoting
        self._brokers = brokers
        self._members: dict[str, Member] = {}
        self._leaving: set[str] = set()  # members whose sign-off is not sent yet
        self._listeners: dict[str, dict[str, Callable[[], None]]] = {}
        self._movers: dict[str, dict[str, Callable[[OffsetsReset], None]]] = {}
        self._on_reply: dict[str, OnPushedReply] = {}
        self._checkers: dict[str, dict[str, OnCheck]] = {}
        self._known: frozenset[str] = frozenset()  # addresses of brokers that are in no route
        self._due_ms: dict[str, int] = {}
        self._taken: dict[str, dict[str, Member]] = {}  # by broker: as its members' heartbeats were taken
        self._singly: set[str] = set()  # older brokers, which know no KeepClients
        self._conflicts: set[tuple[str, str, str]] = set()  # told already
        self._refusals: dict[tuple[str, str], str] = {}  # (broker, client id): why, told already
        self._lock = threading.Lock()
        self._process = this_process()
        remoting.on_request(ConsumersChanged, self._on_changed)
        remoting.on_request(OffsetsReset, self._on_reset)
        remoting.on_request(PushReply, self._on_pushed_reply)
        remoting.on_request(CheckTransaction, self._on_check)
        remoting.on_lost(self._on_lost)
        self._timer = remoting.every(TICK_MS, self._tick)

    def reach(self, addresses: Iterable[str]) -> None:
        """Brokers at these addresses get heartbeats too, though no route names them."""
        self._known = frozenset(addresses)

    def _addresses(self) -> set[str]:
        return {*self._brokers().values(), *self._known}

    def close(self) -> None:
        """Stops the heartbeats; members leave by `leave`."""
        self._timer.cancel()

    def join(
        self,
        member: Member,
        on_change: Callable[[], None] | None = None,
        on_reset: Callable[[OffsetsReset], None] | None = None,
        *,
        on_reply: OnPushedReply | None = None,
        on_check: OnCheck | None = None,
    ) -> None:
        """Adds or replaces a member. The callbacks run in the I/O thread and must not block: `on_change` when its
        consumer group
        changes, `on_reset` when an operator moved the group, `on_reply` when a reply to its request comes, `on_check` when a
        broker asks for the decision of a transaction of its producer group.
        """
        with self._lock:
            self._members[member.client_id] = member
            if on_reply is not None:
                self._on_reply[member.client_id] = on_reply
            if on_check is not None:
                for group in member.producer_groups:
                    self._checkers.setdefault(group, {})[member.client_id] = on_check
            for group, *_ in member.consumers:
                if on_change is not None:
                    self._listeners.setdefault(group, {})[member.client_id] = on_change
                if on_reset is not None:
                    self._movers.setdefault(group, {})[member.client_id] = on_reset

    async def announce(self, member: Member, addresses: list[str], waits: Waits, *, timeout_ms: int) -> int:
        """Sends the member's heartbeat to these brokers and waits; returns how many accepted it.

        Raises DuplicateClient, GroupNotFound and other errors that a retry cannot mend; ClientClosed if it has left.
        """
        if member.client_id not in self._members:
            raise ClientClosed("client")
        taken, errors = await self._tell(self._heartbeat(member), addresses, waits, timeout_ms)
        for error in errors:
            if not error.retriable:
                raise error
        return taken

    async def leave(self, client_id: str, waits: Waits, *, timeout_ms: int = LEAVE_MS) -> None:
        """Removes a member, signs off at the brokers and waits a little, so that its queues are free at once."""
        try:
            await self._leave(client_id, waits, timeout_ms)
        except BaseException as error:
            if not waits.is_end(error):  # a signal's handler raised, perhaps before the brokers were told
                await self._leave(client_id, waits, timeout_ms)
            raise

    async def _leave(self, client_id: str, waits: Waits, timeout_ms: int) -> None:
        member = self._members.get(client_id)
        if member is not None:
            self._leaving.add(client_id)
        self.forget(client_id)
        if client_id in self._leaving:
            addresses = sorted(self._addresses())
            process = self._process if member is None or member.process is None else member.process
            goodbye = UnregisterClient(client_id, process.pid, process.started_at_ms)
            await self._tell(goodbye, addresses, waits, timeout_ms)
            self._leaving.discard(client_id)

    def forget(self, client_id: str) -> bool:
        """Removes a member without signing off: its locks last until their leases end. False if it is already removed."""
        with self._lock:
            member = self._members.pop(client_id, None)
            self._on_reply.pop(client_id, None)
            if member is not None:
                for group in member.producer_groups:
                    _take_out(self._checkers, group, client_id)
                for group, *_ in member.consumers:
                    _take_out(self._listeners, group, client_id)
                    _take_out(self._movers, group, client_id)
        return member is not None

    def _heartbeat(self, member: Member) -> Heartbeat:
        """The heartbeat request."""
        process = member.process or self._process
        return Heartbeat(
            member.client_id,
            member.producer_groups,
            member.consumers,
            process.language,
            process.version,
            process.host,
            process.pid,
            process.started_at_ms,
            member.allocation,
        )

    async def _tell(
        self, request: RequestFor[HeartbeatReply | Done], addresses: list[str], waits: Waits, timeout_ms: int
    ) -> tuple[int, list[ZenitError]]:
        """Sends to all and waits for all; returns how many accepted it, and why others did not."""
        pending = len(addresses)
        errors: list[ZenitError] = []
        lock = threading.Lock()
        all_answered = waits.new_signal()

        def on_reply(reply: Reply | None, _payload: bytes, error: ZenitError | None) -> None:
            nonlocal pending
            if isinstance(reply, HeartbeatReply):
                self._note_conflicts(reply)
            with lock:
                pending -= 1
                if error is not None:
                    errors.append(error)
                is_last = not pending
            if is_last:
                all_answered.set()
            if error is not None:
                log.info("not taken request=%s error=%s", type(request).__name__, error)

        for address in addresses:
            try:
                self._remoting.send_nowait(address, request, None, timeout_ms=timeout_ms, on_reply=on_reply)
            except ZenitError as error:
                on_reply(None, b"", error)
        if addresses:
            await all_answered.wait(timeout_ms)
        with lock:
            return len(addresses) - pending - len(errors), list(errors)

    def _tick(self) -> None:
        now = monotonic_ms()
        for address in self._addresses():
            if now >= self._due_ms.get(address, 0):
                self._due_ms[address] = now + HEARTBEAT_MS
                self._beat(address)

    def _beat(self, address: str) -> None:
        self._beat_each(address, self._keep(address))

    def _beat_each(self, address: str, members: Iterable[Member]) -> None:
        """I/O thread: the heartbeat of each."""

        def on_reply(member: Member, reply: HeartbeatReply | None, _payload: bytes, error: ZenitError | None) -> None:
            if reply is not None and reply.heartbeat_ms > 0:
                self._due_ms[address] = monotonic_ms() + max(TICK_MS, reply.heartbeat_ms)
                self._note_conflicts(reply)
                self._taken.setdefault(address, {})[member.client_id] = member
                self._refusals.pop((address, member.client_id), None)
            elif error is not None:
                self._due_ms[address] = monotonic_ms() + TICK_MS  # it is starting, or becoming master, perhaps
                self._note_refusal(address, member, error)

        for member in members:
            told = partial(on_reply, member)
            try:
                self._remoting.send_nowait(address, self._heartbeat(member), None, timeout_ms=TIMEOUT_MS, on_reply=told)
            except ZenitError as error:
                told(None, b"", error)

    def _keep(self, address: str) -> list[Member]:
        """I/O thread: tells a broker of the members whose heartbeats it has taken, many at a time; returns the others."""
        with self._lock:
            members = list(self._members.values())
            known = self._members.keys()
        if len(members) < KEPT_MIN or address in self._singly:
            return members
        before = self._taken.get(address, {})
        taken = self._taken[address] = {one: member for one, member in before.items() if one in known}
        kept = [member.client_id for member in members if taken.get(member.client_id) is member]
        for begin in range(0, len(kept), KEPT_AT_A_TIME):
            client_ids = tuple(kept[begin : begin + KEPT_AT_A_TIME])
            told = partial(self._on_kept, address, client_ids)
            try:
                request = KeepClients(client_ids)
                self._remoting.send_nowait(address, request, None, timeout_ms=TIMEOUT_MS, on_reply=told)
            except ZenitError as error:
                told(None, b"", error)
        return [member for member in members if taken.get(member.client_id) is not member]

    def _on_kept(
        self,
        address: str,
        client_ids: tuple[str, ...],
        reply: KeepClientsReply | None,
        _payload: bytes,
        error: ZenitError | None,
    ) -> None:
        """I/O thread: those that the broker does not know send a heartbeat of their own."""
        taken = self._taken.get(address, {})
        if reply is not None and reply.heartbeat_ms > 0:
            self._due_ms[address] = monotonic_ms() + max(TICK_MS, reply.heartbeat_ms)
            self._note_conflicts(reply)
            for client_id in reply.unknown:
                taken.pop(client_id, None)
            with self._lock:
                unknown = [self._members[one] for one in reply.unknown if one in self._members]
            self._beat_each(address, unknown)
            return
        if isinstance(error, UnknownRequest):
            self._singly.add(address)
        if error is not None and not error.retriable:
            for client_id in client_ids:
                taken.pop(client_id, None)
        self._due_ms[address] = monotonic_ms() + TICK_MS
        log.debug("clients are not kept broker=%s error=%s", address, error)

    def _note_refusal(self, address: str, member: Member, error: ZenitError) -> None:
        """I/O thread: warns of what a retry does not mend once, and again when the reason changes or the member was taken."""
        if error.retriable:
            log.debug("heartbeat failed broker=%s error=%s", address, error)
            return
        if len(self._refusals) >= REFUSALS_MAX:
            self._refusals.clear()
        why = str(error)
        if self._refusals.get((address, member.client_id)) != why:
            self._refusals[address, member.client_id] = why
            log.warning("heartbeat failed broker=%s client=%s error=%s", address, member.client_id, error)

    def _note_conflicts(self, reply: HeartbeatReply | KeepClientsReply) -> None:
        """Logs each finding of a broker about a group's members once; limited, as the members may be many."""
        fresh = set(reply.conflicts) - self._conflicts
        if len(self._conflicts) + len(fresh) > CONFLICTS_MAX:
            self._conflicts.clear()
        self._conflicts |= fresh
        for group, topic, client_id in sorted(fresh):
            log.warning("%s", SubscriptionConflict(group, topic, client_id))

    def _on_changed(self, _address: str, request: ConsumersChanged, _payload: bytes) -> None:
        with self._lock:
            listeners = list(self._listeners.get(request.group, {}).values())
        for listener in listeners:
            listener()

    def _on_reset(self, _address: str, request: OffsetsReset, _payload: bytes) -> None:
        with self._lock:
            movers = list(self._movers.get(request.group, {}).values())
        for mover in movers:
            mover(request)

    def _on_pushed_reply(self, _address: str, push: PushReply, payload: bytes) -> None:
        on_reply = self._on_reply.get(push.client_id)
        if on_reply is not None:
            on_reply(push, payload)

    def _on_check(self, _address: str, request: CheckTransaction, payload: bytes) -> None:
        """Who sent the message answers; one of the group's members in this process for those that are gone."""
        with self._lock:
            checkers = self._checkers.get(request.producer_group, {})
            checker = checkers.get(client_of(request.sender)) or next(iter(checkers.values()), None)
        if checker is not None:
            checker(request, payload)

    def _on_lost(self, address: str) -> None:
        """I/O thread: a broker that comes back knows nobody; the next tick sends it heartbeats."""
        self._taken.pop(address, None)
        self._singly.discard(address)
        if address in self._due_ms:
            self._due_ms[address] = 0


def _take_out(table: dict[str, dict[str, _T]], group: str, client_id: str) -> None:
    """Removes a client from those of a group, and the group with its last client."""
    clients = table.get(group)
    if clients is not None and clients.pop(client_id, None) is not None and not clients:
        del table[group]
