"""The commands of RocketMQ's mqadmin that read, and what those that are not served are told. docs: rocketmq-clients/mqadmin."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from classic_clients import JAVA_VERSIONS, TOOLS, has_tools, tools_command
from classic_kit import BareClient, RunningFront, heartbeat, running_front
from proxy_clients import needs_client

from zenitmq import Message, Producer, SendReceipt, SimpleConsumer
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(120)
TOPIC, GROUP = "tool-orders", "tool-billing"
END = "--end--"


class Mqadmin:
    """One process for all commands."""

    def __init__(self, version: str, front: RunningFront) -> None:
        self.process = subprocess.Popen(
            tools_command(version, front.address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.version = version

    def run(self, *words: str) -> list[list[str]]:
        """The words of each line that it prints."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.rstrip() == END:
                return lines
            lines.append(line.split())
        raise AssertionError(lines)

    def close(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def front(cluster: LocalCluster) -> Iterator[RunningFront]:
    with running_front(cluster.namesrv) as running:
        yield running


@pytest.fixture(scope="module")
def sent(cluster: LocalCluster, front: RunningFront) -> Iterator[list[SendReceipt]]:
    """Three messages in one queue, of which a group that has a member has consumed two, natively."""
    cluster.create_topic(TOPIC, queues=2)
    with ExitStack() as opened:
        producer = opened.enter_context(Producer(namesrv=cluster.namesrv))
        receipts = [
            producer.send(
                Message(TOPIC, f"order {number}".encode(), tags="blue", keys=(f"key-{number}",)), sharding_key="s"
            )
            for number in range(3)
        ]
        queue = receipts[0].queue
        client = opened.enter_context(BareClient(broker_port(front)))
        assert client.ask(34, heartbeat("tool-client", GROUP, TOPIC, "blue || red")).code == 0
        commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue.queue_id, "commitOffset": 2}
        assert client.ask(15, **commit).code == 0
        yield receipts


@pytest.fixture(
    scope="module",
    params=[pytest.param(version, marks=needs_client(TOOLS, is_there=has_tools(version))) for version in JAVA_VERSIONS],
)
def mqadmin(request: pytest.FixtureRequest, front: RunningFront, sent: list[SendReceipt]) -> Iterator[Mqadmin]:
    tool = Mqadmin(str(request.param), front)
    try:
        yield tool
    finally:
        tool.close()


def broker_port(front: RunningFront) -> int:
    return front.on_loop(lambda: int(front.server.ports.addresses["broker-a"].rpartition(":")[2]))


def row(lines: list[list[str]], first: str) -> list[str]:
    """The line that begins with that word."""
    found = [words for words in lines if words[:1] == [first]]
    assert len(found) == 1, lines
    return found[0]


def test_what_the_cluster_is(mqadmin: Mqadmin, front: RunningFront) -> None:
    address = f"127.0.0.1:{broker_port(front)}"
    cluster = row(mqadmin.run("clusterList"), "zenit")
    assert cluster[:5] == ["zenit", "broker-a", "0", address, "ZenitMQ"]
    totals = row(mqadmin.run("clusterList", "-m"), "zenit")
    assert int(totals[4]) >= 3  # messages in
    figures = mqadmin.run("brokerStatus", "-b", address)
    assert row(figures, "zenit.role")[-1] == "master"
    assert int(row(figures, "zenit.sends.messages")[-1]) >= 3
    settings = mqadmin.run("getBrokerConfig", "-b", address)
    assert row(settings, "name")[-1] == "broker-a"


def test_topics(mqadmin: Mqadmin, sent: list[SendReceipt]) -> None:
    queue = sent[0].queue
    assert [TOPIC] in mqadmin.run("topicList")
    assert ["zenit", TOPIC, GROUP] in mqadmin.run("topicList", "-c")
    assert ["zenit"] in mqadmin.run("topicClusterList", "-t", TOPIC)
    route = " ".join(word for words in mqadmin.run("topicRoute", "-t", TOPIC) for word in words)
    assert '"readQueueNums":2' in route.replace(" ", "")
    for more in ((), ("-c", "zenit"))[: 2 if mqadmin.version == JAVA_VERSIONS[0] else 1]:  # 4.9 has no -c
        status = mqadmin.run("topicStatus", "-t", TOPIC, *more)
        offsets = {words[1]: words[2:4] for words in status if words[:1] == ["broker-a"]}
        assert offsets == {"0": ["0", "0"], "1": ["0", "0"]} | {str(queue.queue_id): ["0", "3"]}


