"""A scene of pops that has lite topics, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pop_scene import Asked, Scene
from store_kit import StillClock, light, stage

from zenitmq.broker.filter.condition_cache import ConditionCache
from zenitmq.broker.lite.lite_handlers import LiteHandlers
from zenitmq.broker.state.state_log import GROUPS, TOPICS
from zenitmq.model.route import TopicConfig
from zenitmq.model.topics.light_queues import lite_queue
from zenitmq.remoting import commands

PARENT: Final = "chats"
CLIENT: Final = "client"


class LiteScene(Scene):
    """`says`: messages; `subscribe`, `receive`: one client."""

    def __init__(self, directory: Path, clock: StillClock, **more: Any) -> None:
        super().__init__(directory, clock, **more)
        self.state.on_lite_collected = _removed_before
        self.lite = LiteHandlers(self.parts, ConditionCache(), self.leases, self.pops)
        self._handlers |= {
            commands.CancelPop: self.lite.on_cancel,
            commands.PopLite: self.lite.pops.on_pop,
            commands.SubscribeLite: self.lite.subscribing.on_subscribe,
            commands.SuspendLite: self.receipts.on_suspend,
        }
        self.versions: dict[tuple[str, str], int] = {}

    def create_parent(self, topic: str = PARENT, **attributes: str) -> None:
        config = TopicConfig(topic, 1, 1, attributes={"message.type": "LITE", **attributes})
        self.state.stage(self.store, TOPICS, self.state.topic_table.event_set(config))

    def settle(self, group: str = "g", **attributes: str) -> None:
        """Settings of a group: sub_model="Exclusive" is lite.sub.model."""
        rows = tuple((f"lite.{name.replace('_', '.')}", value) for name, value in attributes.items())
        self.state.stage(self.store, GROUPS, self.state.group_table.event_set(group, rows))

    def say(self, lite_topic: str, *bodies: bytes) -> None:
        stage(self.store, PARENT, 0, *(light(PARENT, body, lite_queue(PARENT, lite_topic)) for body in bodies))

    def subscribe(
        self, *names: str, action: str = "add", client: str = CLIENT, group: str = "g", topic: str = PARENT
    ) -> Asked:
        """The first is told as all."""
        before = self.versions.get((group, client), 0)
        self.versions[group, client] = before + 1
        request = commands.SubscribeLite(group, topic, client, action if before else "all", names, before, before + 1)
        return self.ask(request)

    def receive(
        self,
        count: int = 32,
        *,
        client: str = CLIENT,
        group: str = "g",
        wait_ms: int = 0,
        invisible_ms: int = 30_000,
        **more: Any,
    ) -> Asked:
        version = self.versions.get((group, client), 0)
        return self.ask(commands.PopLite(group, PARENT, count, invisible_ms, wait_ms, client, version, **more))

    def ack_lite(self, asked: Asked, lite_topic: str, bits: int = 0, *, group: str = "g") -> Asked:
        """All of a part, or some messages of it."""
        ((_, count, handle, _),) = (part for part in asked.reply.parts if part[0] == lite_topic)
        return self.ask(commands.AckMessages(group, PARENT, ((handle, bits or (1 << count) - 1),)))

    def suspend(self, asked: Asked, lite_topic: str, index: int, delay_ms: int, *, group: str = "g") -> Asked:
        ((_, _, handle, _),) = (part for part in asked.reply.parts if part[0] == lite_topic)
        return self.ask(commands.SuspendLite(group, PARENT, handle, index, delay_ms))

    def _on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        super()._on_arrivals(queues)
        self.lite.on_arrivals(queues)

    def tick(self, ms: int) -> None:
        """So much later."""
        while ms > 0:
            step_ms = min(ms, 100)
            self.pass_ms(step_ms)
            ms -= step_ms
            self.lite.pops.on_tick(self.clock.time_ms)
            self.turn()


def _removed_before(queues: list[str], at: int) -> None:
    """A master removes them before it writes the event."""
