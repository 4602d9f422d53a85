"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what becomes of messages that were received."""

from __future__ import annotations

from typing import Any, Final

from ...model.errors import ZenitError
from ..schema import message_class
from .calls import ClientCall
from .limits import check_count, check_delay, check_invisible, duration_ms
from .resources import group_of, topic_of
from .sending import one_done, overall
from .status import CallRefused, Code, code_of

_AckResponse: Final = message_class("AckMessageResponse")
_ChangeResponse: Final = message_class("ChangeInvisibleDurationResponse")
_ForwardResponse: Final = message_class("ForwardMessageToDeadLetterQueueResponse")
_ACKED: Final = one_done(_AckResponse())
_ONE_ACKED: Final = [None]


async def ack_message(call: ClientCall, request: Any) -> Any:
    """Each entry has an answer of its own; once more, an acknowledgement succeeds. Raises CallRefused."""
    group = group_of(request.group)
    topic_of(request.topic)
    entries = request.entries
    check_count("entries", len(entries))
    handles = [entry.receipt_handle for entry in entries]
    outcomes = await call.back.acks.ack(group, handles, deadline_ms=call.deadline_ms)
    if outcomes == _ONE_ACKED:  # as all clients do
        response = _AckResponse.FromString(_ACKED)
        told, entry = response.entries[0], entries[0]
        told.message_id, told.receipt_handle = entry.message_id, entry.receipt_handle
        return response
    response = _AckResponse()
    for entry, outcome in zip(entries, outcomes, strict=True):
        told = response.entries.add()
        told.message_id, told.receipt_handle = entry.message_id, entry.receipt_handle
        told.status.code = Code.OK if outcome is None else code_of(outcome)
        told.status.message = "OK" if outcome is None else str(outcome)
    overall(response.status, [entry.status.code for entry in response.entries])
    return response


async def change_invisible_duration(call: ClientCall, request: Any) -> Any:
    """The message's new handle; the one that came where nothing changed: clients go on with what they get. 0 = the message
    comes again at once. `suspend`, of a lite topic's message: it comes again then with those behind it; that is no attempt."""
    response = _ChangeResponse()
    response.receipt_handle = request.receipt_handle
    try:
        group = group_of(request.group)
        invisible_ms = duration_ms(request.invisible_duration)
        if request.suspend and request.lite_topic:
            check_delay(invisible_ms)
            await call.back.acks.suspend(group, request.receipt_handle, invisible_ms, deadline_ms=call.deadline_ms)
            response.status.code, response.status.message = Code.OK, "OK"
            return response
        if invisible_ms:
            check_invisible(invisible_ms)
        handle = await call.back.acks.change_invisible(
            group, request.receipt_handle, invisible_ms, deadline_ms=call.deadline_ms
        )
    except (CallRefused, ZenitError) as error:
        response.status.code, response.status.message = code_of(error), str(error)
        return response
    response.receipt_handle = handle or request.receipt_handle
    response.status.code, response.status.message = Code.OK, "OK"
    return response


async def forward_to_dead_letters(call: ClientCall, request: Any) -> Any:
    """Moves a message to its group's dead letters. Raises CallRefused, LeaseExpired, HandleRefused."""
    group = group_of(request.group)
    reason = f"given up after {request.delivery_attempt} of {request.max_delivery_attempts} attempts"
    await call.back.acks.dead_letter(group, request.receipt_handle, reason, deadline_ms=call.deadline_ms)
    response = _ForwardResponse()
    response.status.code, response.status.message = Code.OK, "OK"
    return response
