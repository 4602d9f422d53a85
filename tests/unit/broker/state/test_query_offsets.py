"""What queries keep: the first document counts, until it is dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.broker.state import query_offsets
from zenitmq.broker.state.query_offsets import DOCUMENT_BYTES_MAX, QUERIES_MAX, UNUSED_MS, QueryOffsets, check_document
from zenitmq.model.errors import InvalidParameter, MessageTooLarge, StoreFormatError, TooManyQueries

VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 77}


def keep(table: QueryOffsets, query: str, text: str) -> dict[str, Any] | None:
    """What the handler does in a turn: decide, stage, adopt."""
    event = table.keep(query, text)
    if event is not None:
        table.adopt(event)
    return event


def drop(table: QueryOffsets, query: str) -> dict[str, Any] | None:
    event = table.drop(query)
    if event is not None:
        table.adopt(event)
    return event


def test_the_first_document_counts_before_the_log_has_it_and_after() -> None:
    table = QueryOffsets()
    assert table.text("q") is None
    first = keep(table, "q", '{"n":1}')
    assert keep(table, "q", '{"n":2}') is None
    assert table.text("q") == '{"n":1}'
    assert table.listed() == [], "the log does not say so yet"
    table.on_event(first, VERSION)
    assert keep(table, "q", '{"n":3}') is None
    assert table.listed() == [{"query": "q", "kept_at_ms": 77, "size_bytes": 7, "version": 0}]
    table.on_event({**first, "document": '{"n":4}'}, VERSION)
    assert table.text("q") == '{"n":1}', "a second event of one query changes nothing"


def test_what_is_dropped_makes_room_for_another_within_one_turn() -> None:
    table = QueryOffsets()
    events = [keep(table, "q", "{}"), drop(table, "q"), keep(table, "q", '{"n":2}')]
    assert drop(table, "unknown") is None
    assert table.text("q") == '{"n":2}'
    for event in events:
        table.on_event(event, VERSION)
    assert table.text("q") == '{"n":2}'
    table.on_event(drop(table, "q"), VERSION)
    assert table.text("q") is None
    table.on_event({"event": "dropped", "query": "q"}, VERSION)
    assert table.document() == {"dataVersion": VERSION, "queryTable": {}}


def test_a_document_of_a_higher_version_takes_the_place_of_a_lower_one() -> None:
    table = QueryOffsets()
    first = keep(table, "q", "{}")
    second = keep(table, "q", '{"version":1}')
    assert keep(table, "q", '{"version":1,"n":1}') is None, "of one version the first counts"
    assert keep(table, "q", '{"n":1}') is None
    assert table.text("q") == '{"version":1}'
    table.on_event(first, VERSION)
    assert table.text("q") == '{"version":1}', "what is staged counts before the log has it"
    table.on_event(second, {**VERSION, "timestamp": 99})
    assert table.listed() == [{"query": "q", "kept_at_ms": 99, "size_bytes": 13, "version": 1}]
    table.on_event(first, VERSION)
    assert table.text("q") == '{"version":1}', "the log is replayed from an older place"
    again = QueryOffsets()
    again.load(table.document())
    assert keep(again, "q", '{"version":1,"n":2}') is None
    assert keep(again, "q", '{"version":2}') is not None


@pytest.mark.parametrize("version", ["1", 1.5, True, -1, None, [1], 1 << 63])
def test_what_is_no_version_is_that_of_a_document_without_one(version: Any) -> None:
    table = QueryOffsets()
    keep(table, "q", "{}")
    assert keep(table, "q", json.dumps({"version": version})) is None


def test_what_was_kept_longest_ago_makes_room_where_nobody_kept_it_anew_for_long() -> None:
    table = QueryOffsets()
    for number in range(QUERIES_MAX):
        table.on_event(table.keep(f"q{number}", "{}"), {**VERSION, "timestamp": 1000 + number})
    assert table.outlived("q5", "{}", 1 << 60) is None, "it has its room"
    assert table.outlived("one more", "{}", 1000 + UNUSED_MS - 1) is None
    assert table.outlived("one more", "{}", 1000 + UNUSED_MS) == "q0"
    table.on_event(keep(table, "q0", '{"version":1}'), {**VERSION, "timestamp": 1 << 50})
    assert table.outlived("one more", "{}", 1001 + UNUSED_MS) == "q1", "q0 was used since"
    table.on_event(drop(table, "q1"), VERSION)
    assert table.outlived("one more", "{}", 1 << 60) is None
    assert keep(table, "one more", "{}") is not None


def test_a_document_that_is_replaced_makes_room_for_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_offsets, "TEXT_MAX", 20)
    table = QueryOffsets()
    for version in range(1, 5):
        event = keep(table, "q", f'{{"version":{version}}}')
        assert event is not None
        table.on_event(event, VERSION)
    with pytest.raises(TooManyQueries, match="characters"):
        table.keep("r", '{"n":123}')
    assert table.keep("r", '{"n":1}') is not None


def test_a_snapshot_gives_the_same_table_and_keeps_what_it_does_not_know() -> None:
    table = QueryOffsets()
    table.on_event(keep(table, "späte Abfrage", '{"ü":1}'), VERSION)
    again = QueryOffsets()
    again.load({**table.document(), "later": 1})
    assert again.document() == {**table.document(), "later": 1}
    assert again.text("späte Abfrage") == '{"ü":1}'
    empty = QueryOffsets()
    empty.load({})
    assert empty.listed() == []


@pytest.mark.parametrize(
    "table",
    [["q"], {"q": {}}, {"q": 7}, {"q": {"document": "{}", "keptAtMs": "x"}}],
    ids=["list", "empty", "int", "time"],
)
def test_a_damaged_snapshot_is_told(table: Any) -> None:
    with pytest.raises(StoreFormatError):
        QueryOffsets().load({"queryTable": table})


@pytest.mark.parametrize(
    "event",
    [
        {"event": "kept", "query": "q"},
        {"event": "kept", "document": "{}"},
        {"event": "dropped"},
        {"event": "from the future", "query": "q", "document": "{}"},
    ],
)
def test_an_unknown_event_is_told(event: dict[str, Any]) -> None:
    with pytest.raises(StoreFormatError):
        QueryOffsets().on_event(event, VERSION)


def test_how_many_queries_and_how_much_of_them_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = QueryOffsets()
    for number in range(QUERIES_MAX):
        table.on_event(table.keep(f"q{number}", "{}"), VERSION)
    with pytest.raises(TooManyQueries, match="zenit query-offsets drop"):
        table.keep("one more", "{}")
    assert table.keep("q7", "{}") is None, "what is kept is answered all the same"
    table.on_event(table.drop("q7"), VERSION)
    monkeypatch.setattr(query_offsets, "TEXT_MAX", 2 * QUERIES_MAX)
    with pytest.raises(TooManyQueries, match="characters"):
        table.keep("long", '{"n":1}')
    assert table.keep("short", "{}") is not None


def test_characters_count_once_a_query_and_from_a_snapshot_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_offsets, "TEXT_MAX", 10)
    table = QueryOffsets()
    first = keep(table, "q", '{"n":1}')
    table.on_event(first, VERSION)
    table.on_event({**first, "document": '{"n":22222}'}, VERSION)
    again = QueryOffsets()
    again.load(table.document())
    for one in (table, again):
        assert one.keep("fits", "{ }") is not None
        with pytest.raises(TooManyQueries, match="characters"):
            one.keep("one too many", "{  }")
        for _ in range(2):
            one.on_event({"event": "dropped", "query": "q"}, VERSION)
        assert one.keep("all of it", '{"nnn":10}') is not None
        with pytest.raises(TooManyQueries, match="characters"):
            one.keep("more than all", '{"nnnn":10}')


def test_a_document_is_a_json_object_of_bounded_size() -> None:
    assert check_document(b'{ "t": {"b": {"0": 1}} }') == '{ "t": {"b": {"0": 1}} }'
    for payload in (b"", b"[]", b"1", b"{", b"\xff{}", b'{"a":' * 100_000):
        with pytest.raises(InvalidParameter):
            check_document(payload)
    longest = b'{"a":"' + b"x" * (DOCUMENT_BYTES_MAX - 8) + b'"}'
    assert check_document(longest)
    with pytest.raises(MessageTooLarge):
        check_document(longest + b" ")
