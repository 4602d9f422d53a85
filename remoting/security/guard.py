"""May the user of a connection make this request: the rights in its row, decided by the access table. Pure.

Cost where the decision is known: a dictionary access for the user and one for each right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...model.errors import AccessDenied
from ...model.errors.security import ANYTHING
from ...model.plain_dataclass import dataclass
from ...model.security.access_table import AccessDecision, AccessTable
from ...model.security.principals import User
from ...model.security.rights import LISTED, Resource, Right, as_gateway
from ..commands import Request
from .admission import OPEN_KEY

UNKNOWN: Final = "(unknown)"
"""The user in an error where the connection's key has no user any more."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused: for the audit and the events. `decision` None: the key has no user."""

    key: str
    user: str
    address: str
    request: str
    right: Right | None
    name: str
    decision: AccessDecision | None


def key_for(key: str, delegation: str) -> str:
    """Stands for the key of the user for whom the owner of `key` brings a delegation; `key` itself without one."""
    return f"{key}\n{delegation}" if delegation else key


class Guard:
    """Decides for one server. `group`: the broker name of the server, "" if it is no broker."""

    def __init__(self, table: AccessTable, *, group: str = "", open_user: str = "") -> None:
        """`open_user`: the name of who comes by the open port."""
        self.table = table
        self._open_user = open_user
        self._group = group
        self.delegated: Callable[[str, str], str] = _nobody
        """(name of a gateway's user, delegation) -> the name of the user that it acts for, "" if it may not."""

    @property
    def asks_address(self) -> bool:
        """Whether decisions depend on the address of the sender."""
        return self.table.asks_address

    def knows_too_little(self, refusal: Refusal) -> bool:
        """Whether the address of the sender would have mattered, and is not known: it came when no rule asked for it."""
        return self.table.asks_address and not refusal.address and refusal.decision is not None

    def user_of(self, key: str) -> User | None:
        """The user of a connection, or for whom a request came by it; None if the key is known no more. Any thread."""
        if key == OPEN_KEY:
            return self.table.users.get(self._open_user)
        user = self.table.user_of(key)
        if user is None and "\n" in key:
            key, _, delegation = key.partition("\n")
            gateway = self.user_of(key)
            return None if gateway is None else self.table.users.get(self.delegated(gateway.name, delegation))
        return user

    def check(self, key: str, address: str, request: Request) -> Refusal | None:
        """None if the owner of `key`, who sends from `address`, has all rights that the request needs: so has the user for whom
        a gateway asks, and the gateway has that of one. The user's address is the gateway's: where the user is nobody knows."""
        if "\n" in key:
            refusal = self._check_gateway(key.partition("\n")[0], address, request)
            if refusal is not None:
                return refusal
        user = self.user_of(key)
        if user is None or user.disabled:
            return Refusal(
                key, user.name if user is not None else UNKNOWN, address, type(request).__name__, None, "", None
            )
        decide = self.table.decide
        for right in request.needs:
            if right.field == LISTED:
                continue
            for name in self._names(right, request):
                decision = decide(user, right.action, right.resource, name, address)
                if not decision.allowed:
                    return Refusal(key, user.name, address, type(request).__name__, right, name, decision)
        return None

    def _check_gateway(self, key: str, address: str, request: Request) -> Refusal | None:
        gateway = self.user_of(key)
        if gateway is None or gateway.disabled:
            return Refusal(key, UNKNOWN, address, type(request).__name__, None, "", None)
        right = as_gateway()
        decision = self.table.decide(gateway, right.action, right.resource, "", address)
        return (
            None
            if decision.allowed
            else Refusal(key, gateway.name, address, type(request).__name__, right, "", decision)
        )

    def _names(self, right: Right, request: Request) -> Iterable[str]:
        """The names of what the request is about: one, or as many as its field lists."""
        if right.resource is Resource.REPLICA:
            group = getattr(request, right.field) if right.field else self._group
            return (f"{group}/{getattr(request, right.replica_field)}" if right.replica_field else group,)
        if not right.field:
            return ("",)
        value = getattr(request, right.field)
        if isinstance(value, str):
            return (value,) if value or not right.is_optional else ()
        return {_first(each) for each in value}


def _nobody(_gateway: str, _delegation: str) -> str:
    """Where no secrets are kept nobody acts for others."""
    return ""


def _first(element: object) -> str:
    """A text, or the first of a row's values, or of the rows in it."""
    while isinstance(element, tuple):
        element = element[0] if element else ""
    return str(element)


def denied(refusal: Refusal) -> AccessDenied:
    """What the sender is told: the same whether or not the resource exists."""
    if refusal.right is None:
        return AccessDenied(refusal.user, "ask", ANYTHING)
    resource = refusal.right.resource.value
    return AccessDenied(
        refusal.user, refusal.right.action.value, f"{resource}:{refusal.name}" if refusal.name else resource
    )
