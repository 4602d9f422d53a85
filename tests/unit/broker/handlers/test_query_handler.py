"""Queries against a store that is one answer: what is refused, what a worker may spend, and what nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.handlers.query_handler import KEY_LENGTH_MAX, PAUSE_MS, QUERY_MS, TEXT_BYTES_MAX, QueryHandler
from zenitmq.broker.state.topic_table import TopicTable
from zenitmq.model.errors import InvalidParameter, NoPermission, RequestTimeout, TopicNotFound
from zenitmq.model.route import TopicConfig
from zenitmq.remoting.commands import QueryMessages, QueryReply
from zenitmq.store.query import LogPlace, Page, StoreQuery


class World:
    """The store, the workers, the loop and the clock, as far as queries see them."""

    def __init__(self) -> None:
        self.time_ms = 0
        self.cost_ns = 1_000_000  # of a record that is looked at
        self.spent_ns = 0
        self.queues: list[int] = []
        self.pauses: list[float] = []
        self.replies: list[QueryReply] = []
        self.topic_table = TopicTable()
        for name, permission in (("t", 6), ("closed", 2)):
            self.topic_table.on_event(self.topic_table.event_set(TopicConfig(name, 3, 3, permission)), {}, 100)
        self.handler = QueryHandler(
            self, self, self, self, self, BrokerConfig(), now_ns=lambda: self.spent_ns, pause=self.pauses.append,  # type: ignore[arg-type]
        )  # fmt: skip

    def monotonic_ms(self) -> int:
        return self.time_ms

    def page(self, query: StoreQuery, queue_ids: Any, has_time: Callable[[], bool]) -> Page:
        self.queues = list(queue_ids)
        page = Page(query, query.start)
        while has_time():
            page.examined += 1
            self.spent_ns += self.cost_ns
        page.place = LogPlace(7, 8, 9)
        return page

    def run(self, call: Any, work: Callable[[], Page], then: Callable[[Page], None]) -> None:
        then(work())

    def reply(self, call: Any, reply: QueryReply, payload: object = ()) -> None:
        self.replies.append(reply)

    def ask(self, *, deadline_ms: int = 1000, **fields: Any) -> None:
        request = QueryMessages(**{"topic": "t", "key": ""} | fields)
        self.handler.on_query(SimpleNamespace(request=request, deadline_ms=deadline_ms))  # type: ignore[arg-type]


def test_a_page_takes_a_worker_so_long_and_no_longer() -> None:
    world = World()
    world.ask()
    assert world.replies == [QueryReply(0, 7, 8, 9, QUERY_MS, 0)]
    assert world.pauses == [PAUSE_MS] * QUERY_MS, "the loop runs after each record that took so long"
    assert world.queues == [0, 1, 2]
    world.ask(queue_id=2)
    assert world.queues == [2]


def test_nothing_is_done_for_one_who_waits_no_longer() -> None:
    world = World()
    world.time_ms = 1001
    with pytest.raises(RequestTimeout):
        world.ask()
    assert (world.replies, world.spent_ns) == ([], 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, TopicNotFound),
        ({"topic": "nobody"}, TopicNotFound),
        ({"topic": "closed"}, NoPermission),
        ({"queue_id": 3}, InvalidParameter),
        ({"queue_id": -2}, InvalidParameter),
        ({"max_messages": 0}, InvalidParameter),
        ({"key": "k" * (KEY_LENGTH_MAX + 1)}, InvalidParameter),
        ({"contains": b"x" * (TEXT_BYTES_MAX + 1)}, InvalidParameter),
    ],
)
def test_what_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        World().ask(**fields)
