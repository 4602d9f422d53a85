"""Events: the table, their lines, the log in both formats, repeats, and what keeps them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from zenitmq.model.events import telling
from zenitmq.model.events.event import (
    COMMON,
    HEAD,
    TEXT_MAX,
    Event,
    decode_line,
    event_line,
    time_of_text,
    time_text,
    whole_lines,
    with_lines,
)
from zenitmq.model.events.event_ring import EventRing, events_document
from zenitmq.model.events.log_lines import JsonLines
from zenitmq.model.events.repeats import KNOWN_MAX, Repeats
from zenitmq.model.events.table import BROKER_LEFT, ELECTED, EVENTS, LOGIN_REFUSED, ROLE_CHANGED
from zenitmq.model.events.telling import kept_by, limit_repeats, tell

LOG = logging.getLogger("zenitmq.test_events")
NOON_MS = 1_795_694_439_123


def elected(epoch: int, at_ms: int = NOON_MS, **facts: str | int) -> bytes:
    event = Event(ELECTED, at_ms, (("group", "g"), ("epoch", epoch), *facts.items()))
    return event_line(event, role="controller", node="c1").encode()


@pytest.fixture
def kept() -> Iterator[list[Event]]:
    found: list[Event] = []
    with kept_by(found.append):
        yield found


def test_the_table_is_whole() -> None:
    for name, kind in EVENTS.items():
        assert name == kind.name == name.lower()
        assert kind.help.endswith("."), name
        assert not {"ts", "level", "role", "node", "event", "repeated", "message"} & set(kind.fields), name
        assert kind.level in {20, 30, 40, 50}


def test_a_line_has_the_head_then_the_common_fields_and_no_empty_ones() -> None:
    event = Event(LOGIN_REFUSED, NOON_MS, (("peer", "10.0.0.7"), ("user", ""), ("why", "revoked"), ("code", 9030)))
    line = event_line(event, role="broker", node="a")
    assert list(json.loads(line)) == [*HEAD, "peer", "code", "why"]
    assert line.startswith('{"ts": "2026-11-26T12:00:39.123Z", "level": "warning", "role": "broker", "node": "a", ')


@pytest.mark.parametrize("at_ms", [0, NOON_MS, NOON_MS + 1])
def test_times_are_read_as_written(at_ms: int) -> None:
    assert time_of_text(time_text(at_ms)) == at_ms


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"7", b'{"ts": 1}', elected(1).replace(b"2026", b"20x6"), elected(1)[:-1], b" " * 40_000,
     elected(1).replace(b'"epoch": 1', b'"epoch": [1]'), b"[" * 30_000, b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert decode_line(line) is None
    assert list(whole_lines(line + b"\n" + elected(3) + b"\n")) == [elected(3)]


def test_what_is_kept_is_in_order_once_and_bounded() -> None:
    data = with_lines(b"torn", [elected(2, NOON_MS + 2), elected(1)], lines_max=10, bytes_max=10_000)
    assert [json.loads(line)["epoch"] for line in data.splitlines()] == [1, 2]
    again = with_lines(data, [elected(2, NOON_MS + 9, why="another controller")], lines_max=10, bytes_max=10_000)
    assert again == data
    assert with_lines(data, [], lines_max=1, bytes_max=10_000) == elected(2, NOON_MS + 2) + b"\n"
    assert with_lines(data, [], lines_max=10, bytes_max=len(data) - 1) == elected(2, NOON_MS + 2) + b"\n"


def test_an_event_is_logged_and_kept(caplog: pytest.LogCaptureFixture, kept: list[Event]) -> None:
    caplog.set_level(logging.INFO)
    tell(
        LOG,
        BROKER_LEFT,
        group="g",
        peer="p",
    )
    assert caplog.messages == ["broker left group=g peer=p"]
    assert caplog.records[0].funcName == "test_an_event_is_logged_and_kept"
    assert [(event.kind, event.group) for event in kept] == [(BROKER_LEFT, "g")]


def test_an_event_is_kept_whatever_is_logged(caplog: pytest.LogCaptureFixture, kept: list[Event]) -> None:
    caplog.set_level(logging.ERROR)
    tell(LOG, ROLE_CHANGED, epoch=7)
    assert not caplog.messages
    assert len(kept) == 1


def test_a_fact_cannot_forge_a_line(caplog: pytest.LogCaptureFixture, kept: list[Event]) -> None:
    tell(LOG, LOGIN_REFUSED, user="x\n2026 INFO elected", why="w" * 1000, peer=("a", "b"))
    assert "\n" not in caplog.messages[0]
    facts = dict(kept[0].facts)
    assert facts["user"] == "x\\n2026 INFO elected"
    assert (len(str(facts["why"])), facts["peer"]) == (TEXT_MAX, "a,b")


def test_a_fact_that_the_table_does_not_have_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="body"):
        tell(LOG, LOGIN_REFUSED, body=b"secret")


def test_what_repeats_is_told_once_a_second_and_counted(
    kept: list[Event], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telling._PROCESS, "repeats", None)
    limit_repeats()
    now = [5000]
    monkeypatch.setattr(telling, "monotonic_ms", lambda: now[0])
    for _ in range(4):
        tell(LOG, LOGIN_REFUSED, peer="p")
    tell(LOG, LOGIN_REFUSED, peer="q")
    assert [dict(event.facts) for event in kept] == [{"peer": "p"}, {"peer": "q"}]
    now[0] += 60_000
    tell(LOG, ROLE_CHANGED, epoch=1)
    assert [dict(event.facts) for event in kept[2:]] == [{"peer": "p", "repeated": 3}, {"epoch": 1}]
    assert "login refused peer=p repeated=3" in caplog.messages


def test_repeats_are_bounded_and_no_count_is_lost() -> None:
    repeats = Repeats()
    told = []
    for at in range(KNOWN_MAX * 2):
        for _ in range(2):
            told += repeats.on_told(LOGIN_REFUSED, (("peer", str(at)),), 7)
    assert len(repeats._known) <= KNOWN_MAX
    told += repeats.on_told(ROLE_CHANGED, (), 70_000)
    assert sum(count for _, _, count in told) == KNOWN_MAX * 2


def lines_of(log: logging.Logger, *, role: str = "broker", node: str = "a") -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    formatter = JsonLines(role=role, node=node)

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(formatter.format(record)))

    log.handlers = [Lines()]
    log.propagate = False
    return found


def test_json_lines_have_the_names_of_constant_texts_and_of_events() -> None:
    log = logging.getLogger("zenitmq.test_json_lines")
    log.setLevel(logging.INFO)
    lines = lines_of(log)
    log.warning("took 100%% of %s seconds group=%s level=%s epoch=%d error=%r", 3, "g", "x", 4, ValueError("v"))
    tell(log, ELECTED, group="g", epoch=5, master="b")
    try:
        raise KeyError("k")
    except KeyError:
        log.exception("a handler failed request=%s", "Send")
    plain, event, failed = lines
    assert list(plain) == ["ts", "level", "role", "node", "group", "epoch", "error", "message", "logger"]
    assert plain["message"] == "took 100% of 3 seconds group=g level=x epoch=4 error=ValueError('v')"
    assert (plain["group"], plain["epoch"], plain["level"]) == ("g", 4, "warning")
    assert list(event) == [*HEAD, "group", "epoch", "master"]
    assert failed["request"] == "Send"
    assert "KeyError: 'k'" in str(failed["trace"])


def test_a_ring_holds_the_newest_and_answers_since() -> None:
    ring = EventRing(role="namesrv", node="n", lines=[elected(1), b"no event"], events_max=3)
    lines = [ring.keep(Event(ROLE_CHANGED, NOON_MS + at, (("epoch", at),))) for at in (5, 6)]
    assert [event["epoch"] for event in ring.document(0)["events"]] == [5, 6]
    assert [event["role"] for event in ring.document(NOON_MS + 6)["events"]] == ["namesrv"]
    assert events_document([elected(1), *lines], NOON_MS)["events"][0]["epoch"] == 1


def test_the_common_names_are_those_of_the_table() -> None:
    assert {name for kind in EVENTS.values() for name in kind.fields} >= set(COMMON)
