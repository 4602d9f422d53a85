"""A refused request is an event once a minute for each user and request, whatever names are tried."""

from __future__ import annotations

from zenitmq.model.events.event import Event
from zenitmq.model.events.telling import kept_by
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import User
from zenitmq.remoting.commands import GetBrokerEvents, GetRoute
from zenitmq.remoting.security.guard import Guard
from zenitmq.remoting.security.refused_rights import TOLD_MAX, RefusedRights
from zenitmq.tests.store_kit import StillClock

GUARD = Guard(AccessTable([User(f"u{number}", (f"{number:040}",)) for number in range(TOLD_MAX + 1)], []))


def refuse(rights: RefusedRights, request: GetRoute | GetBrokerEvents, user: int = 0) -> None:
    refusal = GUARD.check(f"{user:040}", "", request)
    assert refusal is not None
    rights.on_denied(refusal)


def test_each_request_of_a_user_is_told_once_a_minute() -> None:
    told: list[Event] = []
    clock = StillClock()
    rights = RefusedRights(clock)
    with kept_by(told.append):
        for name in ("a", "b", "c"):
            refuse(rights, GetRoute(name))
        refuse(rights, GetBrokerEvents())
        clock.sleep_ms(60_000)
        refuse(rights, GetRoute("d"))
    facts = [dict(event.facts) for event in told]
    assert [one["resource"] for one in facts] == ["get on topic:a", "get on cluster", "get on topic:d"]
    assert {(one["user"], one["why"]) for one in facts} == {("u0", "no rule allows it")}


def test_what_is_remembered_is_bounded() -> None:
    told: list[Event] = []
    rights = RefusedRights(StillClock())
    with kept_by(told.append):
        for user in range(TOLD_MAX + 1):
            refuse(rights, GetRoute("a"), user)
    assert len(told) == TOLD_MAX
