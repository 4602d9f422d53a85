"""The decision: which rules count, in whatever order, and what follows from a right on a group."""

from __future__ import annotations

import inspect
import random

import pytest

from zenitmq import Producer
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.names import DEFAULT_PRODUCER_GROUP
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import (
    Binding,
    Match,
    Rule,
    RuleEffect,
    User,
    UserKind,
    UserRole,
    check_rule,
    check_user,
)
from zenitmq.model.security.rights import Action, Resource

KEY = "k" * 40
PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST


def rule(text: str, *actions: Action, name: str = "", addresses: tuple[str, ...] = ()) -> Rule:
    """ "allow topic", "deny group" ...: a name that ends in * is a prefix, "*" any."""
    effect, _, kind = text.partition(" ")
    match = Match.ANY if name == "*" else Match.PREFIX if name.endswith("*") else Match.LITERAL
    resource = None if kind == "*" else Resource(kind)
    return check_rule(Rule(RuleEffect(effect), frozenset(actions), resource, match, name.rstrip("*"), addresses))


def allows(
    rules: list[Rule], action: Action, resource: Resource, name: str, address: str = "", **fields: object
) -> bool:
    user = User("u", (KEY,), rules=tuple(rules), **fields)  # type: ignore[arg-type]
    return AccessTable([user], []).decide(user, action, resource, name, address).allowed


@pytest.mark.parametrize(
    ("rules", "action", "name", "allowed"),
    [
        ([], PUB, "orders", False),
        ([rule("allow topic", PUB, name="orders")], PUB, "orders", True),
        ([rule("allow topic", PUB, name="orders")], SUB, "orders", False),
        ([rule("allow topic", PUB, name="orders")], PUB, "orders2", False),
        ([rule("allow topic", PUB, name="ord*")], PUB, "orders2", True),
        ([rule("allow topic", PUB, name="*")], PUB, "any", True),
        ([rule("allow *", PUB, name="*"), rule("deny topic", PUB, name="orders")], PUB, "orders", False),
        ([rule("allow topic", PUB, name="orders"), rule("deny *", PUB, name="o*")], PUB, "orders", False),
        ([rule("allow group", PUB, name="*")], PUB, "orders", False),
        ([rule("allow topic", PUB, name="orders")], GET, "orders", True),
        ([rule("allow topic", SUB, name="orders")], LIST, "orders", True),
        ([rule("allow topic", PUB, name="orders"), rule("deny topic", GET, name="orders")], GET, "orders", False),
        ([rule("allow topic", GET, name="orders"), rule("deny topic", PUB, name="orders")], GET, "orders", True),
        ([rule("allow group", SUB, name="billing")], SUB, "%RETRY%billing", True),
        ([rule("allow group", SUB, name="billing")], SUB, "%DLQ%billing", True),
        ([rule("allow topic", SUB, name="%RETRY%billing")], SUB, "%RETRY%billing", False),
        ([rule("allow topic", SUB, name="chats")], SUB, "%LMQ%$chats$a", True),
        ([rule("allow topic", SUB, name="%LMQ%*")], SUB, "%LMQ%$chats$a", False),
        ([rule("allow topic", SUB, name="%LMQ%*")], SUB, "%LMQ%a", True),
        ([], PUB, "RMQ_SYS_TRACE_TOPIC", True),
        ([], SUB, "RMQ_SYS_TRACE_TOPIC", False),
    ],
)
def test_a_deny_wins_an_allow_suffices(rules: list[Rule], action: Action, name: str, allowed: bool) -> None:
    assert allows(rules, action, Resource.TOPIC, name) is allowed


def test_the_order_of_rules_never_matters() -> None:
    draw = random.Random(3)
    names = ["a", "ab", "abc", "a*", "ab*", "*"]
    for _ in range(300):
        rules = [
            rule(f"{draw.choice(['allow', 'deny'])} topic", draw.choice([PUB, SUB]), name=draw.choice(names))
            for _ in range(draw.randint(0, 6))
        ]
        asked = draw.choice([PUB, SUB]), Resource.TOPIC, draw.choice(["a", "ab", "abc", "x"])
        first = allows(rules, *asked)
        matching = [each for each in rules if each.covers(*asked, "")]
        assert first is (
            any(each.effect is RuleEffect.ALLOW for each in matching)
            and all(each.effect is RuleEffect.ALLOW for each in matching)
        )
        draw.shuffle(rules)
        assert allows(rules, *asked) is first


