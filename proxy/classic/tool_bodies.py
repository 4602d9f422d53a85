"""Bodies of the answers that RocketMQ's tools read: settings, members, figures of a broker. Pure.

They are made of the documents that our brokers answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...model.route import PERMISSION_READ_WRITE
from ...model.subscription import Subscription
from .bodies import ClassicSubscription, json_body, subscription_of
from .codes import LANGUAGES, OUR_VERSION

ORIGIN: Final = "RocketMQ "
"""Stands before the language of a client that came by a proxy."""
NATIVE: Final = "PYTHON"
UNKNOWN: Final = "N"
"""RocketMQ's text for a figure that a broker does not have."""
VERSION_TEXT: Final = "ZenitMQ"
_DATA_VERSION: Final = {"counter": 0, "stateVersion": 0, "timestamp": 0}


def topic_config(row: Mapping[str, Any]) -> dict[str, object]:
    """A topic's settings. `row`: of GetTopics."""
    return {
        "attributes": dict(row["attributes"]),
        "order": row["order"],
        "perm": row["permission"] & PERMISSION_READ_WRITE,
        "readQueueNums": row["read_queues"],
        "topicFilterType": "SINGLE_TAG",
        "topicName": row["name"],
        "topicSysFlag": 0,
        "writeQueueNums": row["write_queues"],
    }


def topic_configs_body(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Of all topics of a broker."""
    table = {row["name"]: topic_config(row) for row in rows}
    return json_body({"dataVersion": _DATA_VERSION, "topicConfigTable": table})


def group_config(row: Mapping[str, Any]) -> dict[str, object]:
    """A group's settings; of one that nobody has set anything of, those that RocketMQ takes then. `row`: of GetGroups."""
    return {**row["attributes"], "groupName": row["name"]}


def group_configs_body(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Of all groups of a broker."""
    table = {row["name"]: group_config(row) for row in rows}
    return json_body({"dataVersion": _DATA_VERSION, "forbiddenTable": {}, "subscriptionGroupTable": table})


def groups_of_topic(rows: Iterable[Mapping[str, Any]], topic: str) -> list[str]:
    """The groups that consume a topic. `rows`: of GetGroups."""
    return [row["name"] for row in rows if topic in row["topics"]]


def group_list_body(groups: Sequence[str]) -> bytes:
    """Groups by their names."""
    return json_body({"groupList": list(groups)})


def subscription_document(row: ClassicSubscription) -> dict[str, object]:
    """A subscription as RocketMQ writes it. Raises what a wrong expression raises."""
    wanted: Subscription = subscription_of(row)
    return {
        "classFilterMode": False,
        "codeSet": sorted(wanted.codes() or ()),
        "expressionType": wanted.kind.value,
        "subString": row.expression,
        "subVersion": 0,
        "tagsSet": sorted(wanted.tags),
        "topic": row.topic,
    }


def members_body(clients: Sequence[Mapping[str, Any]]) -> bytes:
    """The members of a group and what they subscribe to. `clients`: of GetGroupClients, not empty."""
    subscriptions = [ClassicSubscription(*row) for client in clients for row in client["subscriptions"]]
    model = clients[0]["model"]
    document = {
        "connectionSet": [_connection(client) for client in clients],
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model if model == "BROADCASTING" else "CLUSTERING",
        "subscriptionTable": {row.topic: subscription_document(row) for row in subscriptions},
    }
    return json_body(document)


def _connection(client: Mapping[str, Any]) -> dict[str, object]:
    language = client["language"].removeprefix(ORIGIN)
    is_foreign = language in LANGUAGES and language != client["language"]
    version = client["version"]
    return {
        "clientAddr": client["host"],
        "clientId": client["client_id"],
        "language": language if is_foreign else NATIVE,
        "version": int(version) if is_foreign and version.isdecimal() else OUR_VERSION,
    }


def subscription_body(group: str, row: ClassicSubscription) -> bytes:
    """What a group wants of a topic."""
    return json_body({"group": group, "subscriptionData": subscription_document(row), "topic": row.topic})


def settings_text(document: Mapping[str, Any]) -> bytes:
    """A broker's settings, a line each, as `name=value`. `document`: of GetBrokerConfig."""
    return "".join(f"{name}={_plain(value)}\n" for name, value in sorted(document.items())).encode()


def figures_body(before: Mapping[str, Any], now: Mapping[str, Any], seconds: float) -> bytes:
    """A broker's figures: RocketMQ's names for those that its tools print, and behind them all of ours. `before`, `now`: of
    GetBrokerStatistics, so many seconds apart: rates are of that time. Totals are those since the broker's process began."""
    puts, gets = now["sends"]["messages"], now["pulls"]["messages"] + now["pops"]["messages"]
    puts_before, gets_before = before["sends"]["messages"], before["pulls"]["messages"] + before["pops"]["messages"]
    lanes = now["loop"]["lanes"]
    table = {
        "bootTimestamp": str(now["started_at_ms"]),
        "brokerActive": "true",
        "brokerVersion": str(OUR_VERSION),
        "brokerVersionDesc": VERSION_TEXT,
        "commitLogDiskRatio": str(now["store"]["disk_use"]),
        "commitLogMaxOffset": str(now["store"]["written_offset"]),
        "commitLogMinOffset": str(now["store"]["begin_offset"]),
        "getTransferredTps": _rate(gets - gets_before, seconds),
        "msgGetTotalTodayMorning": "0",
        "msgGetTotalTodayNow": str(gets),
        "msgGetTotalYesterdayMorning": "0",
        "msgPutTotalTodayMorning": "0",
        "msgPutTotalTodayNow": str(puts),
        "msgPutTotalYesterdayMorning": "0",
        "pageCacheLockTimeMills": UNKNOWN,
        "pullThreadPoolQueueHeadWaitTimeMills": UNKNOWN,
        "pullThreadPoolQueueSize": str(lanes["pull"]["queued"]),
        "putTps": _rate(puts - puts_before, seconds),
        "sendThreadPoolQueueHeadWaitTimeMills": UNKNOWN,
        "sendThreadPoolQueueSize": str(lanes["send"]["queued"]),
    }
    return json_body({"table": table | dict(_leaves("zenit", now))})


def _rate(count: int, seconds: float) -> str:
    """RocketMQ has three rates, of the last ten seconds and more: here is one."""
    return f"{count / seconds:.2f}"


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}", part)
    else:
        yield name, _plain(value)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json_body(value).decode()
