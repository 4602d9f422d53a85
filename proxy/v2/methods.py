"""The service's methods by name: who calls is found out, the method runs, and what it raises becomes a status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Self

from ...model.clock import monotonic_ms, monotonic_ns, now_ms
from ...model.errors import RemoteProtocolError, RequestTimeout, ZenitError
from ...model.plain_dataclass import dataclass
from ..back.backs import Backs
from ..back.client_room import ClientRoom
from ..back.parts import Back
from ..back.send_turns import SendTurns
from ..schema import Method, decoder, methods
from .asking import get_offset, query_assignment, query_offset, query_route, update_offset
from .authorization import Caller, caller_of, check_moment
from .calls import Answers, ClientCall
from .lite import LiteMethods
from .receiving import ReceivingMethods
from .sending import end_transaction, recall_message, send_message
from .sessions import Sessions
from .settling import ack_message, change_invisible_duration, forward_to_dead_letters
from .status import CallRefused, Code, code_of
from .telemetry import TelemetryMethods

log = logging.getLogger(__name__)

CALL_MS: Final = 10_000
"""Of what is asked of the cluster for one call, unless the client gives up before."""
WRITE_S: Final = 60.0
"""A client that takes longer to read one message of an answer is given up."""
MARGIN_MS: Final = 100
"""So much earlier than the client gives up it is answered why."""
LOOK_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What gRPC tells of a call. `metadata`: its headers. `left_s`: until the client gives up; None = it does not."""

    metadata: Mapping[str, str]
    peer: str
    left_s: float | None