def test_a_disabled_user_may_nothing_and_a_super_user_all_but_serve() -> None:
    assert not allows([], PUB, Resource.TOPIC, "t", kind=UserKind.SUPER, disabled=True)
    assert allows([], Action.DELETE, Resource.SECURITY, "", kind=UserKind.SUPER)
    assert not allows([], Action.SERVE, Resource.REPLICA, "broker-a", kind=UserKind.SUPER)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("broker-a", True), ("broker-a/broker-a-1", True), ("broker-a/broker-a-2", False), ("broker-b", False)],
)
def test_a_server_is_the_replica_that_it_is_bound_to(name: str, allowed: bool) -> None:
    bound = Binding("c", "broker-a", "broker-a-1")
    server = check_user(User("s", (KEY,), UserKind.SERVER, binding=bound))
    table = AccessTable([server], [])
    assert table.decide(server, Action.SERVE, Resource.REPLICA, name).allowed is allowed
    assert table.server_keys("broker-a", "broker-a-1") == (KEY,)
    assert table.server_keys("broker-a", "broker-a-2") == ()
    assert not table.decide(server, Action.UPDATE, Resource.SECURITY, "").allowed


def test_a_rule_may_depend_on_where_the_user_is() -> None:
    rules = [rule("allow topic", PUB, name="t", addresses=("10.0.0.0/8", "fd00::/8"))]
    for address, allowed in (
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("fd00::1", True),
        ("", False),
    ):
        assert allows(rules, PUB, Resource.TOPIC, "t", address) is allowed


def test_roles_give_their_rules_and_say_which_decided() -> None:
    role = UserRole("sellers", (rule("allow topic", PUB, name="t"),))
    user = User("u", (KEY,), roles=("sellers", "gone"))
    decision = AccessTable([user], [role]).decide(user, PUB, Resource.TOPIC, "t")
    assert (decision.allowed, decision.of, decision.reason) == (True, "role sellers", "allow pub on topic:t")


@pytest.mark.parametrize(
    "user",
    [
        User("", ()),
        User("a b", ()),
        User("u", ("short",)),
        User("u", (KEY, KEY)),
        User("u", (KEY, "a" * 40, "b" * 40)),
        User("u", (), UserKind.SERVER),
        User("u", (), binding=Binding("c", "g", "r")),
        User("u", (), rules=(Rule(RuleEffect.ALLOW, frozenset({Action.SERVE}), None, Match.ANY, ""),)),
        User("u", (), rules=(Rule(RuleEffect.ALLOW, frozenset({PUB}), None, Match.LITERAL, ""),)),
        User("u", (), rules=(Rule(RuleEffect.ALLOW, frozenset({PUB}), None, Match.ANY, "", ("10.0.0.1/8",)),)),
    ],
)
def test_what_is_no_user_is_refused(user: User) -> None:
    with pytest.raises(InvalidParameter):
        check_user(user)


def test_names_that_nothing_can_have_are_not_remembered() -> None:
    """A request has room for a name of 1 MiB, and for another one each time."""
    table = AccessTable([User("app", ("a" * 40,))], [])
    for length in (1, 255, 256, 1 << 20):
        assert not table.decide(table.users["app"], Action.GET, Resource.TOPIC, "n" * length).allowed
    assert sorted(len(name) for _, _, _, name, _ in table._decided) == [1, 255]


def test_a_table_says_whose_rights_are_as_before() -> None:
    def made(*rules: Rule, of_role: tuple[Rule, ...] = ()) -> AccessTable:
        return AccessTable([User("app", ("a" * 40,), roles=("readers",), rules=rules)], [UserRole("readers", of_role)])

    see = Rule(RuleEffect.ALLOW, frozenset({Action.GET}), Resource.TOPIC, Match.ANY, "")
    assert made(see).gives_the_same(made(see), "app")
    assert made(see).gives_the_same(made(), "unknown")
    assert not made(see).gives_the_same(made(), "app")
    assert not made(of_role=(see,)).gives_the_same(made(), "app")
    assert not AccessTable([], []).gives_the_same(made(), "app")


@pytest.mark.parametrize(("group", "allowed"), [("DEFAULT_PRODUCER", True), ("zenit-cli", True), ("shop", False)])
def test_a_producer_without_a_group_of_its_own_needs_the_right_to_its_topic_alone(group: str, allowed: bool) -> None:
    rules = [rule("allow topic", PUB, name="orders")]
    assert allows(rules, PUB, Resource.GROUP, group) is allowed
    assert not allows(rules, SUB, Resource.GROUP, group)
    assert inspect.signature(Producer).parameters["group"].default == DEFAULT_PRODUCER_GROUP


def test_everybody_learns_which_brokers_may_have_light_queues() -> None:
    reads = [rule("allow topic", SUB, name="%LMQ%a")]
    assert allows(reads, GET, Resource.TOPIC, "%LMQ%")
    assert allows(reads, SUB, Resource.TOPIC, "%LMQ%a")
    assert not allows(reads, GET, Resource.TOPIC, "%LMQ%b")
    assert not allows(reads, SUB, Resource.TOPIC, "%LMQ%")
