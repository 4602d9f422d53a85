"""What a name server is told, and when."""

from __future__ import annotations

from zenitmq.broker.registration import (
    CHANGES_MAX,
    GIVE_UP_MS,
    PIECE_TOPICS,
    NameServerLink,
    Topic,
    TopicChanges,
    in_pieces,
)


def ask(link: NameServerLink, now_ms: int, version: int = 1, changes_since: int = 1) -> str | None:
    return link.next_request(now_ms, version=version, changes_since=changes_since, register_interval_ms=30_000)


def topics(count: int) -> list[Topic]:
    return [(f"t{number}", 1, 1, 6, 0) for number in range(count)]


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


def test_what_has_changed_is_told_alone() -> None:
    link = registered()
    assert ask(link, 1000, version=3) == "update"
    link.on_updated(3, known=True)
    assert ask(link, 2000, version=3) == "heartbeat"
    link.on_heard(known=True)
    assert ask(link, 3000, version=4) == "update"
    link.on_updated(4, known=False)
    assert ask(link, 3001, version=4) == "register"


def test_all_is_told_where_not_all_changes_are_known() -> None:
    assert ask(registered(), 1000, version=5, changes_since=2) == "register"


def test_an_older_name_server_is_told_all() -> None:
    link = registered()
    ask(link, 1000, version=2)
    link.on_unknown()
    assert ask(link, 1001, version=2) == "register"
    link.on_registered(1002, 2)
    assert ask(link, 2000, version=3) == "register"


def test_many_topics_go_in_pieces_one_after_the_other() -> None:
    first, *others = in_pieces(topics(2 * PIECE_TOPICS + 1))
    assert [len(first), *map(len, others)] == [PIECE_TOPICS, PIECE_TOPICS, 1]
    link = NameServerLink("a:1")
    ask(link, 0, version=7)
    link.on_registered(0, 7, others)
    for left in (1, 0):
        assert ask(link, 1, version=9) == "piece"
        link.on_piece(known=True)
        assert len(link.pieces) == left
    assert link.known_version == 7
    assert ask(link, 2, version=9) == "update"


def test_a_piece_that_it_knows_nothing_of_begins_the_registration_anew() -> None:
    link = NameServerLink("a:1")
    for lose in (lambda: link.on_piece(known=False), link.on_failed, lambda: link.pieces.clear()):
        ask(link, 0)
        link.on_registered(0, 1, in_pieces(topics(PIECE_TOPICS + 1)))
        ask(link, 1)
        lose()
        link.on_piece(known=True)
        assert ask(link, 1) == "register"
        link.on_failed()


def test_changes_are_known_back_to_a_version() -> None:
    changes = TopicChanges(10)
    for topic in ("a", "b", "c", "a"):
        changes.on_changed(topic)
    assert (changes.version, changes.complete_since) == (14, 10)
    assert (changes.since(10), changes.since(12), changes.since(14)) == (["b", "c", "a"], ["c", "a"], [])
    assert (changes.at("b"), changes.at("a")) == (12, 14)
    for number in range(CHANGES_MAX):
        changes.on_changed(f"t{number}")
    assert changes.complete_since == 14
    assert len(changes.since(14)) == CHANGES_MAX
    changes.restart()
    assert changes.since(changes.complete_since) == []
    assert changes.complete_since == changes.version


def test_everything_is_registered_again_after_the_interval() -> None:
    assert ask(registered(), 30_000) == "register"


def test_one_that_forgot_us_or_failed_is_registered_with_again() -> None:
    forgot, failed = registered(), registered()
    ask(forgot, 1000)
    forgot.on_heard(known=False)
    ask(failed, 1000)
    failed.on_failed()
    assert (ask(forgot, 1001), ask(failed, 1001)) == ("register", "register")
