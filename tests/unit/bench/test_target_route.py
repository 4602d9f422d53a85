"""A topic's route is waited for, whatever a name server says until a broker has registered it."""

from __future__ import annotations

from typing import Any

from zenitmq.bench.target import Target
from zenitmq.model.errors import NoRoute, TopicNotFound
from zenitmq.remoting.commands import RouteReply


class Servers:
    """Answers with what it is given, in turn."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def call(self, *_: Any, **__: Any) -> tuple[Any, bytes]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, b""


def test_a_broker_that_has_not_come_back_is_waited_for_as_a_topic_that_is_not_known_yet() -> None:
    route = RouteReply((), ())
    client: Any = Servers(TopicNotFound("t"), NoRoute("t", "no broker is registered"), route)
    assert Target(client, "127.0.0.1:9876", "t", None, {}, "127.0.0.1:9876").wait_route() is route
