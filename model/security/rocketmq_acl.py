"""RocketMQ's access lists as users and rules of ours, and what they decide otherwise here. Pure.

RocketMQ 4's plain_acl.yml (ACL 1.0): an account has permissions for named topics and groups, and one for all others. Here that
is a rule for all, and for each named one rules that allow or deny what differs, so that the outcome is the same.

RocketMQ 5's (ACL 2.0), as its tools print them in JSON: of the entries that match, the most specific decides (a name, then the
longest prefix, then any), and of equal ones the deny. Here a deny always wins. Where that changes an outcome, it is named: the
outcome is asked for each name and prefix of the file (`differences`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from ..errors import InvalidParameter
from ..plain_dataclass import dataclass
from .access_table import AccessTable
from .plain_yaml import parse_yaml
from .principals import GIVEN, Match, Rule, RuleEffect, User, UserKind, check_rule, check_user
from .rights import Action, Resource

ACCOUNTS_MAX: Final = 10_000
ENTRIES_MAX: Final = 100_000
QUESTIONS_MAX: Final = 2_000  # of one user
_PUB: Final = frozenset({Action.PUB})
_SUB: Final = frozenset({Action.SUB})
_PERMISSIONS: Final[Mapping[str, frozenset[Action]]] = {
    "DENY": frozenset(),
    "PUB": _PUB,
    "SUB": _SUB,
    "PUB|SUB": _PUB | _SUB,
    "SUB|PUB": _PUB | _SUB,
    "ANY": _PUB | _SUB,
}
_KINDS: Final[Mapping[str, Resource | None]] = {
    "any": None,
    "cluster": Resource.CLUSTER,
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
}
_OCTETS: Final = re.compile(r"(\d{1,3})\.(\d{1,3}|\*)\.(\d{1,3}|\*)\.(\d{1,3}|\*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ImportedAcl:
    """`users`: without keys. `notes`: what has no equal here, a sentence each. `differences`: outcomes that change.

    `secrets`: {user: its secret key or password}, as far as the file has them.
    """

    users: tuple[User, ...]
    notes: tuple[str, ...]
    differences: tuple[str, ...]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _AclEntry:
    """A rule of RocketMQ; `is_default`: of its default policy, which counts where no custom entry matches."""

    rule: Rule
    is_default: bool


def import_acl(text: str) -> ImportedAcl:
    """Reads either kind of file. Raises InvalidParameter."""
    found = _import_entries(text) if text.lstrip().startswith(("{", "[")) else _import_accounts(text)
    if not found.users and not found.notes:
        raise _unknown(text)
    return found


def _unknown(text: str) -> InvalidParameter:
    return InvalidParameter("file", text[:40].strip(), "RocketMQ's plain_acl.yml, or its users and ACLs as JSON")


# ---- ACL 1.0


def _import_accounts(text: str) -> ImportedAcl:
    document = parse_yaml(text)
    if not isinstance(document, dict) or not isinstance(document.get("accounts", []), list | None):
        raise _unknown(text)
    notes = []
    if _listed(document, "globalWhiteRemoteAddresses"):
        notes.append("globalWhiteRemoteAddresses: nobody is let in here without a key, wherever he comes from")
    accounts = document.get("accounts") or []
    if len(accounts) > ACCOUNTS_MAX:
        raise InvalidParameter("accounts", str(len(accounts)), f"at most {ACCOUNTS_MAX}")
    users = tuple(_account(account, notes) for account in accounts)
    return ImportedAcl(_once(users), tuple(notes), (), _secrets(accounts, "accessKey", "secretKey"))


def _account(account: Any, notes: list[str]) -> User:
    if not isinstance(account, dict) or not isinstance(account.get("accessKey"), str):
        raise InvalidParameter("account", str(account)[:80], "accessKey and its permissions")
    name = account["accessKey"]
    if _listed(account, "whiteRemoteAddress"):
        notes.append(f"user {name}: whiteRemoteAddress lets nobody in without a key here")
    if str(account.get("admin", "false")).lower() == "true":
        return check_user(User(name, (), UserKind.SUPER))
    rules = [
        *_permissions(account, Resource.TOPIC, "defaultTopicPerm", "topicPerms"),
        *_permissions(account, Resource.GROUP, "defaultGroupPerm", "groupPerms"),
    ]
    return check_user(User(name, (), rules=tuple(rules)))


def _permissions(account: Mapping[str, Any], resource: Resource, default: str, named: str) -> Iterable[Rule]:
    usual = _permission(account.get(default) or "DENY")
    if usual:
        yield Rule(RuleEffect.ALLOW, usual, resource, Match.ANY, "")
    for line in _listed(account, named):
        name, _, text = line.partition("=")
        given = _permission(text)
        if given - usual:
            yield check_rule(Rule(RuleEffect.ALLOW, given - usual, resource, Match.LITERAL, name.strip()))
        if usual - given:
            yield check_rule(Rule(RuleEffect.DENY, usual - given, resource, Match.LITERAL, name.strip()))


def _permission(text: Any) -> frozenset[Action]:
    found = _PERMISSIONS.get(str(text).replace(" ", "").upper())
    if found is None:
        raise InvalidParameter("permission", str(text)[:80], "DENY, PUB, SUB, PUB|SUB or ANY")
    return found


def _listed(document: Mapping[str, Any], name: str) -> list[str]:
    value = document.get(name)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in values):
        raise InvalidParameter(name, str(value)[:80], "a list of texts")
    return values


# ---- ACL 2.0


def _import_entries(text: str) -> ImportedAcl:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter("file", text[:40], "JSON with users and ACLs, as RocketMQ's tools print them") from error
    given = document if isinstance(document, list) else [document]
    objects = [each for one in given for each in _objects(one)]
    notes: list[str] = []
    kinds = {one["username"]: one for one in objects if isinstance(one.get("username"), str)}
    entries: dict[str, list[_AclEntry]] = {name: [] for name in kinds}
    for one in objects:
        if "subject" in one:
            entries.setdefault(_subject(one["subject"]), []).extend(_entries_of(one, notes))
    if len(entries) > ACCOUNTS_MAX or sum(map(len, entries.values())) > ENTRIES_MAX:
        raise InvalidParameter("file", f"{len(entries)} users", f"{ACCOUNTS_MAX} users, {ENTRIES_MAX} entries at most")
    users, changed = [], []
    for name, own in entries.items():
        kind = str(kinds.get(name, {}).get("userType", "Normal")).lower()
        user = check_user(
            User(
                name,
                (),
                UserKind.SUPER if kind == "super" else UserKind.NORMAL,
                disabled=str(kinds.get(name, {}).get("userStatus", "enable")).lower() == "disable",
                rules=tuple(dict.fromkeys(entry.rule for entry in own)),
            )
        )
        users.append(user)
        if user.kind is UserKind.NORMAL and not user.disabled:
            changed += differences(user, own)
    secrets = _secrets(kinds.values(), "username", "password")
    return ImportedAcl(tuple(users), tuple(notes), tuple(changed), secrets)


def _secrets(owners: Iterable[Mapping[str, Any]], name: str, secret: str) -> dict[str, str]:
    return {owner[name]: str(owner[secret]) for owner in owners if owner.get(secret)}


def _objects(one: Any) -> list[dict[str, Any]]:
    """Users and ACLs, alone or below "users" and "acls"."""
    if not isinstance(one, dict):
        raise InvalidParameter("file", str(one)[:40], "objects with a username, or a subject and its policies")
    if not one.keys() & {"users", "acls"}:
        return [one]
    found = [each for name in ("users", "acls") for each in _list_of(one, name)]
    return [each for each in found if isinstance(each, dict)]


def _entries_of(acl: Mapping[str, Any], notes: list[str]) -> Iterable[_AclEntry]:
    subject = _subject(acl["subject"])
    for policy in _list_of(acl, "policies"):
        is_default = isinstance(policy, dict) and str(policy.get("policyType", "Custom")).lower() == "default"
        for entry in _list_of(policy, "entries"):
            if not isinstance(entry, dict):
                raise InvalidParameter("entries", str(entry)[:80], "objects")
            rule = _rule(subject, entry, notes)
            if rule is not None:
                yield _AclEntry(rule, is_default)


def _rule(subject: str, entry: Mapping[str, Any], notes: list[str]) -> Rule | None:
    resource, match, name = _resource(entry.get("resource"))
    if resource == "namespace":
        notes.append(f"user {subject}: an entry for namespace {name or '*'} is left out: there are no namespaces here")
        return None
    decision = str(entry.get("decision", "Allow")).lower()
    if decision not in ("allow", "deny"):
        raise InvalidParameter("decision", decision[:80], "Allow or Deny")
    kind = _KINDS[resource]
    if kind is Resource.CLUSTER:
        match, name = Match.ANY, ""  # a cluster has one
    actions: set[Action] = set()
    for text in _list_of(entry, "actions"):
        actions |= _actions(str(text).lower())
    addresses = tuple(network for text in _list_of(entry, "sourceIps") for network in _networks(str(text)))
    return check_rule(Rule(RuleEffect(decision), frozenset(actions), kind, match, name, addresses))


def _actions(text: str) -> frozenset[Action]:
    if text in ("all", "any"):
        return GIVEN
    for action in GIVEN:
        if action.value == text:
            return frozenset({action})
    raise InvalidParameter("actions", text[:80], "All, Pub, Sub, Create, Update, Delete, Get or List")


def _resource(value: Any) -> tuple[str, Match, str]:
    """ "Topic:or*" -> ("topic", PREFIX, "or")."""
    if isinstance(value, dict):
        suffix = {"PREFIXED": "*", "ANY": ""}.get(str(value.get("resourcePattern", "LITERAL")).upper(), "")
        name = value.get("resourceName") or "*"
        value = f"{value.get('resourceType')}:{name}{suffix if name != '*' else ''}"
    if value == "*":
        return "any", Match.ANY, ""
    kind, _, name = str(value).partition(":")
    kind = kind.lower()
    if kind not in _KINDS and kind != "namespace":
        raise InvalidParameter("resource", str(value)[:80], "Topic:NAME, Group:NAME, Cluster:NAME or *")
    if name in ("", "*"):
        return kind, Match.ANY, ""
    if name.endswith("*"):
        return kind, Match.PREFIX, name.removesuffix("*")
    return kind, Match.LITERAL, name


def _networks(text: str) -> list[str]:
    """RocketMQ's "192.168.*.*" as a network; "*" is everywhere. Ranges in one octet have no equal here."""
    if text in ("", "*", "*.*.*.*"):
        return []
    if "*" not in text:
        return [text]
    found = _OCTETS.fullmatch(text)
    octets = list(found.groups()) if found else []
    known = octets.index("*") if "*" in octets else 0
    if not known or any(octet != "*" for octet in octets[known:]):
        raise InvalidParameter("sourceIps", text[:80], 'an address, a network, or as "192.168.*.*"')
    return [".".join([*octets[:known], *["0"] * (4 - known)]) + f"/{8 * known}"]


