"""`zenit top` against a broker: once as JSON, and live on a terminal with its keys."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from zenitmq.client.admin import Admin
from zenitmq.client.producer import Producer
from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))
WAIT_S = 60


def test_once_there_is_one_document_with_rates(one_broker: LocalCluster) -> None:
    with Admin(one_broker.namesrv) as admin, Producer(namesrv=one_broker.namesrv) as producer:
        admin.create_topic("busy", queues=2)
        admin.create_group("late")
        producer.send_bodies("busy", [b"before"] * 10)
        command = [
            ZENIT,
            "top",
            "--once",
            "--json",
            "--interval",
            "0.5",
            "--sort",
            "lag",
            "--namesrv",
            one_broker.namesrv,
        ]
        with subprocess.Popen(command, env=one_broker.environ, stdout=subprocess.PIPE) as process:
            while process.poll() is None:
                producer.send_bodies("busy", [b"meanwhile"] * 10)
            assert process.stdout is not None
            (line,) = process.stdout.read().splitlines()
    document = json.loads(line)
    (broker,) = document["brokers"]
    assert (broker["role"], broker["in_sync"], broker["why"], broker["lag_bytes"]) == ("master", True, None, 0)
    assert broker["in_per_second"] > 0
    assert broker["in_bytes_per_second"] > 0
    assert 0 < broker["disk_use"] < 1
    assert (document["order"], document["unseen"]) == ("lag", {})
    rates = {topic["topic"]: topic["in_per_second"] for topic in document["topics"]}
    assert rates.get("busy", 0) > 0 or document["left_out"]["topics"]
    assert document["events"], "the newest, of whatever other tests made happen there"


def test_on_a_terminal_keys_sort_and_end_it(one_broker: LocalCluster) -> None:
    ours, its = pty.openpty()
    command = [ZENIT, "top", "--interval", "0.5", "--namesrv", one_broker.namesrv]
    with subprocess.Popen(
        command, env=one_broker.environ, stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as process:
        os.close(its)
        drawn = read_until(ours, rb"sorted by in")
        os.write(ours, b"l")
        drawn += read_until(ours, rb"sorted by lag")
        os.write(ours, b"q")
        drawn += read_until(ours, rb"\x1b\[\?1049l[^$]*sorted by lag")
        assert process.wait(WAIT_S) == 0
    os.close(ours)
    assert b"Traceback" not in drawn


def read_until(terminal: int, wanted: bytes) -> bytes:
    read = b""
    while not re.search(wanted, read):
        read += os.read(terminal, 65_536)
    return read


def test_a_wrong_order_is_wrong_usage(one_broker: LocalCluster) -> None:
    command = [ZENIT, "top", "--sort", "size", "--namesrv", one_broker.namesrv]
    done = subprocess.run(command, env=one_broker.environ, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, "expected in, out or lag" in done.stderr) == (2, True)
