"""Each request of a classic client: who signed it, its fields, its handler, and its answer."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Final

from ...model.clock import monotonic_ms, monotonic_ns
from ...model.errors import BrokerBusy, RemoteProtocolError, UnknownRequest, ZenitError
from ...model.ids import HostAddress
from ...model.security.signatures import ACCESS_KEY_FIELD, SIGNATURE_FIELD, signed_content
from ..back.backs import Backs
from ..back.send_turns import SendTurn, SendTurns
from ..config import ProxyLimits
from .calls import CALL_MS, SEND_MS, BrokerPorts, ClassicAnswer, ClassicCall, ClassicHandler, ClassicLink
from .clients import ClassicClients
from .cluster_handlers import ClusterHandlers
from .codes import ClassicCode, ClassicStatus, not_served, status_of
from .fields import BROKER, ROWS, ClassicFields, read_fields
from .frames import IS_REPLY, ClassicFrame
from .group_handlers import GroupHandlers
from .read_handlers import ReadHandlers
from .send_handlers import SendHandlers
from .tool_handlers import ToolHandlers

log = logging.getLogger(__name__)

SENDS: Final = frozenset(
    {
        ClassicCode.SEND_MESSAGE,
        ClassicCode.SEND_MESSAGE_V2,
        ClassicCode.SEND_BATCH_MESSAGE,
        ClassicCode.SEND_REPLY_MESSAGE,
        ClassicCode.SEND_REPLY_MESSAGE_V2,
    }
)
ORDERED: Final = frozenset({ClassicCode.SEND_MESSAGE, ClassicCode.SEND_MESSAGE_V2, ClassicCode.SEND_BATCH_MESSAGE})
"""Those of one connection to one topic are sent on in the order in which they came."""
POLLS: Final = frozenset({ClassicCode.PULL_MESSAGE, ClassicCode.LITE_PULL_MESSAGE, ClassicCode.POP_MESSAGE})
"""Requests that may wait for messages."""
COMPACT: Final = frozenset(
    {ClassicCode.SEND_MESSAGE_V2, ClassicCode.SEND_BATCH_MESSAGE, ClassicCode.SEND_REPLY_MESSAGE_V2}
)
LINK_POLLS_MAX: Final = 2_048
"""Of one connection; more are answered at once."""
LINK_ANSWERS_BYTES: Final = 64 * 1024 * 1024
ANSWER_BYTES_MIN: Final = 64 * 1024
"""One message at least comes, however large."""
REMARK_LENGTH_MAX: Final = 1024
RETRY_AFTER_MS: Final = 100
UNKNOWN: Final = "UNKNOWN"
"""How requests of a code that is not served are counted."""
_NO_ERRORS: Final = frozenset(
    {
        ClassicStatus.SUCCESS,
        ClassicStatus.PULL_NOT_FOUND,
        ClassicStatus.PULL_RETRY_IMMEDIATELY,
        ClassicStatus.PULL_OFFSET_MOVED,
        ClassicStatus.QUERY_NOT_FOUND,
        ClassicStatus.NO_MESSAGE,
        ClassicStatus.POLLING_TIMEOUT,
    }
)
_METHOD_NAMES: Final = {code.value: code.name for code in ClassicCode}
_STATUS_NAMES: Final = {status.value: status.name for status in ClassicStatus if status not in _NO_ERRORS}


class ClassicRequests:
    """Of one process; on the event loop."""

    def __init__(self, backs: Backs, ports: BrokerPorts, limits: ProxyLimits) -> None:
        self._backs = backs
        self._limits = limits
        self.clients = ClassicClients(ports)
        self._counts = backs.remoting_counts
        self._turns = SendTurns()
        self._handlers: dict[int, ClassicHandler] = {
            **ClusterHandlers(ports, self.clients).handlers(),
            **GroupHandlers(self.clients).handlers(),
            **ReadHandlers(ports, self.clients).handlers(),
            **SendHandlers(ports).handlers(),
            **ToolHandlers().handlers(),
        }

    def knows(self, code: int) -> bool:
        """Whether requests of that code are served."""
        return code in self._handlers

    async def answer(self, frame: ClassicFrame, link: ClassicLink, broker_name: str) -> ClassicFrame:
        """The answer to a request. `broker_name`: of the port that it came to; "" = of the shared one."""
        begun_ns = monotonic_ns()
        try:
            answer = answer_frame(frame, await self._answer(frame, link, broker_name))
        except ZenitError as error:
            answer = refusal(frame, error)
        except Exception:
            log.exception("a request of a classic client failed code=%s", frame.code)
            failed = ClassicAnswer(ClassicStatus.SYSTEM_ERROR, remark="this proxy failed; see its log")
            answer = answer_frame(frame, failed)
        self._count(frame, begun_ns, answer.code)
        return answer

    def refused(self, frame: ClassicFrame, answer: ClassicFrame) -> ClassicFrame:
        """The answer to a request that is not handled, which is counted too."""
        self._count(frame, monotonic_ns(), answer.code)
        return answer

    def _count(self, frame: ClassicFrame, begun_ns: int, status: int) -> None:
        method = _METHOD_NAMES[frame.code] if frame.code in self._handlers else UNKNOWN
        self._counts.count(method, begun_ns, _STATUS_NAMES.get(status, ""))

    async def _answer(self, frame: ClassicFrame, link: ClassicLink, broker_name: str) -> ClassicAnswer:
        handler = self._handlers.get(frame.code)
        if handler is None:
            raise UnknownRequest(frame.code)
        fields = read_fields(ROWS[frame.code], frame.fields, is_compact=frame.code in COMPACT)
        turn = self._turn(fields, link) if frame.code in ORDERED else None
        try:
            call = await self._call(frame, fields, link, broker_name)
            call.turn = turn
            return await self._handled(call, handler)
        finally:
            if turn is not None:
                turn.leave()

    def _turn(self, fields: ClassicFields, link: ClassicLink) -> SendTurn | None:
        """Where something is to be asked first: the topic's route, or who signed."""
        topic = fields.text("topic")
        back = self._backs.of_all
        return self._turns.turn((link, topic), may_go=back is not None and back.sends.is_routed(topic))

    async def _call(
        self, frame: ClassicFrame, fields: ClassicFields, link: ClassicLink, broker_name: str
    ) -> ClassicCall:
        """Raises why its client is refused."""
        deadline_ms = monotonic_ms() + (SEND_MS if frame.code in SENDS else CALL_MS)
        back = self._backs.of_all or await self._backs.of(
            frame.fields.get(ACCESS_KEY_FIELD, ""),
            frame.fields.get(SIGNATURE_FIELD, ""),
            signed_content(frame.fields, frame.body) if ACCESS_KEY_FIELD in frame.fields else b"",
            address=_text_of(link.peer),
            deadline_ms=deadline_ms,
        )
        if back.user:
            link.prove()
        named = frame.fields.get(BROKER.name) or (frame.fields.get(BROKER.short) if frame.code in COMPACT else "")
        return ClassicCall(frame, fields, link, back, named or broker_name, deadline_ms)

    async def _handled(self, call: ClassicCall, handler: ClassicHandler) -> ClassicAnswer:
        if call.frame.code not in POLLS:
            return await handler(call)
        link = call.link
        call.may_wait = self._counts.polls < self._limits.polls and link.polls <= LINK_POLLS_MAX
        self._counts.polls += 1
        call.answer_bytes = share_bytes(link.polls, self._counts.polls, self._limits.bytes_in_flight)
        try:
            return await handler(call)
        finally:
            self._counts.polls -= 1


