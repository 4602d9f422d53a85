"""Telemetry, Heartbeat, NotifyClientTermination: what a client tells of itself, and what it is told."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

from ...model.errors import ZenitError
from ..back.asked_clients import AskedClients
from ..back.group_rules import GroupRules
from ..back.parts import Back
from ..schema import message_class
from .calls import Answers, ClientCall
from .questions import ANSWERS
from .sessions import Session, Sessions
from .settings import answered_settings, told_settings
from .status import CallRefused, Code

RULES_MS: Final = 1_000
"""So long a client waits at most for its settings: without them it does not start."""

_TelemetryCommand: Final = message_class("TelemetryCommand")
_HeartbeatResponse: Final = message_class("HeartbeatResponse")
_EndedResponse: Final = message_class("NotifyClientTerminationResponse")


class TelemetryMethods:
    """Of one process; on the event loop."""

    def __init__(self, sessions: Sessions, asked: AskedClients) -> None:
        self._sessions = sessions
        self._asked = asked
        self._is_draining = False

    async def telemetry(self, call: ClientCall, commands: AsyncIterator[Any], answers: Answers) -> None:
        """One stream: settings are answered with settings, before anything else is told."""
        session = self._sessions.of(call)
        session.link(answers)
        self._asked.enter(call.caller.client_id, session.questions)
        try:
            async for command in commands:
                kind = command.WhichOneof("command")
                if kind == "settings":
                    await self._on_settings(session, command.settings)
                elif kind in ANSWERS:
                    session.questions.on_answer(getattr(command, kind).nonce, command)
            await session.finish(answers)
        finally:
            session.unlink(answers)
            if session.stream is None:
                self._asked.leave(call.caller.client_id, session.questions)

    async def _on_settings(self, session: Session, settings: Any) -> None:
        command = _TelemetryCommand()
        try:
            told = told_settings(settings)
        except CallRefused as error:
            command.status.code, command.status.message = error.code, error.message
            command.settings.CopyFrom(settings)
            session.tell(command)
            return
        command.status.code, command.status.message = Code.OK, "OK"
        command.settings.CopyFrom(answered_settings(settings, told, await _rules(session.back, told.group)))
        session.tell(command)
        self._sessions.on_settings(session, told)
        if self._is_draining:
            session.tell(_reconnect())

    async def heartbeat(self, call: ClientCall, request: Any) -> Any:  # noqa: ARG002
        """The client lives. What a proxy does not know of it, it tells by its stream, or with its requests."""
        self._sessions.on_heartbeat(call)
        response = _HeartbeatResponse()
        response.status.code, response.status.message = Code.OK, "OK"
        return response

    async def notify_client_termination(self, call: ClientCall, request: Any) -> Any:  # noqa: ARG002
        """The client ends."""
        await self._sessions.end(call)
        response = _EndedResponse()
        response.status.code, response.status.message = Code.OK, "OK"
        return response

    def drain(self) -> None:
        """Asks all clients to go to another proxy."""
        self._is_draining = True
        for session in self._sessions.all():
            session.tell(_reconnect())


async def _rules(back: Back, group: str) -> GroupRules:
    if not group:
        return GroupRules()
    try:
        return await back.settings.group(group, deadline_ms=back.backend.deadline_ms(RULES_MS))
    except ZenitError:
        return GroupRules()  # it is told again each five minutes


def _reconnect() -> Any:
    command = _TelemetryCommand()
    command.status.code, command.status.message = Code.OK, "OK"
    command.reconnect_endpoints_command.nonce = secrets.token_hex(8)
    return command
