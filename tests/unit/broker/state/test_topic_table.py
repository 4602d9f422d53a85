"""The topic table: events in, settings out, and RocketMQ's own topics.json kept whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.broker.state.topic_table import TopicTable, check_settings, topic_config, topic_document
from zenitmq.model.errors import InvalidParameter, StoreFormatError, TopicMadeAnew
from zenitmq.model.route import TopicConfig

VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 5}
END = 100


def put(table: TopicTable, config: TopicConfig) -> None:
    table.on_event(table.event_set(config), VERSION, END)


def test_a_created_topic_takes_sends_on_its_write_queues_only() -> None:
    table = TopicTable()
    put(table, TopicConfig("trades", read_queues=8, write_queues=4))
    assert table.write_queues == {"trades": 4}
    assert [row[:4] for row in table.registered()] == [("trades", 8, 4, 6)]


def test_a_topic_without_write_permission_takes_no_sends() -> None:
    table = TopicTable()
    put(table, TopicConfig("trades"))
    put(table, TopicConfig("trades", permission=4))
    assert table.write_queues == {}
    assert [row[:4] for row in table.registered()] == [("trades", 8, 8, 4)]


def test_a_deleted_topic_is_gone() -> None:
    table = TopicTable()
    put(table, TopicConfig("trades"))
    table.on_event(table.event_deleted("trades"), VERSION, END)
    assert (table.configs, table.write_queues, table.document()["topicConfigTable"]) == ({}, {}, {})


def test_system_topics_take_no_sends_and_are_not_registered() -> None:
    table = TopicTable()
    table.load({"topicConfigTable": {"TBW102": {"topicName": "TBW102", "perm": 7}}})
    assert table.write_queues == {}
    assert table.registered() == []


def test_fields_we_do_not_use_survive_a_load_a_change_and_a_write() -> None:
    table = TopicTable()
    entry = {"topicName": "t", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "future": [1, {"a": 2}]}
    table.load({"topicConfigTable": {"t": entry}, "dataVersion": {"counter": 7}, "other": "kept"})
    put(table, TopicConfig("t", read_queues=4, write_queues=4))
    document = table.document()
    assert document["other"] == "kept"
    assert document["dataVersion"] == VERSION
    assert document["topicConfigTable"]["t"]["future"] == [1, {"a": 2}]
    assert document["topicConfigTable"]["t"]["writeQueueNums"] == 4


def test_a_copy_taken_before_a_change_does_not_change() -> None:
    table = TopicTable()
    put(table, TopicConfig("t", read_queues=2, write_queues=2))
    before = table.document()
    put(table, TopicConfig("t", read_queues=4, write_queues=4))
    assert before["topicConfigTable"]["t"]["readQueueNums"] == 2


def test_document_and_config_are_inverse() -> None:
    config = TopicConfig("t", 3, 2, 4, True, 1, "MULTI_TAG", {"queue.type": "SimpleCQ"})
    assert topic_config(topic_document(config)) == config


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {"topicName": "t", "perm": "x"},
        {"topicName": "t", "attributes": 3},
        {"topicName": "t", "perm": 1e999},
    ],
)
def test_what_is_no_topic_is_refused_by_name(entry: object) -> None:
    with pytest.raises(StoreFormatError, match=r"topics\.json"):
        TopicTable().load({"topicConfigTable": {"t": entry}})


@pytest.mark.parametrize(
    "event", [{}, {"event": "set"}, {"event": "deleted", "topic": {}}, {"event": "renamed", "topic": "t"}]
)
def test_an_unknown_event_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(StoreFormatError):
        TopicTable().on_event(event, VERSION, END)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (TopicConfig("t", read_queues=0), "read_queues"),
        (TopicConfig("t", write_queues=1025), "write_queues"),
        (TopicConfig("t", permission=7), "permission"),
        (TopicConfig("t", permission=0), "permission"),
        (TopicConfig("t", read_queues=7), "read_queues"),
        (TopicConfig("t", write_queues=7), "write_queues"),
    ],
)
def test_settings_out_of_range_are_refused(config: TopicConfig, name: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        check_settings(config, TopicConfig("t"), queues_max=1024)
    assert refused.value.name == name


def test_growing_settings_are_taken() -> None:
    check_settings(TopicConfig("t", read_queues=9, write_queues=16), TopicConfig("t"), queues_max=1024)


def test_a_topic_keeps_its_incarnation_until_it_is_deleted_and_made_again() -> None:
    """Whatever an event was staged upon: it may have been one of the topic that is gone."""
    table = TopicTable()
    config = TopicConfig("trades", 1, 1)
    table.on_event(table.event_set(config), VERSION, 100)
    staged = table.event_set(config)
    table.on_event(table.event_set(replace(config, read_queues=2)), VERSION, 200)
    assert table.configs["trades"].incarnation == 100
    table.on_event(table.event_deleted("trades"), VERSION, 300)
    table.on_event(staged, VERSION, 400)
    assert [row[4] for row in table.registered()] == [table.configs["trades"].incarnation] == [400]
    for asked in (0, 400):
        table.check_incarnation("trades", asked)
    with pytest.raises(TopicMadeAnew) as refused:
        table.check_incarnation("trades", 100)
    assert refused.value.args == ("trades", 400, 100)
    loaded = TopicTable()
    loaded.load(table.document())
    assert loaded.configs == table.configs


def test_a_new_topic_is_told_from_one_that_ended_in_the_same_place_of_another_store() -> None:
    numbers = iter((7, 8, 9))
    table = TopicTable(lambda: next(numbers))
    config = TopicConfig("trades", 1, 1)
    first, second = table.event_set(config), table.event_set(config)  # staged in one turn
    table.on_event(first, VERSION, 100)
    table.on_event(second, VERSION, 200)
    assert (table.configs["trades"].incarnation, table.made_at("trades")) == (7, 100)
    table.on_event(table.event_set(replace(config, read_queues=2)), VERSION, 300)
    assert (table.configs["trades"].incarnation, table.made_at("trades")) == (7, 100)
    table.on_event(table.event_deleted("trades"), VERSION, 400)
    assert table.made_at("trades") == 0
    table.on_event(table.event_set(config), VERSION, 500)
    assert (table.configs["trades"].incarnation, table.made_at("trades")) == (9, 500)
    loaded = TopicTable()
    loaded.load(table.document())
    assert loaded.configs == table.configs


def test_where_a_topic_was_made_is_its_incarnation_in_a_snapshot_of_an_earlier_version() -> None:
    table = TopicTable()
    table.load({"topicConfigTable": {"trades": {"topicName": "trades", "incarnation": 100}}})
    table.on_event(table.event_set(TopicConfig("trades", 1, 1)), VERSION, 200)
    assert (table.configs["trades"].incarnation, table.made_at("trades")) == (100, 100)


def test_a_topic_of_an_older_store_has_no_incarnation_and_refuses_nobody() -> None:
    table = TopicTable()
    table.load({"topicConfigTable": {"trades": {"topicName": "trades"}}})
    table.on_event(table.event_set(TopicConfig("trades", 1, 1)), VERSION, 100)
    assert table.configs["trades"].incarnation == 0
    table.check_incarnation("trades", 7)