@lru_cache(4096)
def _text_of(peer: HostAddress) -> str:
    """A client's address, which each of its requests is checked with."""
    return str(peer)


def share_bytes(link_polls: int, all_polls: int, bytes_max: int) -> int:
    """For how many bytes of messages one more poll may ask: those of a connection share what its client may leave unread, those
    of all share `bytes_max`. Pure."""
    share = min(LINK_ANSWERS_BYTES // max(1, link_polls), bytes_max // max(1, all_polls))
    return max(ANSWER_BYTES_MIN, share)


def answer_frame(request: ClassicFrame, answer: ClassicAnswer) -> ClassicFrame:
    """Written as its request was. Pure."""
    return ClassicFrame(
        answer.status,
        request.opaque,
        IS_REPLY,
        answer.remark[:REMARK_LENGTH_MAX],
        dict(answer.fields),
        answer.body,
        is_json=request.is_json,
    )


def refusal(request: ClassicFrame, error: ZenitError) -> ClassicFrame:
    """The answer that tells an error. Pure."""
    return answer_frame(request, ClassicAnswer(status_of(error), remark=str(error)))


def unknown(request: ClassicFrame) -> ClassicFrame:
    """The answer to a request that is not served. Pure."""
    answer = ClassicAnswer(ClassicStatus.REQUEST_CODE_NOT_SUPPORTED, remark=not_served(request.code))
    return answer_frame(request, answer)


def busy(request: ClassicFrame, what: str) -> ClassicFrame:
    """The answer to a request for which there is no room. Pure."""
    return refusal(request, BrokerBusy(RETRY_AFTER_MS, what))


def too_large(request: ClassicFrame, size_bytes: int) -> ClassicFrame:
    """Instead of an answer that is larger than a frame may be. Pure."""
    return refusal(request, RemoteProtocolError(f"the answer would have {size_bytes} bytes: ask for less at a time"))
