"""The clients of one process: what each told of itself, and its telemetry stream, by which it is told things.

A client whose stream ended is there for a while longer, as long as its heartbeats come: some clients begin their stream anew
only after minutes. Nothing here must survive: what a request needs, it brings.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import CorruptRecordError, ZenitError
from ...model.subscription import POPPING, Subscription
from ...record.kernel import decode_batch
from ...remoting.commands import CheckTransaction, OffsetsReset, PushReply
from ..back.foreign_client import ForeignClient
from ..back.parts import Back
from ..back.presence import SILENT_MS
from ..schema import message_class
from .authorization import Caller
from .calls import Answers, ClientCall
from .mapping import fill_message
from .questions import Questions
from .settings import LITE_CONSUMERS, ToldSettings

log = logging.getLogger(__name__)

WAITING_MAX: Final = 1_000
"""Commands that wait for a client to read them."""
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
UNLINKED_MS: Final = 15_000
SESSIONS_MAX: Final = 100_000
OWNER_PART_MAX: Final = 200

_TelemetryCommand: Final = message_class("TelemetryCommand")


class Session:
    """One client. See Listener."""

    shares_queues = False  # brokers share messages out

    def __init__(self, caller: Caller, back: Back) -> None:
        self.caller = caller
        self.back = back
        self.questions = Questions(self.tell, caller.namespace)
        self.told: ToldSettings | None = None
        self.stream: Answers | None = None
        self.heard_ms = monotonic_ms()
        self.lease_owner = f"{caller.client_id[:OWNER_PART_MAX]}@{secrets.token_hex(8)}"
        """By which brokers renew what is received here."""
        self.owns_leases = False
        self.has_news = False
        """Brokers are to be told of it."""
        self.joining: asyncio.Task[None] | None = None
        self.popped: dict[tuple[str, str], Subscription] = {}
        """(group, topic): what a client without settings receives."""
        self._waiting: deque[Any] = deque()
        self._waiting_bytes = 0
        self._writing: asyncio.Task[None] | None = None

    @property
    def is_lite(self) -> bool:
        """It said that it receives lite topics."""
        return self.told is not None and self.told.client_type in LITE_CONSUMERS

    def tell(self, command: Any) -> None:
        """Sends a command, after those before; not if the client has no stream, or reads none."""
        size_bytes = command.ByteSize()
        if (
            self.stream is None
            or len(self._waiting) >= WAITING_MAX
            or self._waiting_bytes > WAITING_BYTES_MAX - size_bytes
        ):
            return
        self._waiting.append(command)
        self._waiting_bytes += size_bytes
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(self.stream), name="zenit-proxy-tell")

    async def _write(self, stream: Answers) -> None:
        try:
            while self._waiting and self.stream is stream:
                command = self._waiting.popleft()
                self._waiting_bytes -= command.ByteSize()
                await stream.write(command)
        except Exception as error:  # noqa: BLE001  # gRPC raises several; the stream has ended then, and says so by itself
            log.debug("a client is gone client=%s error=%s", self.caller.client_id, error)
            if self.stream is stream:
                self._clear()
        finally:
            if self._writing is asyncio.current_task():
                self._writing = None

    async def finish(self, stream: Answers) -> None:
        """Until the client has read what it was told by this stream, or it has another one."""
        if self._writing is not None and self.stream is stream:
            await asyncio.wait((self._writing,))

    def _clear(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0

    def link(self, stream: Answers) -> None:
        """Its telemetry stream began; the one before counts no more, though nobody may read it."""
        self.stream = stream
        self._clear()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def unlink(self, stream: Answers) -> None:
        """That stream ended."""
        if self.stream is stream:
            self.stream = None
            self.questions.give_up()
            self.heard_ms = monotonic_ms()
            self._clear()

    def client(self) -> ForeignClient:
        """As brokers are told of it."""
        if self.told is not None:
            return self.told.client(self.caller)
        consumers: dict[str, list[tuple[str, str, str]]] = {}
        for (group, _), subscription in self.popped.items():
            consumers.setdefault(group, []).append(subscription.wire())
        rows = tuple((group, POPPING.value, tuple(sorted(wires))) for group, wires in sorted(consumers.items()))
        caller = self.caller
        return ForeignClient(caller.client_id, caller.language, caller.version, caller.address, (), rows)

    # ---- what brokers push

    def on_check(self, request: CheckTransaction, record: bytes) -> None:
        """See Listener."""
        command = _TelemetryCommand()
        recover = command.recover_orphaned_transaction_command
        recover.transaction_id = request.transaction_id
        try:
            (message,) = decode_batch(record)
            fill_message(recover.message, message, self.caller.namespace)
        except (CorruptRecordError, ValueError) as error:
            log.warning("a question about a transaction that cannot be decoded error=%s", error)
            return
        self.tell(command)

    def on_group_changed(self) -> None:
        """See Listener."""

    def on_offsets_reset(self, request: OffsetsReset) -> None:
        """See Listener."""

    def on_reply(self, request: PushReply, record: bytes) -> None:
        """See Listener: the protocol has no requests that are replied to."""


class Sessions:
    """Of one process; on the event loop."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], Session] = {}

    def __len__(self) -> int:
        """The clients that are known."""
        return len(self._sessions)

    def all(self) -> list[Session]:
        """Of all clients."""
        return list(self._sessions.values())

    def of(self, call: ClientCall) -> Session:
        """The session of a caller, which begins with its first call."""
        key = call.back.user, call.caller.client_id
        session = self._sessions.get(key)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                _drop(self._sessions.pop(next(iter(self._sessions))))
            session = self._sessions[key] = Session(call.caller, call.back)
        elif session.back is not call.back:  # its user's way to the cluster was closed, and is a new one
            session.back, session.owns_leases = call.back, False
        session.heard_ms = monotonic_ms()
        return session

    def on_settings(self, session: Session, told: ToldSettings) -> None:
        """A client told of itself; brokers are told in the background."""
        if session.told != told:
            session.told = told
            self._join(session)

    def on_heartbeat(self, call: ClientCall) -> None:
        """A client lives."""
        session = self.of(call)
        if not call.back.presence.heard(call.caller.client_id) and session.told is not None:
            self._join(session)

    async def on_receive(self, call: ClientCall, group: str, subscription: Subscription) -> None:
        """A client receives: brokers that renew its leases must know it first. Raises what keeps it out of the group."""
        session = self.of(call)
        told = session.told
        is_told = told is not None and told.group == group and subscription in told.subscriptions
        key = group, subscription.topic
        if is_told and call.back.presence.heard(call.caller.client_id):
            return
        if not is_told and session.popped.get(key) == subscription and call.back.presence.heard(call.caller.client_id):
            return
        session.popped[key] = subscription
        if told is not None and told.group == group and not is_told:
            others = tuple(one for one in told.subscriptions if one.topic != subscription.topic)
            session.told = ToldSettings(
                told.client_type, told.topics, group, (*others, subscription), told.language, told.version, told.host
            )
        await call.back.presence.join(session.client(), session)

    async def on_renewing(self, call: ClientCall) -> str:
        """A client receives what brokers are to renew; the owner of these leases. Raises what keeps it from being one."""
        session = self.of(call)
        if not session.owns_leases:
            await session.back.presence.own(session.lease_owner, session.client())
            session.owns_leases = True
        return session.lease_owner

    async def end(self, call: ClientCall) -> None:
        """The client says good-bye."""
        session = self._sessions.pop((call.back.user, call.caller.client_id), None)
        if session is not None:
            _drop(session)
            await session.back.presence.leave(call.caller.client_id)

    def look(self) -> None:
        """Now and then: ends those whose link has, and who do not call. Who is silent for long on a link that seems to be open
        holds no leases any more."""
        now_ms = monotonic_ms()
        for key, session in list(self._sessions.items()):
            if session.stream is None and session.heard_ms < now_ms - UNLINKED_MS:
                del self._sessions[key]
                _drop(session)
                session.back.presence.lose(key[1], session)
            elif session.owns_leases and session.heard_ms < now_ms - SILENT_MS:
                _disown(session)

    def _join(self, session: Session) -> None:
        """Brokers are told of what a client says of itself now, once they have been told of what it said before."""
        session.has_news = True
        if session.joining is None:
            session.joining = asyncio.create_task(self._tell_brokers(session), name="zenit-proxy-join")

    async def _tell_brokers(self, session: Session) -> None:
        try:
            while session.has_news:
                session.has_news = False
                await self._join_now(session)
        finally:
            session.joining = None

    async def _join_now(self, session: Session) -> None:
        try:
            told = session.told
            for topic in (told.topics if told is not None else ()) or [
                one.topic for one in (told.subscriptions if told is not None else ())
            ]:  # the brokers that have them are to be known
                await session.back.backend.route(topic, deadline_ms=session.back.backend.deadline_ms(1_000))
        except ZenitError as error:
            log.info("a client's topic has no route client=%s error=%s", session.caller.client_id, error)
        try:
            await session.back.presence.join(session.client(), session)
        except ZenitError as error:
            log.warning("a client is not taken by a broker client=%s error=%s", session.caller.client_id, error)


def _drop(session: Session) -> None:
    """What the session holds at the brokers."""
    session.back.lite_pops.forget(session.caller.client_id)
    _disown(session)


def _disown(session: Session) -> None:
    if session.owns_leases:
        session.owns_leases = False
        session.back.presence.disown(session.lease_owner)
