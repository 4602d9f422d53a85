"""Members of a group that want different things of a topic are found, whatever the order in which they come and go."""

from __future__ import annotations

from zenitmq.broker.filter.subscription_check import MEMBERS_NAMED_MAX, GroupSubscriptions

BUY = (("trades", "TAG", "buy"),)
BOTH = (("trades", "TAG", "buy || sell"),)
BOTH_AGAIN = (("trades", "TAG", "sell||buy"),)
SQL = (("trades", "SQL92", "amount > 10"),)
MORE = (("orders", "TAG", "*"), *BUY)


def group(**members: tuple[tuple[str, str, str], ...]) -> GroupSubscriptions:
    found = GroupSubscriptions()
    for client_id, subscriptions in members.items():
        found.put(client_id, subscriptions)
    return found


def shown(subscriptions: GroupSubscriptions) -> list[tuple[str, list[tuple[str, str, list[str]]]]]:
    documents = [disagreement.document() for disagreement in subscriptions.disagreements()]
    return [
        (d["topic"], [(want["kind"], want["expression"], want["members"]) for want in d["subscriptions"]])
        for d in documents
    ]


def test_members_who_want_the_same_agree() -> None:
    assert shown(group()) == []
    assert shown(group(a=BUY, b=BUY)) == []
    assert shown(group(a=BOTH, b=BOTH_AGAIN)) == []


def test_other_tags_and_other_kinds_are_told() -> None:
    assert shown(group(a=BUY, b=BOTH, c=SQL, d=BOTH_AGAIN)) == [
        ("trades", [("TAG", "buy", ["a"]), ("TAG", "buy || sell", ["b", "d"]), ("SQL92", "amount > 10", ["c"])])
    ]


def test_members_may_subscribe_to_different_topics() -> None:
    found = group(a=MORE, b=BUY, c=())
    assert shown(found) == []
    assert [found.others(wanted) for wanted in (MORE, BUY, ())] == [[], [], []]
    found.put("d", (("orders", "TAG", "x"),))
    assert shown(found) == [("orders", [("TAG", "*", ["a"]), ("TAG", "x", ["d"])])]
    assert (found.others(MORE), found.others(BUY)) == ([("orders", "d")], [])


def test_each_is_told_of_one_who_wants_something_else() -> None:
    found = group(a=BUY, b=SQL, c=BUY)
    assert found.others(BUY) == [("trades", "b")]
    assert found.others(SQL) == [("trades", "a")]
    assert group(a=BUY, b=BUY).others(BUY) == []


def test_agreement_comes_back_when_the_odd_one_leaves_or_changes() -> None:
    found = group(a=BUY, b=SQL)
    assert len(shown(found)) == 1
    found.take_out("b", SQL)
    assert shown(found) == []
    found.put("b", BUY)
    assert shown(found) == []
    found.take_out("b", BUY)
    found.put("b", BOTH)
    assert len(shown(found)) == 1


def test_few_of_many_members_are_named() -> None:
    found = group(**{f"m{number:03}": BOTH for number in range(100)}, n=BOTH_AGAIN, z=SQL)
    ((_, wants),) = shown(found)
    assert [len(members) for _, _, members in wants] == [MEMBERS_NAMED_MAX, 1]
