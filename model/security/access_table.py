"""The decision: may this user do this, and by which rule. Pure.

Kafka's rule over RocketMQ's nouns. A disabled user: no. A super user: yes. A matching deny: no. A matching allow: yes. Else no.
So the order of rules never matters.

What belongs to a group follows from the rights on it: its retry and dead-letter topics. Traces may be sent by everybody
whom the cluster knows. So may replies, by a request that needs no right and stores them nowhere else. The group of producers
that name none is everybody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ..names import COMMAND_GROUP, DEAD_LETTER_PREFIX, DEFAULT_PRODUCER_GROUP, RETRY_PREFIX, TRACE_TOPIC
from ..plain_dataclass import dataclass
from ..topics.light_queues import LIGHT_PREFIX, settled_topic
from .principals import ANY, NO_LIMITS, Rule, RuleEffect, User, UserKind, UserRole
from .rights import Action, Resource

DISABLED: Final = "the user is disabled"
SUPER: Final = "a super user"
SERVER: Final = "a server"
NO_RULE: Final = "no rule allows it"
NOT_BOUND: Final = "the server is bound to another replica"
ONLY_SERVERS: Final = "only servers may"
EVERYBODY: Final = "everybody may"

DECISIONS_MAX: Final = 100_000
REMEMBERED_NAME_MAX: Final = 255
"""The longest name that anything can have. Decisions about longer ones are not kept: a request may be 1 MiB of name."""

_SEEN: Final = (Action.GET, Action.PUB, Action.SUB, Action.UPDATE, Action.DELETE)
_GIVEN_BY: Final[Mapping[Action, tuple[Action, ...]]] = {Action.GET: _SEEN, Action.LIST: (Action.LIST, *_SEEN)}
"""Who may send to a topic may see it too, by the same rule: which actions, if allowed, allow another. A deny is of its own."""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """`reason`: why; `rule`: which one decided, if one did, and `of`: the user or role that has it."""

    allowed: bool
    reason: str
    rule: Rule | None = None
    of: str = ""


class AccessTable:
    """Users by key and name, with all their rules. It never changes; a change makes a new table."""

    def __init__(self, users: Iterable[User], roles: Iterable[UserRole], *, version: int = 0) -> None:
        """Of two users with one key the first has it: which comes from the cluster's own file, before what others wrote."""
        self.version = version
        self.users: Mapping[str, User] = {user.name: user for user in users}
        self.roles: Mapping[str, UserRole] = {role.name: role for role in roles}
        self._by_key: dict[str, User] = {}
        for user in self.users.values():
            for key in user.keys:
                self._by_key.setdefault(key, user)
        self._decided: dict[tuple[str, Action, Resource, str, str], AccessDecision] = {}
        self.has_limits = any(user.limits != NO_LIMITS for user in self.users.values())
        self.asks_address = any(rule.addresses for user in self.users.values() for _, rule in self.rules_of(user))

    def user_of(self, key: str) -> User | None:
        """The user who has this public key (Z85)."""
        return self._by_key.get(key)

    def server_keys(self, group: str, replica: str) -> tuple[str, ...]:
        """The public keys of the servers that may be this replica, or, of ANY, any replica of the group."""
        return tuple(
            key
            for user in self.users.values()
            if user.binding is not None
            and not user.disabled
            and user.binding.group in (ANY, group)
            and (replica == ANY or user.binding.replica in (ANY, replica))
            for key in user.keys
        )

    def gives_the_same(self, other: AccessTable, name: str) -> bool:
        """Whether the user of this name has the same keys, roles and rules in both tables."""
        user = self.users.get(name)
        return user == other.users.get(name) and all(
            self.roles.get(role) == other.roles.get(role) for role in (user.roles if user is not None else ())
        )

    def rules_of(self, user: User) -> Iterable[tuple[str, Rule]]:
        """(user or role, rule) of all that apply to a user."""
        for rule in user.rules:
            yield user.name, rule
        for name in user.roles:
            role = self.roles.get(name)
            for rule in role.rules if role is not None else ():
                yield f"role {name}", rule

    def decide(self, user: User, action: Action, resource: Resource, name: str, address: str = "") -> AccessDecision:
        """May `user` do this to the resource `name` from this IP address? Remembered until the table changes."""
        if len(name) > REMEMBERED_NAME_MAX:
            return self._decide(user, action, resource, name, address)
        asked = user.name, action, resource, name, address if self.asks_address else ""
        known = self._decided.get(asked)
        if known is None:
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            known = self._decided[asked] = self._decide(user, action, resource, name, address)
        return known

    def _decide(self, user: User, action: Action, resource: Resource, name: str, address: str) -> AccessDecision:
        if user.disabled:
            return AccessDecision(False, DISABLED)
        if action is Action.SERVE:
            return _decide_server(user, resource, name)
        if user.kind is UserKind.SUPER:
            return AccessDecision(True, SUPER)
        if user.kind is UserKind.SERVER:
            return AccessDecision(resource is not Resource.SECURITY or action in (Action.GET, Action.LIST), SERVER)
        if _is_everybodys(action, resource, name):
            return AccessDecision(True, EVERYBODY)
        resource, name = _owner(resource, name)
        allowed = AccessDecision(False, NO_RULE)
        for of, rule in self.rules_of(user):
            if rule.effect is RuleEffect.DENY:
                if rule.covers(action, resource, name, address):
                    return AccessDecision(False, str(rule), rule, of)
            elif any(rule.covers(each, resource, name, address) for each in _GIVEN_BY.get(action, (action,))):
                allowed = AccessDecision(True, str(rule), rule, of)
        return allowed


def _decide_server(user: User, resource: Resource, name: str) -> AccessDecision:
    if user.binding is None:
        return AccessDecision(False, ONLY_SERVERS)
    group, _, replica = name.partition("/")
    if resource is Resource.REPLICA and (
        user.binding.group not in (ANY, group) or (replica and user.binding.replica not in (ANY, replica))
    ):
        return AccessDecision(False, NOT_BOUND)
    return AccessDecision(True, SERVER)


def _is_everybodys(action: Action, resource: Resource, name: str) -> bool:
    """Whether everybody may send there, or be a producer of this group, or learn which brokers may have light queues: all."""
    if action is Action.GET:
        return resource is Resource.TOPIC and name == LIGHT_PREFIX
    if action is not Action.PUB:
        return False
    if resource is Resource.GROUP:
        return name in (DEFAULT_PRODUCER_GROUP, COMMAND_GROUP)
    return resource is Resource.TOPIC and name == TRACE_TOPIC


def _owner(resource: Resource, name: str) -> tuple[Resource, str]:
    """The group of a retry or dead-letter topic, on whose rights the topic's rest; the parent of a lite topic's queue."""
    if resource is Resource.TOPIC:
        for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
            if name.startswith(prefix):
                return Resource.GROUP, name.removeprefix(prefix)
        return resource, settled_topic(name)
    return resource, name
