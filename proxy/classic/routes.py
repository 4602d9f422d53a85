"""A topic's route as RocketMQ's clients read it. Pure.

    {"brokerDatas":[{"brokerAddrs":{"0":"host:port"},"brokerName":"broker-a","cluster":"..."}],
     "filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":8,...}]}

Each broker name has one address, of this proxy: replicas and their roles are the proxy's matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...model.route import PERMISSION_READ_WRITE, TopicRoute
from .bodies import json_body


def route_body(route: TopicRoute, addresses: Mapping[str, str]) -> bytes:
    """The body of the answer. `addresses`: {broker name: "host:port"} of this proxy; a broker without one is left out."""
    clusters = {broker.broker_name: broker.cluster for broker in route.brokers if broker.broker_name in addresses}
    queues = [
        {
            "brokerName": data.broker_name,
            "perm": data.permission & PERMISSION_READ_WRITE,
            "readQueueNums": data.read_queues,
            "topicSysFlag": 0,
            "writeQueueNums": data.write_queues,
        }
        for data in route.queues
        if data.broker_name in clusters
    ]
    brokers = [
        {
            "brokerAddrs": {"0": addresses[name]},
            "brokerName": name,
            "cluster": cluster,
            "enableActingMaster": False,
        }
        for name, cluster in sorted(clusters.items())
    ]
    return json_body({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues})
