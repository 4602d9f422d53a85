"""Which rows have an order although they have no message group."""

from __future__ import annotations

from zenitmq.model.route import QueueData, TopicRoute
from zenitmq.pipeline.writing.row_sends import has_one_queue


def route(*write_queues: int) -> TopicRoute:
    return TopicRoute("t", tuple(QueueData(f"b{at}", count, count, 6) for at, count in enumerate(write_queues)), ())


def test_a_topic_has_one_queue_until_more_are_known() -> None:
    assert has_one_queue(None)
    assert has_one_queue(route(1))
    assert not has_one_queue(route(2))
    assert not has_one_queue(route(1, 1))
