"""`zenit topic create --type lite`, `zenit topic lite list`, `zenit group lite`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zenitmq import Admin, LiteConsumer, Message, Producer
from zenitmq.client.administration import admin_lite
from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))


def run(cluster: LocalCluster, *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    command = [ZENIT, *arguments, "--namesrv", cluster.namesrv]
    return subprocess.run(
        command, env=cluster.environ, check=False, capture_output=True, text=True, timeout=60, input=lines
    )


def zenit(cluster: LocalCluster, *arguments: str) -> str:
    done = run(cluster, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lite_topics_and_what_groups_have_of_them_are_shown(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "lite-parent", "--type", "lite", "--lite-expiry", "36h")
    with Admin(one_broker.namesrv) as admin:
        (config,) = (topic for topic in admin.topic_configs() if topic["name"] == "lite-parent")
    assert config["attributes"] == {"message.type": "LITE", "lite.topic.expiration": "2160"}
    assert config["write_queues"] == 1
    with (
        Producer(namesrv=one_broker.namesrv) as producer,
        LiteConsumer("lite-agents", namesrv=one_broker.namesrv) as consumer,
    ):
        consumer.subscribe("lite-parent", ["a", "b"])
        for name in ("a", "b", "c"):
            producer.send(Message("lite-parent", b"x", lite_topic=name))
        listed = json.loads(zenit(one_broker, "topic", "lite", "list", "lite-parent", "--json"))
        assert [(row["lite_topic"], row["subscribers"]) for row in listed["lite_topics"]] == [
            ("a", 1),
            ("b", 1),
            ("c", 0),
        ]
        assert zenit(one_broker, "topic", "lite", "list", "lite-parent", "--limit", "2").endswith("3 lite topics\n")
        shown = json.loads(zenit(one_broker, "group", "lite", "lite-agents", "--json"))
        assert [(row["lite_topic"], row["lag"]) for row in shown["lite_topics"]] == [("a", 1), ("b", 1)]
        assert [row["lite_topics"] for row in shown["members"]] == [2]
        assert "lite-parent" in zenit(one_broker, "group", "lite", "lite-agents")
    listed = json.loads(zenit(one_broker, "topic", "lite", "list", "lite-parent", "--json"))
    assert [row["subscribers"] for row in listed["lite_topics"]] == [0, 0, 0], "it is closed"


def test_light_queues_are_listed_by_the_beginning_of_their_names(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "listed")
    with Producer(namesrv=one_broker.namesrv) as producer:
        for n in range(5):
            producer.send(Message("listed", b"x", light_queues=(f"%LMQ%mine-{n % 3}", "%LMQ%other")))
    shown = json.loads(zenit(one_broker, "topic", "light-queues", "--prefix", "mine", "--json"))
    assert (shown["prefix"], shown["count"]) == ("%LMQ%mine", 3)
    assert [(row["light_queue"], row["topic"], row["max_offset"]) for row in shown["light_queues"]] == [
        (f"%LMQ%mine-{n}", "listed", 2 - n // 2) for n in range(3)
    ]
    assert all(row["last_stored_at_ms"] and row["broker_name"] for row in shown["light_queues"])
    text = zenit(one_broker, "topic", "light-queues", "--prefix", "%LMQ%mine", "--limit", "2")
    assert "%LMQ%mine-1" in text
    assert "%LMQ%mine-2" not in text
    assert text.endswith("3 light queues\n")
    with Admin(one_broker.namesrv) as admin, pytest.MonkeyPatch.context() as patched:
        patched.setattr(admin_lite, "PAGE", 2)
        assert admin.light_queues("mine") == shown


def test_an_expiry_that_is_no_number_of_minutes_is_refused(one_broker: LocalCluster) -> None:
    for text in ("30s", "90s", "0m"):
        refused = run(one_broker, "topic", "create", "lite-wrong", "--type", "lite", "--lite-expiry", text)
        assert refused.returncode == 2
        assert "counts in minutes" in " ".join(refused.stderr.replace("│", " ").split())


def test_lines_are_sent_to_a_lite_topic(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "lite-lines", "--type", "lite")
    refused = run(one_broker, "produce", "lite-lines", lines="one\ntwo\n")
    assert refused.returncode == 1
    assert "--lite-topic NAME" in refused.stderr
    sent = run(one_broker, "produce", "lite-lines", "--lite-topic", "a", "--tags", "t", lines="one\ntwo\n")
    assert sent.returncode == 0, sent.stderr
    with LiteConsumer("lite-readers", namesrv=one_broker.namesrv) as consumer:
        consumer.subscribe("lite-lines", "a")
        assert [(message.body, message.tags) for message in consumer.receive(10, wait=20)] == [
            (b"one", "t"),
            (b"two", "t"),
        ]
    for more in (("--sharding-key", "k"), ("--shard-field", "1"), ("--priority", "3")):
        assert run(one_broker, "produce", "lite-lines", "--lite-topic", "a", *more).returncode == 2
    assert run(one_broker, "produce", "lite-lines", "--lite-topic", "a b", lines="one\n").returncode == 2


def test_what_is_wrong_is_told_in_one_line(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "lite-none")
    refused = run(one_broker, "topic", "lite", "list", "lite-none")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "has no lite topics" in refused.stderr
    for arguments in (
        ("topic", "create", "lite-wrong", "--type", "lite", "--lite-expiry", "40d"),
        ("topic", "create", "lite-wrong", "--lite-expiry", "1d"),
        ("topic", "create", "lite-wrong", "--type", "small"),
        ("group", "create", "lite-wrong", "--attr", "lite.sub.model=Some"),
    ):
        assert run(one_broker, *arguments).returncode == 1
