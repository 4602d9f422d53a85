"""How long a cluster's id is remembered: by who reads or writes, never by the process."""

from __future__ import annotations

import pytest

from zenitmq.client.connection import connection as client_connection
from zenitmq.client.connection.connection import connect, release
from zenitmq.client.connection.waiting import Blocking, run_blocking
from zenitmq.model.errors import ClientClosed, InvalidName, InvalidParameter
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.offsets import (
    QueueKey,
    cluster_of,
    document_of,
    lives_of,
    offsets_of,
    parse_offsets,
    ranges_between,
    split_ranges,
)
from zenitmq.pipeline.reading.topic_positions import TopicPositions
from zenitmq.pipeline.session import connections
from zenitmq.pipeline.session.connections import connection
from zenitmq.pipeline.writing import sink

NAMESRV = "127.0.0.1:1"  # nobody is asked anything
A0 = QueueKey("t", "a", 0)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_kept", {})
    monkeypatch.setattr(client_connection, "_open", {})
    monkeypatch.setattr(sink, "_met", {})


def is_closed(one: client_connection.Connection) -> bool:
    try:
        one.remoting.call_later(0, lambda: None)
    except ClientClosed:
        return True
    return False


def test_tasks_of_one_cluster_share_a_connection() -> None:
    with connection(NAMESRV, "one") as first:
        pass
    with connection(f" {NAMESRV},", "one") as second:
        assert second is first
        assert second.remoting.cluster_id == "one"
    assert not is_closed(first)


def test_another_cluster_at_the_same_addresses_has_a_connection_of_its_own() -> None:
    """The one before ends with its last user, who is not disturbed."""
    with connection(NAMESRV, "one") as first:
        with connection(NAMESRV, "two") as second:
            assert second is not first
            assert (first.remoting.cluster_id, second.remoting.cluster_id) == ("one", "two")
        assert not is_closed(first)
    assert is_closed(first)
    with connection(NAMESRV, "two") as again:
        assert again is second
    with connection(NAMESRV, "one") as anew:
        assert anew is not first


def test_who_means_no_cluster_gets_a_new_connection_once_another_one_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection(NAMESRV, "one") as first:
        pass
    monkeypatch.setattr(client_connection.Connection, "is_outdated", lambda _self: False)
    with connection(NAMESRV, "") as second:
        assert second is first
    monkeypatch.setattr(client_connection.Connection, "is_outdated", lambda self: self is first)
    with connection(NAMESRV, "") as third:
        assert third.remoting.cluster_id == ""
    assert is_closed(first)


def test_a_client_is_not_pinned_by_a_query() -> None:
    with connection(NAMESRV, "one") as pinned:
        shared = connect(NAMESRV)
        assert shared is not pinned
        assert shared.remoting.cluster_id == ""
        run_blocking(release(shared, Blocking(shared.remoting)))
        assert is_closed(shared)


def test_a_client_that_begins_is_not_held_by_one_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lives goes on refusing; the id is forgotten with the last client that met it."""
    living = connect(NAMESRV)
    living.remoting.name_cluster("one")
    monkeypatch.setattr(client_connection.Connection, "is_outdated", lambda self: self is living)
    begun = connect(NAMESRV)
    assert begun is not living
    assert begun.remoting.cluster_id == ""
    assert living.remoting.cluster_id == "one"
    assert connect(NAMESRV) is begun
    for each in (begun, begun, living):
        assert not is_closed(each)
        run_blocking(release(each, Blocking(each.remoting)))
    assert is_closed(begun)
    assert is_closed(living)
    assert not client_connection._open


def test_a_reader_stays_with_the_cluster_that_answered_first() -> None:
    positions = TopicPositions(ReadOptions.parse({"namesrv": NAMESRV, "subscribe": "t"}))
    with positions.cluster() as shared:
        shared.remoting.name_cluster("one")  # as its first route would
    assert positions.cluster_id == "one"
    with connection(NAMESRV, "two"), positions.cluster() as again:
        assert again.remoting.cluster_id == "one"


def test_a_reader_goes_on_with_the_cluster_of_its_checkpoint() -> None:
    positions = TopicPositions(ReadOptions.parse({"namesrv": NAMESRV, "subscribe": "t"}))
    positions.mean("one")
    positions.mean("")
    with positions.cluster() as shared:
        assert shared.remoting.cluster_id == "one"


def test_who_failed_has_met_nobody() -> None:
    positions = TopicPositions(ReadOptions.parse({"namesrv": NAMESRV, "subscribe": "t"}))
    asked = positions.cluster()
    asked.__enter__().remoting.name_cluster("one")
    assert not asked.__exit__(ClientClosed, ClientClosed("client"), None)
    assert positions.cluster_id == ""


def test_offsets_name_their_cluster() -> None:
    document = document_of({A0: 8}, {("t", "a"): 77}, "9f1c")
    assert document == {"t": {"a": {"0": 8, "incarnation": 77}}, "@cluster": "9f1c"}
    assert (offsets_of(document), lives_of(document), cluster_of(document)) == ({A0: 8}, {("t", "a"): 77}, "9f1c")
    assert parse_offsets("startingOffsets", '{"@cluster": "9f1c", "t": {"a": {"0": 8}}}') == {A0: 8}
    assert cluster_of({"t": {"a": {"0": 8}}}) == ""
    pieces = split_ranges(ranges_between({}, {A0: 8}, {}, "9f1c"), rows_max=3)
    assert {piece.cluster_id for piece in pieces} == {"9f1c"}


@pytest.mark.parametrize("cluster_id", [7, None, {}, "a b", "x" * 65])
def test_what_is_no_cluster_is_refused(cluster_id: object) -> None:
    with pytest.raises((InvalidParameter, InvalidName)):
        cluster_of({"@cluster": cluster_id})


def test_the_tasks_of_a_query_write_to_the_cluster_that_they_met_first() -> None:
    assert sink.cluster_of_query("q1", "") == ""
    assert sink.cluster_of_query("q1", "one") == "one"
    assert sink.cluster_of_query("q1", "two") == "one"
    assert sink.cluster_of_query("q2", "two") == "two"


def test_queries_that_are_remembered_are_bounded() -> None:
    for number in range(sink.QUERIES_MAX + 1):
        sink.cluster_of_query(str(number), "one")
    assert sink.cluster_of_query("0", "two") == "two"
    assert sink.cluster_of_query("2", "two") == "one"
    assert len(sink._met) == sink.QUERIES_MAX