def _subject(value: Any) -> str:
    kind, _, name = str(value).partition(":")
    if kind.lower() != "user" or not name:
        raise InvalidParameter("subject", str(value)[:80], "User:NAME")
    return name


def _list_of(document: Any, name: str) -> list[Any]:
    value = (document.get(name) if isinstance(document, dict) else None) or []
    if isinstance(value, str):
        return value.split(",")
    if not isinstance(value, list):
        raise InvalidParameter(name, str(value)[:80], "a list")
    return value


def _once(users: tuple[User, ...]) -> tuple[User, ...]:
    names = [user.name for user in users]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter("accessKey", name, "one account for each")
    return users


# ---- what comes out otherwise


def differences(user: User, entries: list[_AclEntry]) -> list[str]:
    """Of each name and prefix in the entries: what RocketMQ allows and a rule here denies, a sentence each.

    The reverse only follows from a right that RocketMQ gives on its own: who may send or receive here may see the topic too.
    """
    table = AccessTable([user], [])
    found: list[str] = []
    for number, (resource, name, address) in enumerate(_asked(entries)):
        if number >= QUESTIONS_MAX:
            return [*found, f"user {user.name}: only the first {QUESTIONS_MAX} names and networks were compared"]
        for action in sorted({each for entry in entries for each in entry.rule.actions}, key=lambda each: each.value):
            theirs = _decided(entries, action, resource, name, address)
            ours = table.decide(user, action, resource, name, address)
            if theirs and not ours.allowed:
                origin = f" from {address}" if address else ""
                found.append(
                    f"user {user.name}: {action.value} on {resource.value}:{name or '*'}{origin}: RocketMQ allows it, "
                    f"here {ours.reason!r} denies it"
                )
    return found


