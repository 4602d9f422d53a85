"""What a name server would answer, and what a broker says about itself: of the one engine there is."""

from __future__ import annotations

from typing import Any, Final

from ...broker.config import BrokerConfig
from ...broker.json_reply import reply_json
from ...broker.state.topic_table import TopicTable
from ...model.clock import process_cpu_ns
from ...model.config import describe_config
from ...model.errors import TopicNotFound
from ...model.topics.light_queues import is_light_queue
from ...remoting import commands
from ...remoting.commands import (
    DeleteTopicRoute,
    Done,
    GetBrokerConfig,
    GetBrokerStatistics,
    GetClusterInfo,
    GetRoute,
    GetTopicList,
    RouteReply,
    TopicListReply,
)
from ...remoting.request_rows import Row, row
from ...remoting.server import Call, RequestLoop
from .queue_logs import QueueLogs
from .refusals import refuse_light

MASTER_ID: Final = 0


class DirectoryHandler:
    """Under the engine's lock."""

    def __init__(self, config: BrokerConfig, topics: TopicTable, logs: QueueLogs, loop: RequestLoop) -> None:
        self._config, self._topics, self._logs, self._loop = config, topics, logs, loop
        self._address = f"{config.host}:{config.port}"

    def rows(self) -> list[Row]:
        """The requests that are answered here."""
        return [
            row(commands.GetRoute, self._on_route),
            row(commands.GetTopicList, self._on_topics),
            row(commands.GetClusterInfo, self._on_cluster),
            row(commands.DeleteTopicRoute, self._on_delete),
            row(commands.GetBrokerStatistics, self._on_statistics),
            row(commands.GetBrokerConfig, self._on_config),
        ]

    def _on_route(self, call: Call[GetRoute]) -> RouteReply:
        topic, config = call.request.topic, self._config
        if is_light_queue(topic):
            refuse_light(topic)
        known = self._topics.registered_one(topic)
        if known is None:
            raise TopicNotFound(topic[:255])
        _, reads, writes, permission, incarnation = known
        return RouteReply(
            ((config.name, reads, writes, permission),),
            ((config.cluster, config.name, ((MASTER_ID, self._address),)),),
            publish_port=config.port,
            cluster_ids=((config.cluster, self._logs.cluster_id),),
            incarnations=(incarnation,),
        )

    def _on_topics(self, call: Call[GetTopicList]) -> TopicListReply:
        names = sorted(name for name, *_ in self._topics.registered())
        return TopicListReply(tuple(name for name in names if name > call.request.after))

    def _on_delete(self, _: Call[DeleteTopicRoute]) -> Done:
        """Routes are made of the topics there are."""
        return Done()

    def _on_cluster(self, call: Call[GetClusterInfo]) -> None:
        config = self._config
        broker = {
            "cluster": config.cluster,
            "cluster_id": self._logs.cluster_id,
            "broker_name": config.name,
            "broker_id": MASTER_ID,
            "address": self._address,
            "replication_address": "",
            "epoch": 1,
            "last_heartbeat_ms_ago": 0,
            "writeable": self._logs.poisoned is None,
        }
        reply_json(self._loop, call, {"clusters": {config.cluster: [config.name]}, "brokers": [broker]})

    def _on_statistics(self, call: Call[GetBrokerStatistics]) -> None:
        document: dict[str, Any] = {
            "queues": len(self._logs.listed()),
            "refuses_writes": self._logs.poisoned,
            "cpu_seconds": process_cpu_ns() / 1e9,
            "memory_bytes": None,  # the program's own is in it, too
            "stages": {},
        }
        reply_json(self._loop, call, document)

    def _on_config(self, call: Call[GetBrokerConfig]) -> None:
        reply_json(self._loop, call, describe_config(self._config))
