"""Topics that brokers make by themselves: of a group's retries and of its dead letters.

A broker tells the name servers of them soon, not at once. Until then its master is asked, so that an administrator finds each
message that a broker has said to be there.
"""

from __future__ import annotations

import logging
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import NoRoute, TopicNotFound, ZenitError
from ...model.redelivery import dead_letter_group, is_retry_topic
from ...model.route import MASTER_ID, PERMISSION_READ_WRITE, BrokerData, QueueData, TopicRoute
from ...remoting.commands import GetClusterInfo, GetTopics, GetTopicStatistics, JsonReply, RequestFor
from .connection import Connection
from .documents import Document, document_of
from .waiting import Waits

log = logging.getLogger(__name__)

OTHER_MASTER_MS: Final = 2_000  # for the answer of one master, where the name servers know something


def is_made_by_brokers(topic: str) -> bool:
    """Whether it holds a group's retries or dead letters."""
    return is_retry_topic(topic) or dead_letter_group(topic) is not None


async def new_topics(connection: Connection, waits: Waits, prefix: str, *, timeout_ms: int) -> set[str]:
    """What the masters have whose names begin so. One that does not answer is logged and left out. `timeout_ms`: for all."""
    deadline_ms = monotonic_ms() + timeout_ms
    found: set[str] = set()
    for master in await masters_now(connection, waits, timeout_ms=timeout_ms):
        told = await _told(waits, master, GetTopics(prefix), min(OTHER_MASTER_MS, deadline_ms - monotonic_ms()))
        if isinstance(told, ZenitError):
            log.warning("a master does not tell its topics broker=%s error=%s", master.broker_name, told)
        else:
            found.update(topic["name"] for topic in told["topics"])
    return {name for name in found if name.startswith(prefix)}  # an older broker tells all


async def whole_route(connection: Connection, waits: Waits, topic: str, *, timeout_ms: int) -> TopicRoute:
    """The route fetched now, with the masters that have the topic and are not in it yet. `timeout_ms`: for all requests.

    Raises TopicNotFound if no master has it. If no name server knows it and a master does not answer, raises why; if one knows
    it, that master is logged and left out. Otherwise raises as RouteCache.refresh does.
    """
    deadline_ms = monotonic_ms() + timeout_ms
    try:
        route, limit_ms = await connection.routes.refresh(topic, waits, timeout_ms=timeout_ms), OTHER_MASTER_MS
    except TopicNotFound:
        route, limit_ms = TopicRoute(topic, (), ()), timeout_ms
    is_known = bool(route.queues)
    routed = {data.broker_name for data in route.queues}
    queues, brokers = list(route.queues), list(route.brokers)
    for master in await masters_now(connection, waits, timeout_ms=max(1, deadline_ms - monotonic_ms())):
        if master.broker_name in routed:
            continue
        told = await _told(waits, master, GetTopicStatistics(topic), min(limit_ms, deadline_ms - monotonic_ms()))
        if isinstance(told, TopicNotFound):
            continue
        if isinstance(told, ZenitError):
            if not is_known:
                raise told
            log.warning("a master does not tell of topic=%s broker=%s error=%s", topic, master.broker_name, told)
            continue
        count = len(told["queues"])
        queues.append(QueueData(master.broker_name, count, count, PERMISSION_READ_WRITE, told.get("incarnation") or 0))
        brokers.append(master)
    if not queues:
        raise TopicNotFound(topic)
    return TopicRoute(topic, tuple(queues), tuple(brokers))


async def masters_now(connection: Connection, waits: Waits, *, timeout_ms: int) -> list[BrokerData]:
    """The masters of all groups of our cluster. Raises NoRoute if there is none."""
    _, payload, _ = await connection.servers.ask(GetClusterInfo(), waits, timeout_ms=timeout_ms)
    masters = [
        BrokerData(found["cluster"], found["broker_name"], {MASTER_ID: found["address"]}, found["cluster_id"])
        for found in connection.routes.document_of_ours(document_of(payload))["brokers"]
        if found["broker_id"] == MASTER_ID
    ]
    if not masters:
        raise NoRoute("*", "no broker leads at present (see zenit status)")
    return masters


async def _told(
    waits: Waits, master: BrokerData, request: RequestFor[JsonReply], timeout_ms: int
) -> Document | ZenitError:
    try:
        _, payload = await waits.call(master.addresses[MASTER_ID], request, timeout_ms=max(1, timeout_ms))
        return document_of(payload)
    except ZenitError as error:
        return error
