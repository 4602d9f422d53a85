"""Who signed a request of a foreign client: asked of the cluster, many at a time, and kept for some seconds.

Where the proxy has no key, the cluster has no security, and everybody is anonymous.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ...model.errors import AuthenticationFailed, RemoteProtocolError, ZenitError
from ...model.plain_dataclass import dataclass
from ...remoting.commands import CheckSignatures
from .backend import Backend
from .recent_answers import RecentAnswers

KNOWN_MS: Final = 60_000
"""What is signed has the second of its signing in it: it is asked about once."""
KNOWN_MAX: Final = 50_000
ASKED_MAX: Final = 256
SIGNED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Over remoting a message's body is signed with it."""
KEPT_BYTES_MAX: Final = 1024
"""What was signed is kept where it is no longer: longer ones are requests that come once."""
ASKED_BYTES_MAX: Final = 4 * 1024 * 1024
"""In one question, if not one alone is longer."""
ANONYMOUS: Final = ""

_Signed = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class Signer:
    """`user`: "" = anonymous. `delegation`: by which the proxy acts for it."""

    user: str
    delegation: str


NOBODY: Final = Signer(ANONYMOUS, "")


class Users:
    """Of one process; on the event loop. `is_secured`: False = there are no users."""

    def __init__(self, backend: Backend, *, is_secured: bool, is_required: bool) -> None:
        """`is_required`: who does not sign is refused; else that one has the rights of the proxy's own user."""
        self._backend = backend
        self._is_required = is_required
        self.is_secured = is_secured
        self._known: RecentAnswers[_Signed, Signer] = RecentAnswers(self._find, known_ms=KNOWN_MS, size_max=KNOWN_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: list[tuple[_Signed, asyncio.Future[Signer]]] = []

    async def signer(self, access_key: str, signature: str, signed: bytes, *, address: str, deadline_ms: int) -> Signer:
        """Who made the signature of `signed`. `address`: of the client. Raises AuthenticationFailed, SecretsNotKept, and why no
        server answers."""
        if not self.is_secured:
            return NOBODY
        if not access_key:
            if self._is_required:
                raise AuthenticationFailed(address, "its request is not signed")
            return NOBODY
        if len(signed) > SIGNED_BYTES_MAX:
            raise AuthenticationFailed(address, f"it signed more than {SIGNED_BYTES_MAX} bytes")
        asked = access_key, signature, signed
        if len(signed) > KEPT_BYTES_MAX:
            found = await self._find(asked, deadline_ms)
        else:
            found = await self._known.get(asked, deadline_ms=deadline_ms)
        if not found.user:
            raise AuthenticationFailed(address, f"the signature of access key {access_key[:64]} is wrong")
        return found

    async def _find(self, signed: _Signed, deadline_ms: int) -> Signer:
        """Together with what others ask in this turn of the loop."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Signer] = loop.create_future()
        self._asked.append((signed, answered))
        if len(self._asked) == 1:
            task = loop.create_task(self._ask_all(deadline_ms))  # whoever is cancelled, the others get their answers
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answered

    async def _ask_all(self, deadline_ms: int) -> None:
        """What has gathered by the next turn of the loop."""
        await asyncio.sleep(0)
        asked, self._asked = self._asked, []
        begin = size_bytes = 0
        for end, ((_, _, content), _) in enumerate(asked):
            size_bytes += len(content)
            if end > begin and (end - begin == ASKED_MAX or size_bytes > ASKED_BYTES_MAX):
                await self._ask(asked[begin:end], deadline_ms)
                begin, size_bytes = end, len(content)
        await self._ask(asked[begin:], deadline_ms)

    async def _ask(self, asked: list[tuple[_Signed, asyncio.Future[Signer]]], deadline_ms: int) -> None:
        rows = tuple((key, signature, len(content)) for (key, signature, content), _ in asked)
        payload = b"".join(content for (_, _, content), _ in asked)
        try:
            name = await self._backend.any_master(deadline_ms=deadline_ms)
            reply, _ = await self._backend.call_master(name, CheckSignatures(rows), payload, deadline_ms=deadline_ms)
            if len(reply.users) != len(asked) or len(reply.delegations) != len(asked):
                raise RemoteProtocolError("a check of signatures was answered with another number of users")
            for (_, answered), user, delegation in zip(asked, reply.users, reply.delegations, strict=True):
                if not answered.done():
                    answered.set_result(Signer(user, delegation))
        except ZenitError as error:
            for _, answered in asked:
                if not answered.done():
                    answered.set_exception(type(error)(*error.args))
