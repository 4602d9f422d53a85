"""The pause before another try ends when there is another route."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

from zenitmq.client.connection.route_cache import RouteCache
from zenitmq.client.connection.route_pause import pause, watch_weakly
from zenitmq.client.connection.waiting import Blocking, run_blocking
from zenitmq.model.route import TopicRoute

OLD, NEW = TopicRoute("t", (), ()), TopicRoute("t", (), ())


class Routes:
    """The routes of one topic, and who watches them."""

    def __init__(self) -> None:
        self.route: TopicRoute = OLD
        self.watchers: list[Callable[[str], None]] = []

    def cached(self, _: str) -> TopicRoute:
        return self.route

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self.watchers.append(callback)
        return lambda: self.watchers.remove(callback)

    def adopt(self, route: TopicRoute, topic: str = "t") -> None:
        self.route = route
        for watcher in list(self.watchers):
            watcher(topic)


def pausing(routes: Routes, delay_ms: int, route: TopicRoute | None = OLD) -> bool:
    waits = Blocking(cast(Any, Mock()))
    return run_blocking(pause(cast(RouteCache, routes), "t", route, waits, delay_ms))


def test_without_another_route_it_takes_its_time() -> None:
    routes = Routes()
    assert not pausing(routes, 1)
    assert routes.watchers == []


def test_a_new_route_ends_it() -> None:
    routes, found = Routes(), list[bool]()
    thread = threading.Thread(target=lambda: found.append(pausing(routes, 60_000)))
    thread.start()
    while not routes.watchers:
        pass
    routes.watchers[0]("another topic")
    routes.adopt(NEW)
    thread.join(10)
    assert (found, routes.watchers) == ([True], [])


def test_a_route_that_came_before_it_began_is_taken_at_once() -> None:
    assert pausing(Routes(), 60_000, route=None)


def test_who_is_freed_watches_no_more() -> None:
    class Sender:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def on_route(self, topic: str) -> None:
            self.heard.append(topic)

    routes, sender = Routes(), Sender()
    watch_weakly(cast(RouteCache, routes), sender.on_route)
    routes.adopt(NEW)
    assert sender.heard == ["t"]
    del sender
    gc.collect()
    routes.adopt(OLD)
    assert routes.watchers == []
