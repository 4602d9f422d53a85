"""Users, roles and rules that are believed: rows of other servers, the trusted file."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from zenitmq.broker.audit.audit_log import decode_entry, encode_entry
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.access_rows import AccessRows, parse_rows
from zenitmq.model.security.principals import Binding, Match, Rule, RuleEffect, User, UserKind, UserLimits, UserRole
from zenitmq.model.security.rights import Action, Resource
from zenitmq.model.security.rocketmq_acl import import_acl
from zenitmq.model.security.row_codec import RowKind, SecurityRow, decode_row, encode_row, row_of
from zenitmq.model.security.trusted_file import StaticRow, encode_trusted, parse_trusted

from .mutation import document_bytes, mutated, mutated_document
from .target import Target

_RULES: Final = (
    Rule(RuleEffect.ALLOW, frozenset({Action.PUB, Action.SUB}), Resource.TOPIC, Match.PREFIX, "or", ("10.0.0.0/8",)),
    Rule(RuleEffect.DENY, frozenset({Action.GET}), None, Match.ANY, ""),
)
_USER: Final = User(
    "app", ("a" * 40, "b" * 40), disabled=True, roles=("readers",), rules=_RULES, limits=UserLimits(5, busy_ratio=0.5)
)
_SERVER: Final = User("b0", ("c" * 40,), UserKind.SERVER, binding=Binding("zenit", "broker-a", "*"))
SECURITY_ROWS: Final = (
    row_of(_USER, 1_700_000_000_000),
    row_of(_SERVER, 5),
    row_of(UserRole("readers", _RULES), 6),
    SecurityRow(RowKind.USER, "gone", 1_700_000_000_001, None),
)
_TEXT: Final = encode_trusted([StaticRow(_SERVER, ("127.0.0.1:9876", "[::1]:9878")), StaticRow(_USER)])


def _rows(draw: Random) -> bytes:
    """Lines of them."""
    lines = []
    for _ in range(draw.choice((1, 2, 4))):
        document: Any = json.loads(encode_row(draw.choice(SECURITY_ROWS)))
        lines.append(document_bytes(mutated_document(document, draw), draw).replace(b"\n", b" "))
    return b"\n".join(lines)


def check_rows(data: bytes, draw: Random) -> None:
    """What is taken is told as the same row, and makes a table that decides."""
    rows, refused = parse_rows(data.decode("utf-8", "replace").split("\n"))
    for row in rows:
        assert decode_row(encode_row(row)) == row
    known = AccessRows()
    known.merge(rows)
    other = AccessRows()
    other.merge(reversed(rows))
    assert other.digests() == known.digests()
    table = known.table()
    for user in table.users.values():
        table.decide(user, draw.choice(list(Action)), draw.choice(list(Resource)), "orders", "10.0.0.1")
    if refused and not rows:
        raise refused[0]


def _trusted(draw: Random) -> bytes:
    return bytes(mutated(bytearray(_TEXT.encode()), draw))


def check_trusted(data: bytes, _: Random) -> None:
    """What is read is written as the same."""
    rows = parse_trusted(data.decode("utf-8", "replace"))
    assert parse_trusted(encode_trusted(rows)) == rows


_ACCOUNTS: Final = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: '12345678'  # of the example
  whiteRemoteAddress:
  defaultTopicPerm: PUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
- accessKey: "boss"
  admin: true
"""
_ACL: Final = [
    {"username": "app", "userType": "Normal", "userStatus": "enable"},
    {
        "subject": "User:app",
        "policies": [
            {
                "policyType": "Custom",
                "entries": [
                    {"resource": "Topic:or*", "actions": ["Pub"], "sourceIps": ["192.168.*.*"], "decision": "Deny"},
                    {"resource": "*", "actions": ["All"], "sourceIps": None, "decision": "Allow"},
                ],
            }
        ],
    },
]


def _acl(draw: Random) -> bytes:
    if draw.randrange(2):
        return bytes(mutated(bytearray(_ACCOUNTS.encode()), draw))
    return document_bytes(mutated_document(json.loads(json.dumps(_ACL)), draw), draw)


def check_acl(data: bytes, _: Random) -> None:
    """Users that a broker takes."""
    imported = import_acl(data.decode("utf-8", "replace"))
    for user in imported.users:
        assert decode_row(encode_row(row_of(user))).value == user


def _audit(draw: Random) -> bytes:
    entry = {"at_ms": 5, "kind": "refusal", "user": "app", "request": "GetRoute", "fields": {"row": "x"}, "count": 3}
    return document_bytes(mutated_document(entry, draw), draw)


def check_audit(data: bytes, _: Random) -> None:
    """A master can write what it takes, and a slave tell it on."""
    entry = decode_entry(data.decode("utf-8", "replace"))
    encode_entry({**entry, "replica": "a2"}).encode()


SECURITY_TARGETS = (
    Target("audit-entry", _audit, check_audit, (InvalidParameter,)),
    Target("rocketmq-acl", _acl, check_acl, (InvalidParameter,)),
    Target("security-rows", _rows, check_rows, (InvalidParameter,)),
    Target("trusted-file", _trusted, check_trusted, (InvalidParameter,)),
)
