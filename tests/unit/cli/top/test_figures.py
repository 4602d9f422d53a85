"""What is shown of a cluster follows from the last samples of each thing."""

from __future__ import annotations

from typing import Any

import pytest
from top_kit import broker, cluster, event, group, replica, statistics, topic

from zenitmq.cli.top.figures import GONE_MAX, GONE_MS, OTHERS_MAX, ROWS_MAX, ClusterFigures, Order, TopicOrGroup


def rows(figures: ClusterFigures, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = figures.document(0)[table]
    return found


def picked(figures: ClusterFigures, table: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows(figures, table)]


@pytest.fixture
def figures() -> ClusterFigures:
    found = ClusterFigures()
    found.on_cluster(0, cluster(broker("a:1")))
    return found


def test_a_broker_has_rates_after_two_samples(figures: ClusterFigures) -> None:
    names = ("role", "in_per_second", "in_bytes_per_second", "out_per_second", "out_bytes_per_second")
    assert picked(figures, "brokers", *names) == [(None,) * 5]
    figures.on_statistics(0, "a:1", statistics(sent=100))
    assert picked(figures, "brokers", *names) == [("master", None, None, None, None)]
    figures.on_statistics(2_000, "a:1", statistics(sent=300, pulled=20, popped=10))
    assert picked(figures, "brokers", *names) == [("master", 100.0, 1000.0, 15.0, 100.0)]
    document = figures.document(7)
    assert (document["at_ms"], document["cluster"], document["in_per_second"]) == (7, "zenit", 100.0)
    (row,) = document["brokers"]
    assert (row["log_bytes"], row["disk_use"], row["in_sync"], row["epoch"]) == (600, 0.25, True, 1)


def test_a_restarted_broker_has_no_rate_until_two_samples_of_the_new_process(figures: ClusterFigures) -> None:
    figures.on_statistics(0, "a:1", statistics(sent=10))
    figures.on_statistics(1_000, "a:1", statistics(sent=5_000, started_at_ms=9))
    assert picked(figures, "brokers", "in_per_second") == [(None,)]
    figures.on_statistics(2_000, "a:1", statistics(sent=5_010, started_at_ms=9))
    assert picked(figures, "brokers", "in_per_second") == [(10.0,)]


def test_a_broker_that_does_not_answer_is_shown_without_old_figures(figures: ClusterFigures) -> None:
    figures.on_statistics(0, "a:1", statistics(sent=10))
    figures.on_statistics(1_000, "a:1", statistics(sent=20))
    figures.on_silent("a:1", "no reply")
    names = ("role", "why", "in_per_second", "disk_use", "lag_bytes", "epoch", "in_sync")
    assert picked(figures, "brokers", *names) == [("silent", "no reply", None, None, None, None, None)]
    figures.on_statistics(3_000, "a:1", statistics(sent=40))
    assert picked(figures, "brokers", "role", "why", "in_per_second") == [("master", None, 10.0)]


def test_a_broker_whose_figures_the_user_may_not_see_is_not_called_silent(figures: ClusterFigures) -> None:
    figures.on_cluster(0, cluster(broker("a:1"), broker("a:2", broker_id=1)))
    for address in ("a:1", "a:2"):
        figures.on_silent(address, "may not", is_hidden=True)
    assert picked(figures, "brokers", "role", "why") == [("master", "may not"), ("slave", "may not")]


def test_a_broker_that_left_is_gone_for_a_while(figures: ClusterFigures) -> None:
    figures.on_cluster(1_000, cluster(broker("b:1", "broker-b")))
    assert picked(figures, "brokers", "address", "role") == [("a:1", "gone"), ("b:1", None)]
    figures.on_cluster(2_000, cluster(broker("a:1"), broker("b:1", "broker-b")))
    assert picked(figures, "brokers", "role") == [(None,), (None,)]
    figures.on_cluster(3_000, cluster(broker("a:1")))
    figures.on_cluster(3_001 + GONE_MS, cluster(broker("a:1")))
    assert list(figures.brokers) == ["a:1"]


def test_brokers_that_come_and_go_are_not_kept_for_ever(figures: ClusterFigures) -> None:
    for number in range(GONE_MAX + 20):
        figures.on_cluster(number, cluster(broker(f"b:{number}")))
    assert len(figures.brokers) == GONE_MAX + 1
    assert "a:1" not in figures.brokers


def test_replicas_are_shown_with_their_place_in_the_group(figures: ClusterFigures) -> None:
    figures.on_cluster(0, cluster(*(broker(f"a:{number}", broker_id=number - 1) for number in (1, 2, 3, 4))))
    figures.on_statistics(0, "a:1", statistics(end=900, replication=replica("master", "a", in_sync=["a", "c"])))
    figures.on_statistics(0, "a:2", statistics(end=700, replication=replica("slave", "b", in_sync=["a", "b", "c"])))
    figures.on_statistics(0, "a:3", statistics(end=950, replication=replica("slave", "c")))
    figures.on_statistics(0, "a:4", statistics(end=900, replication=replica("slave", "d", halted="another log")))
    assert picked(figures, "brokers", "replica", "role", "epoch", "in_sync", "lag_bytes") == [
        ("a", "master", 2, True, 0),
        ("b", "slave", 2, False, 200),
        ("c", "slave", 2, True, 0),
        ("d", "halted", 2, False, 0),
    ]


def test_a_slave_is_compared_with_its_master_as_it_was_then(figures: ClusterFigures) -> None:
    """What the master has written since is not what the slave lacks."""
    figures.on_cluster(0, cluster(broker("a:1"), broker("a:2", broker_id=1)))
    figures.on_statistics(0, "a:1", statistics(end=900, replication=replica("master", "a", in_sync=["a", "b"])))
    figures.on_statistics(0, "a:2", statistics(end=890, replication=replica("slave", "b")))
    figures.on_statistics(0, "a:1", statistics(end=5_000, replication=replica("master", "a", in_sync=["a", "b"])))
    assert picked(figures, "brokers", "lag_bytes") == [(0,), (10,)]


def test_after_a_failover_the_newest_master_is_believed(figures: ClusterFigures) -> None:
    figures.on_cluster(0, cluster(broker("a:1", broker_id=1), broker("a:2")))
    figures.on_statistics(0, "a:1", statistics(end=900, replication=replica("master", "a", epoch=2, in_sync=["a"])))
    figures.on_statistics(0, "a:2", statistics(end=500, replication=replica("master", "b", epoch=3, in_sync=["b"])))
    assert picked(figures, "brokers", "replica", "in_sync", "lag_bytes") == [("a", False, 0), ("b", True, 0)]


def test_without_a_master_nobody_is_behind(figures: ClusterFigures) -> None:
    figures.on_statistics(0, "a:1", statistics(replication=replica("candidate", "a", in_sync=None)))
    assert picked(figures, "brokers", "role", "in_sync", "lag_bytes") == [("candidate", None, None)]


def test_trouble_is_not_left_out_where_there_are_many_brokers() -> None:
    figures = ClusterFigures()
    figures.on_cluster(0, cluster(*(broker(f"{number:02}:1", f"broker-{number:02}") for number in range(25))))
    figures.on_silent("24:1", "no reply")
    assert "24:1" in [row["address"] for row in rows(figures, "brokers")]
    assert figures.document(0)["left_out"]["brokers"] == 25 - ROWS_MAX
    assert len(rows(figures, "brokers")) == ROWS_MAX


def test_a_topic_has_what_came_in_and_what_its_groups_committed(figures: ClusterFigures) -> None:
    figures.on_topics(["t", "u"])
    figures.on_groups(["g"])
    figures.on_topic(0, topic("t", 10, 20))
    figures.on_group(0, group("g", 30, 10))
    figures.on_topic(2_000, topic("t", 20, 40))
    figures.on_group(2_000, group("g", 60, 20, lag_seconds=3.5))
    names = ("topic", "in_per_second", "out_per_second", "lag", "span_seconds")
    assert picked(figures, "topics", *names) == [("t", 15.0, 5.0, 40, 2.0), ("u", None, None, None, None)]
    names = ("members", "in_per_second", "out_per_second", "lag", "lag_seconds", "lag_per_second")
    assert picked(figures, "groups", *names) == [(1, 15.0, 5.0, 40, 3.5, 10.0)]


def test_offsets_that_are_set_back_and_unknown_ones_give_no_rate(figures: ClusterFigures) -> None:
    figures.on_topics(["t"])
    figures.on_groups(["back", "unknown"])
    for at_ms, committed in ((0, 20), (1_000, 5)):
        figures.on_group(at_ms, group("back", 30, committed))
        figures.on_group(at_ms, group("unknown", 30, None, lag_seconds=None))
    names = ("group", "out_per_second", "lag", "lag_seconds", "lag_per_second")
    assert picked(figures, "groups", *names) == [("back", None, 25, 0.0, 15.0), ("unknown", None, None, None, None)]
    assert picked(figures, "topics", "lag") == [(25,)]


def test_the_trend_is_over_the_last_minute(figures: ClusterFigures) -> None:
    figures.on_groups(["g"])
    for at_ms, committed in ((0, 0), (90_000, 40), (100_000, 50)):
        figures.on_group(at_ms, group("g", 100, committed))
    assert picked(figures, "groups", "lag_per_second") == [(-1.0,)]


@pytest.mark.parametrize(("order", "first"), [(Order.IN, "in"), (Order.OUT, "out"), (Order.LAG, "lag")])
def test_rows_are_sorted(order: Order, first: str, figures: ClusterFigures) -> None:
    figures.on_topics(["idle", "in", "lag", "out"])
    figures.on_groups(["idle", "in", "lag", "out"])
    for at_ms, step in ((0, 0), (1_000, 1)):
        figures.on_topic(at_ms, topic("in", 1000 * step))
        figures.on_group(at_ms, group("in", 1000 * step, 999 * step, of_topic="in"))
        for name, end in (("lag", 9_000), ("out", 2_000)):
            figures.on_topic(at_ms, topic(name, end))
        figures.on_group(at_ms, group("out", 2_000, 2_000 * step, of_topic="out"))
        figures.on_group(at_ms, group("lag", 9_000, 0, of_topic="lag"))
    figures.order = order
    assert rows(figures, "topics")[0]["topic"] == first
    assert rows(figures, "groups")[0]["group"] == first
    assert rows(figures, "groups")[-1]["group"] == "idle"


def test_a_group_that_was_refused_says_why_until_it_answers(figures: ClusterFigures) -> None:
    figures.on_groups(["g"])
    figures.on_refused(0, TopicOrGroup(True, "g"), "may not")
    figures.on_refused(0, TopicOrGroup(False, "left"), "no such topic")
    assert picked(figures, "groups", "why", "lag") == [("may not", None)]
    figures.on_group(1, group("g", 3, 3))
    assert picked(figures, "groups", "why", "lag") == [(None, 0)]


def test_what_is_deleted_leaves(figures: ClusterFigures) -> None:
    figures.on_topics(["t", "u"])
    figures.on_groups(["g"])
    figures.on_topic(0, topic("u", 1))
    figures.on_topics(["u"])
    figures.on_groups([])
    assert (picked(figures, "topics", "topic"), rows(figures, "groups")) == ([("u",)], [])
    assert figures.document(0)["not_asked_yet"] == {"topics": 0, "groups": 0}


def test_who_is_shown_is_asked_each_time_and_the_others_by_turns(figures: ClusterFigures) -> None:
    names = [f"t{number:03}" for number in range(ROWS_MAX + 2 * OTHERS_MAX)]
    figures.on_topics(names)
    figures.on_groups(["g"])
    for at_ms in (1, 2):
        asked = figures.subjects()
        assert (asked[0], len(asked)) == (TopicOrGroup(True, "g"), 1 + ROWS_MAX + OTHERS_MAX)
        for _, name in asked[1:]:
            figures.on_topic(at_ms, topic(name, 0 if name != names[-1] else at_ms))
        figures.on_group(at_ms, group("g", 1, 1))
    assert figures.document(0)["not_asked_yet"] == {"topics": 0, "groups": 0}
    figures.on_topic(3, topic(names[-1], 500))
    assert rows(figures, "topics")[0]["topic"] == names[-1]
    assert TopicOrGroup(False, names[-1]) in figures.subjects()[: 1 + ROWS_MAX]


def test_a_topic_made_anew_is_not_compared_with_the_old_one(figures: ClusterFigures) -> None:
    figures.on_topics(["t"])
    figures.on_groups(["g"])
    for at_ms, life, end, committed in ((0, 1, 10, 5), (1_000, 2, 900, 800), (2_000, 2, 910, 805)):
        figures.on_topic(at_ms, topic("t", end, incarnation=life))
        figures.on_group(at_ms, group("g", end, committed, incarnation=life))
        rates = [(10.0, 5.0)] if at_ms == 2_000 else [(None, None)]
        for table in ("topics", "groups"):
            assert picked(figures, table, "in_per_second", "out_per_second") == rates, at_ms


def test_what_a_list_leaves_out_stays_if_not_everybody_was_asked(figures: ClusterFigures) -> None:
    figures.on_topics(["t", "u"])
    figures.on_groups(["g", "h"])
    figures.on_topics(["t", "v"], is_whole=False)
    figures.on_groups(["g"], is_whole=False)
    assert picked(figures, "topics", "topic") == [("t",), ("u",), ("v",)]
    assert picked(figures, "groups", "group") == [("g",), ("h",)]
    figures.on_topics(["t"])
    assert picked(figures, "topics", "topic") == [("t",)]


def test_the_lag_of_other_queues_is_no_trend(figures: ClusterFigures) -> None:
    figures.on_groups(["g"])
    figures.on_group(0, group("g", 900, 0))
    fewer = group("g", 10, 0)
    fewer["queues"][0]["broker_name"] = "broker-b"
    figures.on_group(1_000, fewer)
    assert picked(figures, "groups", "lag", "lag_per_second") == [(10, None)]


def test_masters_that_do_not_answer_are_named(figures: ClusterFigures) -> None:
    figures.on_cluster(0, cluster(broker("a:1"), broker("a:2", broker_id=1), broker("b:1", "broker-b")))
    figures.on_silent("a:1", "no reply")
    figures.on_silent("a:2", "no reply")
    figures.on_silent("b:1", "may not", is_hidden=True)
    assert figures.silent_masters() == {"a:1": "broker-a"}


def test_the_newest_events_are_shown_once(figures: ClusterFigures) -> None:
    figures.on_events({"events": [event(number) for number in range(30)], "silent": ["a:1"], "refused": {}})
    missing = {"silent": ["a:1"], "refused": {"a:2": "may not", "a:3": "may not"}}
    figures.on_events({"events": [event(number) for number in range(28, 32)], **missing})
    document = figures.document(0)
    assert document["events"] == [event(number) for number in range(12, 32)]
    assert document["unseen"] == {"events": "no answer from a:1; may not"}
    figures.on_events({"events": [], "silent": [], "refused": {}})
    assert figures.document(0)["unseen"] == {}
