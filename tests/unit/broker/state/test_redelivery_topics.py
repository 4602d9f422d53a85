"""The topics of retries and dead letters come to be on first need, and grow with the group's wishes."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.redelivery_topics import retry_queues_of, wanted_dead_letter_topic, wanted_retry_topic
from zenitmq.model.route import TopicConfig


def test_topics_that_are_missing_are_wanted() -> None:
    assert wanted_retry_topic({}, "g", {"retryQueueNums": 3}) == TopicConfig("%RETRY%g", 3, 3, 6)
    assert wanted_dead_letter_topic({}, "g") == TopicConfig("%DLQ%g", 1, 1, 6)


def test_topics_that_are_there_stay_as_they_are() -> None:
    topics = {"%RETRY%g": TopicConfig("%RETRY%g", 4, 4, 4), "%DLQ%g": TopicConfig("%DLQ%g", 2, 2, 4)}
    assert wanted_retry_topic(topics, "g", {"retryQueueNums": 3}) is None
    assert wanted_dead_letter_topic(topics, "g") is None


def test_a_retry_topic_grows() -> None:
    topics = {"%RETRY%g": TopicConfig("%RETRY%g", 2, 1, 6, order=True)}
    assert wanted_retry_topic(topics, "g", {"retryQueueNums": 2}) == TopicConfig("%RETRY%g", 2, 2, 6, order=True)


@pytest.mark.parametrize("value", [None, 0, -1, "2", True, 1 << 20])
def test_a_number_of_queues_that_makes_no_sense_counts_as_one(value: object) -> None:
    assert retry_queues_of({"retryQueueNums": value}) == 1