def _asked(entries: list[_AclEntry]) -> Iterable[tuple[Resource, str, str]]:
    """Each name in the entries, one that begins with each prefix, and any other, from each network and from elsewhere."""
    addresses = ["", *dict.fromkeys(each.partition("/")[0] for entry in entries for each in entry.rule.addresses)]
    asked: dict[tuple[Resource, str], None] = {}
    for entry in entries:
        rule = entry.rule
        kinds = (rule.resource,) if rule.resource is not None else (Resource.TOPIC, Resource.GROUP, Resource.CLUSTER)
        for kind in kinds:
            name = (
                f"{rule.name}~"
                if rule.match is Match.PREFIX
                else rule.name or ("" if kind is Resource.CLUSTER else "~")
            )
            asked[kind, name] = None
    for kind, name in asked:
        for address in addresses:
            yield kind, name, address


def _decided(entries: list[_AclEntry], action: Action, resource: Resource, name: str, address: str) -> bool:
    """RocketMQ's decision: custom entries before default ones, the most specific first, of equal ones the deny."""
    matching = [entry for entry in entries if entry.rule.covers(action, resource, name, address)]
    if not matching:
        return False
    first = min(matching, key=_precedence)
    return first.rule.effect is RuleEffect.ALLOW


def _precedence(entry: _AclEntry) -> tuple[bool, bool, int, int, bool]:
    rule = entry.rule
    order = {Match.LITERAL: 0, Match.PREFIX: 1, Match.ANY: 2}[rule.match]
    return entry.is_default, rule.resource is None, order, -len(rule.name), rule.effect is RuleEffect.ALLOW
