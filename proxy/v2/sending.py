"""SendMessage, RecallMessage, EndTransaction."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from ...model.clock import now_ms
from ...model.errors import InvalidParameter, RemoteProtocolError, ZenitError, error_from_wire
from ...model.handles.recall_handle import RecallHandle
from ...model.handles.transaction import Resolution, TransactionId
from ...remoting.commands import EndTransactions, RecallMessage
from ..back.ready_message import Stored
from ..back.sends import GROUP
from ..schema import enum_value, message_class
from .calls import ClientCall
from .limits import check_count
from .mapping import check_type, producer_group_of, ready_message
from .resources import topic_of
from .status import CallRefused, Code, code_of

_SendResponse: Final = message_class("SendMessageResponse")
_RecallResponse: Final = message_class("RecallMessageResponse")
_EndResponse: Final = message_class("EndTransactionResponse")
_COMMIT, _ROLLBACK = (enum_value("TransactionResolution", name) for name in ("COMMIT", "ROLLBACK"))
_RESOLUTIONS: Final = {_COMMIT: Resolution.COMMIT, _ROLLBACK: Resolution.ROLLBACK}


def one_done(response: Any) -> bytes:
    """An answer with one entry that succeeded, which is quicker to decode and complete than to make. Pure."""
    entry = response.entries.add()
    entry.status.code, entry.status.message = Code.OK, "OK"
    overall(response.status, [Code.OK])
    encoded: bytes = response.SerializeToString()
    return encoded


async def send_message(call: ClientCall, request: Any) -> Any:
    """Stores messages; each has an answer of its own. Raises CallRefused, ZenitError where none is stored."""
    messages = request.messages
    if len(messages) == 1:  # as all clients send
        outcome = await _send(call, messages[0])
        if isinstance(outcome, Exception):
            raise outcome
        response = _SendResponse.FromString(_ONE_STORED)
        _fill_stored(response.entries[0], outcome)
        return response
    check_count("messages", len(messages))
    outcomes = await asyncio.gather(*(_send(call, message) for message in messages))
    response = _SendResponse()
    for message, outcome in zip(messages, outcomes, strict=True):
        entry = response.entries.add()
        if isinstance(outcome, Stored):
            entry.status.code, entry.status.message = Code.OK, "OK"
            _fill_stored(entry, outcome)
        else:
            entry.message_id = message.system_properties.message_id
            entry.status.code, entry.status.message = code_of(outcome), str(outcome)
    overall(response.status, [entry.status.code for entry in response.entries])
    return response


def _fill_stored(entry: Any, stored: Stored) -> None:
    entry.message_id = stored.message_id
    if stored.queue_offset > 0:
        entry.offset = stored.queue_offset
    recall_handle = stored.recall_handle
    if recall_handle:
        entry.recall_handle = recall_handle
    if stored.is_half:
        entry.transaction_id = stored.transaction_id


async def _send(call: ClientCall, message: Any) -> Stored | CallRefused | ZenitError:
    back, caller = call.back, call.caller
    try:
        ready, target = ready_message(message, caller, now_ms())
        topic = ready.topic
        topic_type = back.settings.known_type(topic)
        may_go = topic_type is not None and back.sends.is_routed(topic)
        turn = back.sends.turns.turn((caller.address, caller.port, topic), may_go=may_go)
        try:
            if topic_type is None:
                topic_type = await back.settings.topic_type(topic, deadline_ms=call.deadline_ms)
            check_type(ready, target, topic_type)
            return await back.sends.send(ready, target, deadline_ms=call.deadline_ms, turn=turn)
        finally:
            if turn is not None:
                turn.leave()
    except (CallRefused, ZenitError) as error:
        return error


def overall(status: Any, codes: list[int]) -> None:
    """The status of an answer whose entries have these."""
    kinds = set(codes)
    code = Code(kinds.pop()) if len(kinds) == 1 else Code.MULTIPLE_RESULTS
    status.code, status.message = code, code.name


async def recall_message(call: ClientCall, request: Any) -> Any:
    """Takes back a delayed message. Raises CallRefused, MessageNotFound."""
    topic = topic_of(request.topic)
    try:
        handle = RecallHandle.parse(request.recall_handle)
    except InvalidParameter as error:
        raise CallRefused(Code.BAD_REQUEST, str(error)) from None
    if handle.topic != topic:
        raise CallRefused(Code.BAD_REQUEST, f"the recall handle is of topic {handle.topic}")
    reply, _ = await call.back.backend.call(
        topic,
        handle.broker_name,
        RecallMessage(topic, request.recall_handle, GROUP),
        deadline_ms=call.deadline_ms,
    )
    response = _RecallResponse()
    response.status.code, response.status.message = Code.OK, "OK"
    response.message_id = reply.message_id
    return response


async def end_transaction(call: ClientCall, request: Any) -> Any:
    """Decides a transaction; answered when that is as durable as a send. Raises CallRefused, TransactionDecided."""
    topic = topic_of(request.topic)
    resolution = _RESOLUTIONS.get(request.resolution)
    if resolution is None:
        raise CallRefused(Code.BAD_REQUEST, "resolution: COMMIT or ROLLBACK; without a decision the server asks again")
    try:
        which = TransactionId.parse(request.transaction_id)
    except InvalidParameter as error:
        raise CallRefused(Code.INVALID_TRANSACTION_ID, str(error)) from None
    if which.topic != topic or which.message_id != request.message_id:
        raise CallRefused(
            Code.INVALID_TRANSACTION_ID, f"the transaction is of message {which.message_id} of {which.topic}"
        )
    ends = ((topic, request.transaction_id, resolution.value, -1),)
    asked = EndTransactions(producer_group_of(topic), ends)
    reply, _ = await call.back.backend.call(topic, which.broker_name, asked, deadline_ms=call.deadline_ms)
    if len(reply.rows) != 1:
        raise RemoteProtocolError(f"{len(reply.rows)} answers for one transaction")
    code, text, *_ = reply.rows[0]
    if code:
        raise _error_of(code, text)
    response = _EndResponse()
    response.status.code, response.status.message = Code.OK, "OK"
    return response


def _error_of(code: int, text: str) -> ZenitError:
    try:
        return error_from_wire(code, list(json.loads(text)), text)
    except (ValueError, TypeError, RecursionError):
        return RemoteProtocolError("why a transaction was not decided cannot be read")


_ONE_STORED: Final = one_done(_SendResponse())
