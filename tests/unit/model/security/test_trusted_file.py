"""The trusted file: what is written is read again, and a wrong one is refused with what is wrong."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.principals import Binding, Match, Rule, RuleEffect, User, UserKind, UserLimits
from zenitmq.model.security.rights import Action, Resource
from zenitmq.model.security.trusted_file import StaticRow, encode_trusted, parse_trusted

KEY, OTHER = "k" * 40, "o" * 40
RULE = Rule(RuleEffect.DENY, frozenset({Action.PUB, Action.SUB}), Resource.TOPIC, Match.PREFIX, "pay", ("10.0.0.0/8",))
ROWS = (
    StaticRow(
        User("n1", (KEY,), UserKind.SERVER, binding=Binding("zenit", "", "n1")), ("127.0.0.1:9876", "[::1]:9876")
    ),
    StaticRow(User("root", (OTHER,), UserKind.SUPER)),
    StaticRow(
        User("app", (), disabled=True, roles=("readers",), rules=(RULE,), limits=UserLimits(requests=5, busy_ratio=0.5))
    ),
)
TEXT = f"""\
[[user]]
name = "n1"
kind = "server"
keys = ["{KEY}"]
cluster = "zenit"
group = ""
replica = "n1"
addresses = ["127.0.0.1:9876", "[::1]:9876"]

[[user]]
name = "root"
kind = "super"
keys = ["{OTHER}"]

[[user]]
name = "app"
kind = "normal"
disabled = true
roles = ["readers"]
rules = [{{effect = "deny", actions = ["pub", "sub"], resource = "topic", match = "prefix", name = "pay", \
addresses = ["10.0.0.0/8"]}}]
limits = {{requests = 5, busy_ratio = 0.5}}
"""


def test_a_file_is_written_and_read() -> None:
    """Golden text, both ways."""
    assert encode_trusted(ROWS) == TEXT
    assert parse_trusted(TEXT) == ROWS
    assert parse_trusted("") == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[[user]", "trusted file"),
        ("[user]\nname='x'", "trusted file"),
        ("[[users]]\nname='x'", "users"),
        ("user = [1]", "user"),
        ("[[user]]\nkind='super'", "name"),
        ("[[user]]\nname='x'", "kind"),
        ("[[user]]\nname='x'\nkind='king'", "normal, super, server"),
        ("[[user]]\nname='x'\nkind='super'\nkey='k'", "key"),
        ("[[user]]\nname='x'\nkind='super'\nkeys='k'", "keys"),
        ("[[user]]\nname='x'\nkind='super'\nkeys=['k']", "public key"),
        ("[[user]]\nname='a b'\nkind='super'", "user"),
        ("[[user]]\nname='x'\nkind='server'", "binding"),
        ("[[user]]\nname='x'\nkind='super'\ngroup='g'", "binding"),
        ("[[user]]\nname='x'\nkind='super'\naddresses=['h:1']", "addresses"),
        ("[[user]]\nname='x'\nkind='server'\ngroup='g'\naddresses=['h']", "host:port"),
        ("[[user]]\nname='x'\nkind='server'\ngroup='g'\naddresses=['h:70000']", "host:port"),
        ("[[user]]\nname='x'\nkind='super'\n[[user]]\nname='x'\nkind='super'", "name"),
        (f"[[user]]\nname='x'\nkind='super'\nkeys=['{KEY}']\n[[user]]\nname='y'\nkind='super'\nkeys=['{KEY}']", "key"),
        ("[[user]]\nname='x'\nkind='normal'\nlimits={requests=1.5}", "requests"),
        ("[[user]]\nname='x'\nkind='normal'\nlimits={requests=-1}", "requests"),
        ("[[user]]\nname='x'\nkind='normal'\nlimits={busy_ratio=1e400}", "busy_ratio"),
        ("[[user]]\nname='x'\nkind='normal'\nlimits={speed=1}", "speed"),
        ("[[user]]\nname='x'\nkind='normal'\nrules=[{effect='allow'}]", "match"),
        ("[[user]]\nname='x'\nkind='normal'\nrules=[{effect='allow',actions=['fly'],match='any'}]", "pub"),
        ("[[user]]\nname='x'\nkind='normal'\nrules=[{effect='allow',actions=['serve'],match='any'}]", "actions"),
        ("[[user]]\nname='x'\nkind='normal'\nrules=[{effect='allow',actions=['pub'],match='any',if='x'}]", "if"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        parse_trusted(text)