class MessagingMethods:
    """Of one process; on the event loop that enters it."""

    def __init__(self, backs: Backs, *, polls_max: int, bytes_max: int, signed_within_ms: int) -> None:
        """`bytes_max`: of requests, and as many of answers that are not read yet. `signed_within_ms`: so far from now a
        signature's time may be; 0 = any."""
        self._backs = backs
        self._signed_within_ms = signed_within_ms if backs.is_secured else 0
        self._requests = ClientRoom(bytes_max)
        self._signing = SendTurns()
        self.sessions = Sessions()
        self._counts = backs.grpc_counts
        self._receiving = ReceivingMethods(self.sessions, backs.grpc_counts, ClientRoom(bytes_max), polls_max=polls_max)
        self._telemetry = TelemetryMethods(self.sessions, backs.asked)
        self._methods = methods()
        self._decoders = {name: decoder(method.request) for name, method in self._methods.items()}
        self._unary: dict[str, Callable[[ClientCall, Any], Awaitable[Any]]] = {
            "QueryRoute": query_route,
            "Heartbeat": self._telemetry.heartbeat,
            "SendMessage": send_message,
            "QueryAssignment": query_assignment,
            "AckMessage": ack_message,
            "ForwardMessageToDeadLetterQueue": forward_to_dead_letters,
            "UpdateOffset": update_offset,
            "GetOffset": get_offset,
            "QueryOffset": query_offset,
            "EndTransaction": end_transaction,
            "NotifyClientTermination": self._telemetry.notify_client_termination,
            "ChangeInvisibleDuration": change_invisible_duration,
            "RecallMessage": recall_message,
            "SyncLiteSubscription": LiteMethods(self.sessions).sync_lite_subscription,
        }
        self._streams: dict[str, Callable[[ClientCall, Any, Answers], Awaitable[None]]] = {
            "ReceiveMessage": self._receiving.receive_message,
            "PullMessage": self._receiving.pull_message,
        }
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look(), name="zenit-proxy-sessions")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def all(self) -> list[Method]:
        """The methods that are served."""
        return list(self._methods.values())

    def decode(self, method: Method, encoded: bytes) -> Any:
        """A client's message. Raises CallRefused."""
        try:
            return self._decoders[method.name](encoded)
        except RemoteProtocolError as error:
            raise CallRefused(Code.BAD_REQUEST, str(error)) from None

    async def unary(self, method: Method, facts: CallFacts, encoded: bytes) -> Any:
        """The answer to one request; an error is in its status."""
        begun_ns = monotonic_ns()
        try:
            self._requests.take(len(encoded), facts.peer)
            try:
                call = await self._call(facts)
                answer = await self._unary[method.name](call, self.decode(method, encoded))
            finally:
                self._requests.give_back(len(encoded), facts.peer)
        except (CallRefused, ZenitError) as error:
            answer = _failed(method, error)
        except Exception:
            log.exception("a call failed method=%s", method.name)
            answer = _failed(method, None)
        self._count(method, begun_ns, answer.status.code)
        return answer

    async def stream(self, method: Method, facts: CallFacts, encoded: bytes, answers: Answers) -> None:
        """The answers to one request; an error is one status."""
        begun_ns, code = monotonic_ns(), Code.OK
        written = _Written(answers)
        try:
            call = await self._call(facts)
            await self._streams[method.name](call, self.decode(method, encoded), written)
        except (CallRefused, ZenitError) as error:
            code = code_of(error)
            if written.has_begun:
                raise
            await answers.write(_failed(method, error))
        except Exception:
            code = Code.INTERNAL_SERVER_ERROR
            if written.has_begun:
                raise
            log.exception("a call failed method=%s", method.name)
            await answers.write(_failed(method, None))
        finally:
            self._count(method, begun_ns, code)

    async def telemetry(self, facts: CallFacts, commands: AsyncIterator[Any], answers: Answers) -> None:
        """A client's stream. Raises CallRefused, ZenitError."""
        await self._telemetry.telemetry(await self._call(facts), commands, answers)

    def _count(self, method: Method, begun_ns: int, code: int) -> None:
        self._counts.count(method.name, begun_ns, "" if code == Code.OK else Code(code).name)

    def drain(self) -> None:
        """Asks all clients to go to another proxy."""
        self._telemetry.drain()

    async def _call(self, facts: CallFacts) -> ClientCall:
        """Raises CallRefused, AuthenticationFailed."""
        caller = caller_of(facts.metadata, facts.peer)
        if not caller.client_id:
            raise CallRefused(Code.CLIENT_ID_REQUIRED, "metadata x-mq-client-id: an id of the client is needed")
        check_moment(caller, now_ms(), self._signed_within_ms)
        left_ms = None if facts.left_s is None else int(facts.left_s * 1000)
        total_ms = CALL_MS if left_ms is None else max(1, min(CALL_MS, left_ms - MARGIN_MS))
        deadline_ms = monotonic_ms() + total_ms
        back = self._backs.of_all or await self._back_of(caller, facts.peer, deadline_ms)
        return ClientCall(caller, back, deadline_ms, left_ms)

    async def _back_of(self, caller: Caller, peer: str, deadline_ms: int) -> Back:
        """That of who signed. Calls of one connection go on in the order in which they came, whosever signature is known."""
        turn = self._signing.take(peer)
        try:
            back = await self._backs.of(
                caller.access_key, caller.signature, caller.signed, address=caller.address, deadline_ms=deadline_ms
            )
            await turn.reached(deadline_ms=deadline_ms)
            return back
        finally:
            turn.leave()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.sessions.look()


class _Written:
    """Answers, and whether there were any."""

    __slots__ = ("_answers", "has_begun")

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.has_begun = False

    async def write(self, message: Any) -> None:
        """Raises RequestTimeout where the client does not read."""
        self.has_begun = True
        try:
            async with asyncio.timeout(WRITE_S):
                await self._answers.write(message)
        except TimeoutError:
            raise RequestTimeout("a client that reads its answer", int(WRITE_S * 1000)) from None


def _failed(method: Method, error: CallRefused | ZenitError | None) -> Any:
    """`error` None: a fault of ours, which the log explains."""
    response = method.response()
    response.status.code = Code.INTERNAL_SERVER_ERROR if error is None else code_of(error)
    response.status.message = "internal error: the proxy's log says more" if error is None else str(error)
    return response
