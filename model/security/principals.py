"""Users, roles and the rules that they are given: values with their limits. Pure.

A user has one or two keys, so that one can be changed while the other works. Rules belong to a user or to a role; a user's
rules are its own and those of its roles.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from typing import Final

from ..errors import InvalidParameter
from ..plain_dataclass import dataclass
from .rights import Action, Resource
from .sealed_secrets import check_sealed

NAME_LENGTH_MAX: Final = 64
KEYS_MAX: Final = 2
SECRETS_MAX: Final = 2
ROLES_MAX: Final = 32
RULES_MAX: Final = 256
ADDRESSES_MAX: Final = 64
RESOURCE_LENGTH_MAX: Final = 255
ANY: Final = "*"

GIVEN: Final = frozenset(Action) - {Action.SERVE}
"""The actions that a rule can name."""

GIVEN_ON: Final = frozenset(Resource) - {Resource.REPLICA}
"""The resources that a rule can name."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_KEY: Final = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}", re.ASCII)


class UserKind(enum.Enum):
    """What a user is."""

    NORMAL = "normal"
    """May do what its rules say."""
    SUPER = "super"
    """May do everything that clients do."""
    SERVER = "server"
    """A name server, broker or controller: may do what servers do, as the replica that it is bound to."""


class RuleEffect(enum.Enum):
    """What a rule says."""

    ALLOW = "allow"
    DENY = "deny"


class Match(enum.Enum):
    """How a rule names resources."""

    LITERAL = "literal"
    PREFIX = "prefix"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a policy. `resource` None: of every kind. `name`: as `match` reads it; "" with ANY.

    `addresses`: networks ("10.0.0.0/8"), from which it applies; empty = from everywhere.
    """

    effect: RuleEffect
    actions: frozenset[Action]
    resource: Resource | None
    match: Match
    name: str
    addresses: tuple[str, ...] = ()

    def covers(self, action: Action, resource: Resource, name: str, address: str) -> bool:
        """Whether it speaks of this action on this resource, asked for from `address` (an IP address)."""
        if action not in self.actions or self.resource not in (None, resource):
            return False
        if self.match is Match.LITERAL and self.name != name:
            return False
        if self.match is Match.PREFIX and not name.startswith(self.name):
            return False
        return not self.addresses or _is_within(address, self.addresses)

    def __str__(self) -> str:
        actions = ",".join(sorted(action.value for action in self.actions))
        kind = self.resource.value if self.resource is not None else ANY
        name = {Match.LITERAL: self.name, Match.PREFIX: f"{self.name}{ANY}", Match.ANY: ANY}[self.match]
        origin = f" from {','.join(self.addresses)}" if self.addresses else ""
        return f"{self.effect.value} {actions} on {kind}:{name}{origin}"


@dataclass(frozen=True, slots=True)
class Binding:
    """Which replica a server is; ANY in a place: whichever. A name server or controller has "" as its group."""

    cluster: str
    group: str
    replica: str


@dataclass(frozen=True, slots=True)
class UserLimits:
    """What a user may take of one broker; 0 = unlimited. Bytes and requests a second, `busy_ratio` of the loop's time."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    busy_ratio: float = 0.0
    connections: int = 0


NO_LIMITS: Final = UserLimits()


@dataclass(frozen=True, slots=True)
class User:
    """`keys`: public CURVE keys as Z85 text, the newest first. `binding`: of a SERVER. `secrets`: sealed, the newest first:
    with one of them a client without a key pair signs what it sends through a gateway."""

    name: str
    keys: tuple[str, ...]
    kind: UserKind = UserKind.NORMAL
    disabled: bool = False
    roles: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    binding: Binding | None = None
    limits: UserLimits = NO_LIMITS
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UserRole:
    """Rules under one name, for several users."""

    name: str
    rules: tuple[Rule, ...]


def check_user(user: User) -> User:
    """The user. Raises InvalidParameter for a name, key, rule, binding or limit that is none."""
    check_name("user", user.name)
    if len(user.keys) > KEYS_MAX or len(set(user.keys)) != len(user.keys):
        raise InvalidParameter("keys", str(len(user.keys)), f"at most {KEYS_MAX} different keys")
    for key in user.keys:
        check_public_key(key)
    if len(user.roles) > ROLES_MAX:
        raise InvalidParameter("roles", str(len(user.roles)), f"at most {ROLES_MAX}")
    for role in user.roles:
        check_name("role", role)
    if len(user.secrets) > SECRETS_MAX or (user.secrets and user.kind is UserKind.SERVER):
        raise InvalidParameter("secrets", str(len(user.secrets)), f"at most {SECRETS_MAX}, and none of a server")
    for sealed in user.secrets:
        check_sealed(sealed)
    if (user.kind is UserKind.SERVER) != (user.binding is not None):
        raise InvalidParameter("binding", user.name, "a server names its cluster, group and replica, others none")
    limits = user.limits
    if (
        min(limits.bytes_in, limits.bytes_out, limits.requests, limits.connections) < 0
        or not 0 <= limits.busy_ratio <= 1
    ):
        raise InvalidParameter("limits", user.name, "numbers of at least 0; busy_ratio from 0 to 1")
    _check_rules(user.rules)
    return user


def check_role(role: UserRole) -> UserRole:
    """The role. Raises InvalidParameter."""
    check_name("role", role.name)
    _check_rules(role.rules)
    return role


def check_rule(rule: Rule) -> Rule:
    """The rule. Raises InvalidParameter."""
    if not rule.actions or not rule.actions <= GIVEN:
        raise InvalidParameter("actions", str(rule), "some of " + ", ".join(sorted(each.value for each in GIVEN)))
    if rule.resource is not None and rule.resource not in GIVEN_ON:
        raise InvalidParameter("resource", str(rule), "one of " + ", ".join(sorted(each.value for each in GIVEN_ON)))
    if (rule.match is Match.ANY) != (rule.name == "") or len(rule.name) > RESOURCE_LENGTH_MAX:
        raise InvalidParameter(
            "name", rule.name, f'1 to {RESOURCE_LENGTH_MAX} characters, a prefix with "*" behind it, or "*"'
        )
    if len(rule.addresses) > ADDRESSES_MAX:
        raise InvalidParameter("addresses", str(len(rule.addresses)), f"at most {ADDRESSES_MAX}")
    for network in rule.addresses:
        _network(network)
    return rule


def check_public_key(key: str) -> str:
    """A public key as Z85 text. Raises InvalidParameter."""
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise InvalidParameter("public key", str(key)[:48], "40 characters of Z85, as `zenit key show` prints it")
    return key


def check_name(what: str, name: object) -> str:
    """The name of a user or role. Raises InvalidParameter."""
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or _NAME.fullmatch(name) is None:
        expected = f"letters, digits, '.', '_' and '-', 1 to {NAME_LENGTH_MAX}, a letter or digit first"
        raise InvalidParameter(what, str(name)[:80], expected)
    return name


def _check_rules(rules: tuple[Rule, ...]) -> None:
    if len(rules) > RULES_MAX:
        raise InvalidParameter("rules", str(len(rules)), f"at most {RULES_MAX}")
    for rule in rules:
        check_rule(rule)


def _is_within(address: str, networks: tuple[str, ...]) -> bool:
    try:
        asked = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = asked.ipv4_mapped if isinstance(asked, ipaddress.IPv6Address) else None
    return any((mapped or asked) in _network(network) for network in networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidParameter("address", text, 'an IP address or a network, "10.0.0.0/8"') from error