def test_groups(mqadmin: Mqadmin, sent: list[SendReceipt]) -> None:
    queue = sent[0].queue
    every = row(mqadmin.run("consumerProgress"), GROUP)
    assert (every[1], every[3:5], every[-1]) == ("1", ["PUSH", "CLUSTERING"], "1")
    one = mqadmin.run("consumerProgress", "-g", GROUP)
    assert [TOPIC, "broker-a", str(queue.queue_id), "3", "2", "1"] in [words[:6] for words in one]
    members = mqadmin.run("consumerConnection", "-g", GROUP)
    assert any("tool-client" in words and "JAVA" in words for words in members)
    assert any(TOPIC in words and "red" in " ".join(words) for words in members)
    settings = mqadmin.run("getConsumerConfig", "-g", GROUP)
    assert any(words[-1:] == ["16"] for words in settings if words[:1] == ["retryMaxTimes"])


def test_a_group_without_a_retry_topic_is_told_too(mqadmin: Mqadmin, cluster: LocalCluster) -> None:
    """As one of native or gRPC clients has none before something of it has failed."""
    group = f"tool-quiet-{mqadmin.version.replace('.', '-')}"
    with SimpleConsumer(group, namesrv=cluster.namesrv) as consumer:
        consumer.subscribe(TOPIC)
        assert consumer.receive(1)
    one = mqadmin.run("consumerProgress", "-g", group)
    assert [TOPIC, "broker-a"] in [words[:2] for words in one], one


def test_messages(mqadmin: Mqadmin, sent: list[SendReceipt], front: RunningFront) -> None:
    last = sent[2]
    queue_id, offset = str(last.queue.queue_id), str(last.queue_offset)
    assert [last.message_id, queue_id, offset] in [
        words[:3] for words in mqadmin.run("queryMsgByKey", "-t", TOPIC, "-k", "key-2")
    ]
    by_offset = mqadmin.run("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", queue_id, "-o", offset)
    offset_id = row(by_offset, "OffsetID:")[1]
    by_unique_key = mqadmin.run("queryMsgByUniqueKey", "-t", TOPIC, "-i", last.message_id)
    paths = {Path("/tmp/rocketmq/msgbodys", receipt.message_id) for receipt in (sent[0], last)}
    topic = ("-t", TOPIC) if mqadmin.version == JAVA_VERSIONS[0] else ()  # 4.9 has no -t here
    for found in (by_offset, by_unique_key, mqadmin.run("queryMsgById", *topic, "-i", offset_id)):
        assert row(found, "Keys:")[1] == "[key-2]"
        path = Path(next(words[-1] for words in found if words[:3] == ["Message", "Body", "Path:"]))
        paths.add(path)
        assert path.read_bytes() == b"order 2"
        track = " ".join(word for words in found for word in words)
        assert f"consumerGroup={GROUP}" in track
        assert "NOT_CONSUME_YET" in track
    consumed = mqadmin.run("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", queue_id, "-o", "0")
    assert "trackType=CONSUMED" in " ".join(word for words in consumed for word in words)
    for path in paths:
        path.unlink(missing_ok=True)
    printed = mqadmin.run("printMsg", "-t", TOPIC)
    assert sum("BODY:" in words for words in printed) == 3, printed
    one_queue = mqadmin.run("printMsgByQueue", "-t", TOPIC, "-a", "broker-a", "-i", queue_id, "-p", "true")
    assert sum("BODY:" in words for words in one_queue) == 3, one_queue


def test_what_is_not_served_names_what_does_it(mqadmin: Mqadmin, front: RunningFront) -> None:
    address = f"127.0.0.1:{broker_port(front)}"
    for words, instead in (
        (("updateBrokerConfig", "-b", address, "-k", "a", "-v", "b"), "zenit config"),
        (("wipeWritePerm", "-b", "broker-a"), "zenit topic update"),
        (("updateNamesrvConfig", "-k", "a", "-v", "b"), "zenit config"),
    ):
        told = " ".join(word for line in mqadmin.run(*words) for word in line)
        assert instead in told, told


def test_a_topic_and_a_group_can_be_made_changed_and_deleted(mqadmin: Mqadmin) -> None:
    name = f"tool-made-{mqadmin.version.replace('.', '-')}"
    mqadmin.run("updateTopic", "-c", "zenit", "-t", name, "-r", "3", "-w", "3")
    status = mqadmin.run("topicStatus", "-t", name)
    assert sum(words[:1] == ["broker-a"] for words in status) == 3, status
    mqadmin.run("updateSubGroup", "-c", "zenit", "-g", name, "-r", "5")
    settings = mqadmin.run("getConsumerConfig", "-g", name)
    assert any(words[-1:] == ["5"] for words in settings if words[:1] == ["retryMaxTimes"]), settings
    mqadmin.run("deleteSubGroup", "-c", "zenit", "-g", name)
    mqadmin.run("deleteTopic", "-c", "zenit", "-t", name)
    assert [name] not in mqadmin.run("topicList")
