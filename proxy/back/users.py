"""Who signed a request of a foreign client: asked of the cluster, many at a time, and kept for some seconds.

Where the proxy has no key, the cluster has no security, and everybody is anonymous.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from functools import partial
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import (
    AuthenticationFailed,
    BrokerBusy,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    RemoteProtocolError,
    RequestTimeout,
    SystemFault,
    ZenitError,
)
from ...model.plain_dataclass import dataclass
from ...model.repeated_news import RepeatedNews
from ...remoting.commands import CheckSignatures
from ..wrong_signatures import WrongSignatures, machine_of
from .backend import Backend
from .recent_answers import KeptAnswers

log = logging.getLogger(__name__)

KNOWN_MS: Final = 10_000
"""Most clients of gRPC sign the second in which they ask: what is signed once is asked about once. So long a secret that is
taken away may count still."""
KNOWN_MAX: Final = 50_000
ASKED_MAX: Final = 256
"""In one question: with names and signatures of the longest they fit into a request's header."""
ACCESS_KEY_LENGTH_MAX: Final = 255
SIGNATURE_LENGTH_MAX: Final = 64
SIGNED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Over remoting a message's body is signed with it."""
KEPT_BYTES_MAX: Final = 1024
"""Who signed is kept where that is no longer: longer ones are requests that come once."""
ASKED_BYTES_MAX: Final = 4 * 1024 * 1024
"""In one question, if not one alone is longer."""
ANONYMOUS: Final = ""
HERE: Final = "the proxy"
REMEDY: Final = "; the access key is the user's name, `zenit user secret NAME` makes a secret"

_OF_ONE: Final = (InvalidParameter, MessageIllegal, MessageTooLarge, RemoteProtocolError, SystemFault)
"""A question that fails so may do for one of those in it."""

_Signed = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class Signer:
    """`user`: "" = anonymous. `delegation`: by which the proxy acts for it."""

    user: str
    delegation: str


NOBODY: Final = Signer(ANONYMOUS, "")


class _Asked:
    """Who signed this? `deadline_ms`: of who wants to know."""

    __slots__ = ("answered", "deadline_ms", "signed")

    def __init__(self, signed: _Signed, deadline_ms: int, answered: asyncio.Future[Signer]) -> None:
        self.signed = signed
        self.deadline_ms = deadline_ms
        self.answered = answered


