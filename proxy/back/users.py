"""Who signed a request of a foreign client, and what that user may: asked of the cluster, and kept for some seconds.

Where the proxy has no key, the cluster has no security, and everybody is anonymous.
"""

from __future__ import annotations

from typing import Final

from ...model.errors import AccessDenied, AuthenticationFailed
from ...model.security.rights import Action, Resource
from ...remoting.commands import CheckSignatures, ExplainRight
from .backend import Backend
from .recent_answers import RecentAnswers

SIGNED_MS: Final = 10_000
RIGHTS_MS: Final = 10_000
KNOWN_MAX: Final = 50_000
ANONYMOUS: Final = ""

_Signed = tuple[str, str, bytes]
_Asked = tuple[str, Action, Resource, str, str]


class Users:
    """Of one process; on the event loop. `is_secured`: False = there are no users."""

    def __init__(self, backend: Backend, *, is_secured: bool, is_required: bool) -> None:
        """`is_required`: who does not sign is refused; else that one has the rights of the proxy's own user."""
        self._backend = backend
        self._is_required = is_required
        self.is_secured = is_secured
        self._users: RecentAnswers[_Signed, str] = RecentAnswers(self._check, known_ms=SIGNED_MS, size_max=KNOWN_MAX)
        self._rights: RecentAnswers[_Asked, bool] = RecentAnswers(self._explain, known_ms=RIGHTS_MS, size_max=KNOWN_MAX)

    async def user_of(self, access_key: str, signature: str, signed: bytes, *, address: str, deadline_ms: int) -> str:
        """The user whose secret made the signature; "" = anonymous. `address`: of the client. Raises AuthenticationFailed."""
        if not self.is_secured:
            return ANONYMOUS
        if not access_key:
            if self._is_required:
                raise AuthenticationFailed(address, "its request is not signed")
            return ANONYMOUS
        user = await self._users.get((access_key, signature, signed), deadline_ms=deadline_ms)
        if not user:
            raise AuthenticationFailed(address, f"the signature of access key {access_key[:64]} is wrong")
        return user

    async def check(
        self, user: str, action: Action, resource: Resource, name: str, address: str, *, deadline_ms: int
    ) -> None:
        """Raises AccessDenied if the user may not do that from there. Anonymous clients may what the proxy may."""
        if user == ANONYMOUS:
            return
        if not await self._rights.get((user, action, resource, name, address), deadline_ms=deadline_ms):
            raise AccessDenied(user, action.value, f"{resource.value}:{name}")

    async def _check(self, signed: _Signed, deadline_ms: int) -> str:
        access_key, signature, content = signed
        request = CheckSignatures(((access_key, signature, len(content)),))
        name = await self._backend.any_master(deadline_ms=deadline_ms)
        reply, _ = await self._backend.call_master(name, request, content, deadline_ms=deadline_ms)
        return reply.users[0] if reply.users else ""

    async def _explain(self, asked: _Asked, deadline_ms: int) -> bool:
        user, action, resource, name, address = asked
        request = ExplainRight(user, action.value, resource.value, name, address)
        broker_name = await self._backend.any_master(deadline_ms=deadline_ms)
        reply, _ = await self._backend.call_master(broker_name, request, deadline_ms=deadline_ms)
        return reply.allowed
