"""The pause before another try, which ends as soon as the topic has another route: where a group has a new master, nobody waits
out a pause that was meant for the old one."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

from ...model.route import TopicRoute
from .route_cache import RouteCache
from .waiting import Waits


async def pause(routes: RouteCache, topic: str, route: TopicRoute | None, waits: Waits, delay_ms: int) -> bool:
    """Waits for `delay_ms`, or until the route of `topic` is another one than `route`, by which the last try went. Returns
    whether it is."""
    changed = waits.new_signal()

    def on_route(name: str) -> None:
        if name == topic:
            changed.set()

    unwatch = routes.watch(on_route)
    try:
        if routes.cached(topic) is not route:
            return True
        await changed.wait(delay_ms)
        return routes.cached(topic) is not route
    finally:
        unwatch()


def watch_weakly(routes: RouteCache, method: Callable[[str], None]) -> Callable[[], None]:
    """`routes.watch` of a method whose object may be freed meanwhile: the cache outlives producers that nobody closed."""
    weak = WeakMethod(method)

    def on_route(topic: str) -> None:
        found = weak()
        if found is not None:
            found(topic)
        else:
            unwatch()

    unwatch = routes.watch(on_route)
    return unwatch