class Users:
    """Of one process; on the event loop. `is_secured`: False = there are no users."""

    def __init__(self, backend: Backend, *, is_secured: bool, is_required: bool) -> None:
        """`is_required`: who does not sign is refused; else that one has the rights of the proxy's own user."""
        self._backend = backend
        self._is_required = is_required
        self.is_secured = is_secured
        self._known: KeptAnswers[bytes, Signer] = KeptAnswers(known_ms=KNOWN_MS, size_max=KNOWN_MAX)
        self._news = RepeatedNews()
        self._wrong = WrongSignatures()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: list[_Asked] = []

    async def signer(self, access_key: str, signature: str, signed: bytes, *, address: str, deadline_ms: int) -> Signer:
        """Who made the signature of `signed`. `address`: of the client. Raises AuthenticationFailed, SecretsNotKept, and why no
        server answers; BrokerBusy where too many wrong ones came from there."""
        if not self.is_secured:
            return NOBODY
        if not access_key:
            if self._is_required:
                raise self._refusal("unsigned", f"its request is not signed{REMEDY}", machine_of(address))
            return NOBODY
        _check(access_key, signature, signed)
        asked = access_key, signature, signed
        digest = None if len(signed) > KEPT_BYTES_MAX else _digest(asked)  # each longer one comes once
        found = None if digest is None else self._known.known(digest)
        if found is None:
            found = await self._found(asked, digest, machine_of(address), deadline_ms)
        if not found.user:
            why = f"the signature of access key {access_key[:64]} is wrong{REMEDY}"
            raise self._refusal("wrong", why, machine_of(address))
        return found

    async def _found(self, asked: _Signed, digest: bytes | None, machine: str, deadline_ms: int) -> Signer:
        """What a server says now."""
        access_key = asked[0]
        try:
            self._wrong.check(machine, access_key, monotonic_ms())
        except BrokerBusy as busy:
            self._warn("busy", str(busy), machine)
            raise
        if digest is None:
            found = await self._find(asked, deadline_ms)
        else:
            found = await self._known.answer(digest, partial(self._find, asked), deadline_ms=deadline_ms)
        if found.user:
            self._wrong.on_right(machine, access_key, monotonic_ms())
        else:
            self._wrong.on_wrong(machine, monotonic_ms())
        return found

    def _refusal(self, kind: str, why: str, machine: str) -> AuthenticationFailed:
        """The clients of most languages tell their users only that a topic has no route: the log says why, once a minute for a
        machine."""
        self._warn(kind, why, machine)
        return AuthenticationFailed(HERE, why)

    def _warn(self, kind: str, why: str, machine: str) -> None:
        count = self._news.count_to_tell(
            f"{machine} {kind}", kind, monotonic_ms()
        )  # who does both by turns tells no more
        if count:
            log.warning("a client is refused: %s client=%s times=%d", why, machine, count)

    def look(self) -> None:
        """Now and then: what is of no use any more is dropped."""
        self._known.drop_old()
        self._wrong.drop_old(monotonic_ms())

    async def _find(self, signed: _Signed, deadline_ms: int) -> Signer:
        """Together with what others ask in this turn of the loop."""
        loop = asyncio.get_running_loop()
        asked = _Asked(signed, deadline_ms, loop.create_future())
        self._asked.append(asked)
        if len(self._asked) == 1:
            task = loop.create_task(self._ask_all())  # whoever is cancelled, the others get their answers
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        begun_ms = monotonic_ms()
        try:
            async with asyncio.timeout(max(0, deadline_ms - begun_ms) / 1000):
                return await asked.answered
        except TimeoutError:
            raise RequestTimeout("who signed a request", max(0, deadline_ms - begun_ms)) from None

    async def _ask_all(self) -> None:
        """What has gathered by the next turn of the loop."""
        await asyncio.sleep(0)
        asked, self._asked = self._asked, []
        questions: list[list[_Asked]] = [[]]
        size_bytes = 0
        for one in asked:
            size_bytes += len(one.signed[2])
            if questions[-1] and (len(questions[-1]) == ASKED_MAX or size_bytes > ASKED_BYTES_MAX):
                questions.append([])
                size_bytes = len(one.signed[2])
            questions[-1].append(one)
        await asyncio.gather(*map(self._ask, questions))

    async def _ask(self, asked: list[_Asked]) -> None:
        """One question; in halves where it fails for one of them, so that it fails for that one alone."""
        try:
            signers = await self._answers(asked)
        except ZenitError as error:
            if len(asked) > 1 and isinstance(error, _OF_ONE):
                half = len(asked) // 2
                await self._ask(asked[:half])
                await self._ask(asked[half:])
                return
            for one in asked:
                if not one.answered.done():
                    one.answered.set_exception(type(error)(*error.args))
        else:
            for one, signer in zip(asked, signers, strict=True):
                if not one.answered.done():
                    one.answered.set_result(signer)

    async def _answers(self, asked: list[_Asked]) -> list[Signer]:
        """Raises why there are none."""
        rows = tuple((key, signature, len(content)) for key, signature, content in (one.signed for one in asked))
        payload = b"".join(one.signed[2] for one in asked)
        deadline_ms = max(one.deadline_ms for one in asked)
        try:
            reply, _ = await self._backend.call_any_master(CheckSignatures(rows), payload, deadline_ms=deadline_ms)
        except ZenitError:
            raise
        except Exception:
            log.exception("signatures cannot be asked about")
            raise SystemFault("the signature cannot be asked about") from None
        if len(reply.users) != len(asked) or len(reply.delegations) != len(asked):
            raise RemoteProtocolError("a check of signatures was answered with another number of users")
        return [
            Signer(user, delegation) if user else NOBODY
            for user, delegation in zip(reply.users, reply.delegations, strict=True)
        ]


def _digest(signed: _Signed) -> bytes:
    """By which it is remembered: whoever sends much that is wrong fills no memory with it."""
    access_key, signature, content = signed
    return hashlib.sha256(f"{access_key} {signature} ".encode() + content).digest()


def _check(access_key: str, signature: str, signed: bytes) -> None:
    """Before it is asked about together with those of others. Raises AuthenticationFailed."""
    for what, text, length_max in (
        ("access key", access_key, ACCESS_KEY_LENGTH_MAX),
        ("signature", signature, SIGNATURE_LENGTH_MAX),
    ):
        if len(text) > length_max or not (text.isascii() and text.isprintable()):
            raise AuthenticationFailed(HERE, f"its {what}: at most {length_max} printable ASCII characters")
    if len(signed) > SIGNED_BYTES_MAX:
        raise AuthenticationFailed(HERE, f"it signed more than {SIGNED_BYTES_MAX} bytes")
