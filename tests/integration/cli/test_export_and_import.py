"""A store that is exported and imported into a cluster: the same messages, each queue's in its order."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner
from unit.model.test_export_line import PLAIN

from zenitmq import LiteConsumer, Message, Producer
from zenitmq.cli.commands import store_import
from zenitmq.cli.main import application
from zenitmq.client.admin import Admin
from zenitmq.model.export_line import ExportedMessage
from zenitmq.model.message import BODY_BYTES_MAX
from zenitmq.model.properties import decode_properties
from zenitmq.pipeline.export_table import read_table
from zenitmq.store.offline.export_file import LineWriter, read_export
from zenitmq.testing import LocalCluster


def zenit(*arguments: str):
    return CliRunner().invoke(application(), list(arguments))


def messages(path: Path, topic: str) -> list:
    with path.open("rb") as file:
        read = read_table(str(path), file) if path.suffix == ".parquet" else read_export(str(path))
        return [said for _, said in read if getattr(said, "topic", None) == topic]


def export(cluster: LocalCluster, topic: str, count: int, path: Path) -> list:
    """The messages of an export that has so many: what the broker has not flushed yet is in a later one only."""
    deadline = time.monotonic() + 20
    while True:
        run = zenit("store", "export", store_of(cluster), "--to", str(path), "--topic", topic)
        assert run.exit_code == 0, run.stderr
        found = messages(path, topic)
        if len(found) == count or time.monotonic() > deadline:
            return found
        path.unlink()
        time.sleep(0.1)


def by_queue(found: list) -> list[list[bytes]]:
    queues: dict[int, list[bytes]] = {}
    for one in found:
        queues.setdefault(one.queue_id, []).append(one.body)
    return sorted(queues.values())


def sent_of(one: ExportedMessage) -> tuple:
    """What its producer said."""
    properties = decode_properties(one.properties)
    return one.body, one.flag, *(properties[name] for name in ("TAGS", "KEYS", "region"))


def store_of(cluster: LocalCluster) -> str:
    status = json.loads(zenit("status", "--json", "--dir", cluster.directory).stdout)
    return next(process["store_dir"] for process in status["processes"] if process["role"] == "broker")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_there_and_back(one_broker: LocalCluster, tmp_path: Path, kind: str) -> None:
    one_broker.create_topic("leaving", queues=3)
    with Producer("p", namesrv=one_broker.namesrv) as producer:
        for n in range(700):
            properties = {"region": f"r{n % 5}"}
            body = b"\xff%d" % n if n % 2 else b"text %d" % n
            producer.send_async(Message("leaving", body, tags="t", keys=[f"k{n}"], properties=properties, flag=n))
        producer.flush()
    first, second = tmp_path / f"first.{kind}", tmp_path / f"second.{kind}"
    before = export(one_broker, "leaving", 700, first)
    with Admin(one_broker.namesrv) as admin:
        admin.delete_topic("leaving")
    run = zenit("store", "import", str(first), "--namesrv", one_broker.namesrv, "--json")
    assert run.exit_code == 0, run.stderr
    document = json.loads(run.stdout)
    assert (document["sent"], document["skipped"], document["topics_made"]) == (700, 0, ["leaving"])
    with Admin(one_broker.namesrv) as admin:
        assert len(admin.queues("leaving")) == 3
    after = export(one_broker, "leaving", 700, second)
    assert len(before) == len(after) == 700
    assert by_queue(before) == by_queue(after)
    assert {sent_of(one) for one in before} == {sent_of(one) for one in after}
    assert len({sent_of(one) for one in after}) == 700
    with Admin(one_broker.namesrv) as admin:
        admin.delete_topic("leaving")


def test_priorities_come_back(one_broker: LocalCluster, tmp_path: Path) -> None:
    """Each in the queue of its priority, where those who wait for the highest first look."""
    with Admin(one_broker.namesrv) as admin, Producer("p", namesrv=one_broker.namesrv) as producer:
        admin.create_topic("leaving-urgent", queues=4, attributes={"message.type": "PRIORITY"})
        for n in range(20):
            producer.send(Message("leaving-urgent", b"%d" % n, priority=n % 6))
        producer.send(Message("leaving-urgent", b"plain"))
        first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
        before = export(one_broker, "leaving-urgent", 21, first)
        admin.delete_topic("leaving-urgent")
        run = zenit("store", "import", str(first), "--namesrv", one_broker.namesrv, "--json")
        assert run.exit_code == 0, run.stderr
        after = export(one_broker, "leaving-urgent", 21, second)
        admin.delete_topic("leaving-urgent")
    priorities = [
        {one.body: (one.queue_id, decode_properties(one.properties).get("_SYS_MSG_PRIORITY_")) for one in found}
        for found in (before, after)
    ]
    for found in priorities:
        del found[b"plain"]  # in any queue
    assert priorities[0] == priorities[1]
    assert priorities[1][b"4"] == (3, "4")


def test_lite_topics_come_back_under_their_names(one_broker: LocalCluster, tmp_path: Path) -> None:
    with Admin(one_broker.namesrv) as admin, Producer("p", namesrv=one_broker.namesrv) as producer:
        admin.create_topic("leaving-chats", attributes={"message.type": "LITE"})
        for n in range(30):
            more = {"light_queues": ("%LMQ%leaving",)} if n % 5 == 0 else {}
            producer.send(Message("leaving-chats", b"%d" % n, lite_topic=f"s{n % 7}", **more))
        path = tmp_path / "chats.jsonl"
        export(one_broker, "leaving-chats", 30, path)
        admin.delete_topic("leaving-chats")
        before = admin.light_queues("leaving")["light_queues"][0]["max_offset"]
        run = zenit("store", "import", str(path), "--namesrv", one_broker.namesrv, "--json")
        assert run.exit_code == 0, run.stderr
        assert json.loads(run.stdout)["topics_made"] == ["leaving-chats"]
        assert [row["lite_topic"] for row in admin.lite_topics("leaving-chats")["lite_topics"]] == [
            f"s{n}" for n in range(7)
        ]
        assert admin.light_queues("leaving")["light_queues"][0]["max_offset"] == before + 6
    found: dict[str, list[bytes]] = {}
    with LiteConsumer("back", namesrv=one_broker.namesrv) as consumer:
        consumer.subscribe("leaving-chats", [f"s{n}" for n in range(7)])
        deadline = time.monotonic() + 20
        while sum(map(len, found.values())) < 30 and time.monotonic() < deadline:
            for message in consumer.receive(100, wait=5):
                found.setdefault(message.lite_topic, []).append(message.body)
                consumer.ack(message)
    assert found == {f"s{n}": [b"%d" % m for m in range(n, 30, 7)] for n in range(7)}


def test_a_wrong_line_is_refused_before_anything_is_sent(one_broker: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b'{"zenit_export":1,"topics":{"never made":{}}}\n{}\n')
    run = zenit("store", "import", str(path), "--namesrv", one_broker.namesrv)
    assert run.exit_code == 1
    assert "line 2: " in str(run.exception) + run.stderr


def test_a_wrong_table_is_refused_before_anything_is_sent(one_broker: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    path.write_bytes(b"PAR1 and no more")
    run = zenit("store", "import", str(path), "--namesrv", one_broker.namesrv)
    assert run.exit_code == 1
    assert "line 1: " in str(run.exception) + run.stderr


def test_an_import_that_stops_says_with_which_line_it_goes_on(
    one_broker: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that no broker takes: what lies in windows before it is sent, and the import goes on behind it."""
    monkeypatch.setattr(store_import, "WINDOW_LINES", 2)
    bodies = [b"1", b"2", b"3", bytes(BODY_BYTES_MAX + 1), b"5", b"6"]
    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        writer = LineWriter(file, {"stopping": {"queues": 2}})
        for n, body in enumerate(bodies):
            writer.write(replace(PLAIN, topic="stopping", queue_id=n % 2, queue_offset=n, body=body))
        writer.end({"messages": len(bodies)})
    run = zenit("store", "import", str(path), "--namesrv", one_broker.namesrv)
    assert run.exit_code == 1
    assert "lines up to 3 are sent, some behind them perhaps; go on with --from-line 4" in run.stderr
    run = zenit("store", "import", str(path), "--from-line", "6", "--namesrv", one_broker.namesrv, "--json")
    assert json.loads(run.stdout)["sent"] == 2
    found = export(one_broker, "stopping", 5, tmp_path / "y.jsonl")
    assert {one.body for one in found} - {b"3"} == {b"1", b"2", b"5", b"6"}
    assert all(b"IMPORT_ORIGIN\x01stopping:" in one.properties for one in found)
