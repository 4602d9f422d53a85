"""Who leads: the first of those that take part, as long as the connection lasts over which that was read."""

from __future__ import annotations

from zenitmq.controller.group.leadership import Leadership
from zenitmq.controller.group_store import ControllerMember, SessionState

OWN, OTHER = ControllerMember("a:1", own=True), ControllerMember("b:1", own=False)
CONNECTED = Leadership().on_session(SessionState.CONNECTED)


def facts(leadership: Leadership) -> tuple[bool, bool, str]:
    return leadership.leads, leadership.has_joined, leadership.leader


def test_the_first_leads() -> None:
    assert facts(CONNECTED.on_members((OWN, OTHER))) == (True, True, "a:1")
    assert facts(CONNECTED.on_members((OTHER, OWN))) == (False, True, "b:1")
    assert CONNECTED.on_members((OTHER, OWN)).addresses == ("b:1", "a:1")


def test_who_has_not_joined_knows_who_leads() -> None:
    assert facts(CONNECTED.on_members((OTHER,))) == (False, False, "b:1")
    assert facts(CONNECTED.on_members(())) == (False, False, "")


def test_nobody_leads_before_the_members_were_read() -> None:
    assert facts(Leadership()) == facts(CONNECTED) == (False, False, "")


def test_a_lost_connection_ends_it_until_the_members_are_read_again() -> None:
    led = CONNECTED.on_members((OWN, OTHER))
    for state in (SessionState.SUSPENDED, SessionState.LOST):
        away = led.on_session(state)
        assert facts(away) == (False, False, "")
        assert away.addresses == ("a:1", "b:1"), "still the best that is known"
        assert facts(away.on_members((OWN, OTHER))) == (False, False, ""), "read over the connection that is lost"
        back = away.on_session(SessionState.CONNECTED)
        assert facts(back) == (False, False, "")
        assert facts(back.on_members((OTHER, OWN))) == (False, True, "b:1")
