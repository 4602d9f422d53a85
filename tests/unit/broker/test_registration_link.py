"""What a name server is told, and when."""

from __future__ import annotations

from zenitmq.broker.registration import GIVE_UP_MS, NameServerLink


def ask(link: NameServerLink, now_ms: int, version: int = 1) -> str | None:
    return link.next_request(now_ms, version=version, register_interval_ms=30_000)


def registered() -> NameServerLink:
    link = NameServerLink("a:1")
    assert ask(link, 0) == "register"
    link.on_registered(0, 1)
    return link


def test_a_new_one_is_registered_with_then_hears_heartbeats() -> None:
    link = registered()
    assert ask(link, 1000) == "heartbeat"
    link.on_heard(known=True)
    assert ask(link, 2000) == "heartbeat"


def test_while_an_answer_is_awaited_nothing_is_asked() -> None:
    link = NameServerLink("a:1")
    ask(link, 0)
    assert ask(link, GIVE_UP_MS - 1) is None
    assert ask(link, GIVE_UP_MS) == "register"


def test_changed_topics_are_registered() -> None:
    assert ask(registered(), 1000, version=2) == "register"


def test_everything_is_registered_again_after_the_interval() -> None:
    assert ask(registered(), 30_000) == "register"


def test_one_that_forgot_us_or_failed_is_registered_with_again() -> None:
    forgot, failed = registered(), registered()
    ask(forgot, 1000)
    forgot.on_heard(known=False)
    ask(failed, 1000)
    failed.on_failed()
    assert (ask(forgot, 1001), ask(failed, 1001)) == ("register", "register")
