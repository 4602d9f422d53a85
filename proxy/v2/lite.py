"""SyncLiteSubscription: which lite topics of a parent a client receives."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...model.errors import InvalidName
from ...model.topics.light_queues import check_lite_topic
from ..back.lite_pops import LiteClient
from ..schema import enum_value, message_class
from .calls import ClientCall
from .resources import group_of, topic_of
from .sessions import Session, Sessions
from .settings import LITE_SIMPLE_CONSUMER, subscription_of_all
from .status import CallRefused, Code

NAMES_MAX: Final = 10_000
"""Of one request; the group's quota is lower."""

_Response: Final = message_class("SyncLiteSubscriptionResponse")
_TelemetryCommand: Final = message_class("TelemetryCommand")
_PARTIAL_ADD, _PARTIAL_REMOVE, _COMPLETE_ADD, _COMPLETE_REMOVE = (
    enum_value("LiteSubscriptionAction", name)
    for name in ("PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE")
)
_LAST, _MIN = 0, 1  # of OffsetOption.Policy


class LiteMethods:
    """Of one process; on the event loop."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def sync_lite_subscription(self, call: ClientCall, request: Any) -> Any:
        """Raises CallRefused, NotLiteParent, LiteQuotaExceeded, TopicNotFound."""
        group, topic = group_of(request.group), topic_of(request.topic)
        client = LiteClient(call.caller.client_id, group, topic)
        names = _names(request.lite_topic_set)
        _check_offset(request)
        back, action = call.back, request.action
        if action in (_PARTIAL_ADD, _COMPLETE_ADD):
            session = self._sessions.of(call)
            await self._sessions.on_receive(call, group, subscription_of_all(topic))
            on_lost = partial(_tell_lost, session)
            renews = session.told is None or session.told.client_type != LITE_SIMPLE_CONSUMER
            await back.lite_pops.subscribe(client, names, on_lost, only=action == _COMPLETE_ADD, renews=renews)
        elif action == _PARTIAL_REMOVE:
            await back.lite_pops.unsubscribe(client, names)
        elif action == _COMPLETE_REMOVE:
            await back.lite_pops.unsubscribe(client, None)
        else:
            raise CallRefused(Code.BAD_REQUEST, "action: PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD or COMPLETE_REMOVE")
        response = _Response()
        response.status.code, response.status.message = Code.OK, "OK"
        return response


def _names(given: Any) -> list[str]:
    """Raises CallRefused."""
    if len(given) > NAMES_MAX:
        raise CallRefused(Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"{len(given)} lite topics: at most {NAMES_MAX}")
    try:
        return [check_lite_topic(name) for name in given]
    except InvalidName as error:
        raise CallRefused(Code.ILLEGAL_LITE_TOPIC, str(error)) from None


def _check_offset(request: Any) -> None:
    """A group begins with a lite topic's first message, and goes on where it was. Raises CallRefused."""
    kind = request.offset_option.WhichOneof("offset_type")
    if kind is not None and not (kind == "policy" and request.offset_option.policy in (_LAST, _MIN)):
        raise CallRefused(Code.BAD_REQUEST, "offset_option: LAST or MIN; a group begins with the first message")


def _tell_lost(session: Session, name: str) -> None:
    command = _TelemetryCommand()
    command.status.code, command.status.message = Code.OK, "OK"
    command.notify_unsubscribe_lite_command.lite_topic = name
    session.tell(command)
