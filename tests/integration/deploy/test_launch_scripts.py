"""The launch scripts together: a broker registers, a killed name server learns of it again, both end on SIGTERM."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zenitmq.model.errors import ZenitError
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import CreateTopic, GetClusterInfo, GetTopicList, TopicListReply

DEPLOY = Path(__file__).parents[3] / "deploy"
SMALL_STORE = ("store.segment_bytes=1048576", "store.index_slots=1000", "store.index_entries=4000")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def launched(script: str, log: Path, *settings: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(DEPLOY / script), *(word for setting in settings for word in ("--set", setting))]
    with open(log, "ab") as stream, subprocess.Popen(command, env=os.environ | environ, stderr=stream) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool], what: str, *, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(ZenitError):
            if condition():
                return
        time.sleep(0.05)
    pytest.fail(f"not within {within_s} s: {what}")


def test_a_broker_is_known_again_soon_after_its_name_server_was_killed(tmp_path: Path) -> None:
    port, broker_port = free_port(), free_port()
    address, broker_address = f"127.0.0.1:{port}", f"127.0.0.1:{broker_port}"
    broker = (f"namesrv={address}", f"port={broker_port}", *SMALL_STORE)
    log = tmp_path / "log"

    with RemotingClient() as client:

        def listed(topic: str) -> bool:
            reply, _ = client.call(address, GetTopicList(), timeout_ms=1000)
            return isinstance(reply, TopicListReply) and topic in reply.topics

        with launched("broker.sh", log, *broker, ZENIT_BROKER__STORE_DIR=str(tmp_path / "store")) as serving:
            with launched("namesrv.sh", log, f"port={port}", "listen_ms=0") as first:
                wait_until(lambda: known(client, address), "the broker registered")
                client.call(broker_address, CreateTopic("orders", 4, 4), timeout_ms=5000)
                wait_until(lambda: listed("orders"), "the new topic is told at once", within_s=5)
                first.kill()
                assert first.wait(10) < 0
            with launched("namesrv.sh", log, f"port={port}") as second:
                wait_until(lambda: listed("orders"), "the broker told the new name server", within_s=10)
                serving.terminate()
                assert serving.wait(20) == 0
                wait_until(lambda: not known(client, address), "the broker said that it leaves", within_s=5)
                second.terminate()
                assert second.wait(10) == 0
    assert "Traceback" not in log.read_text()


def known(client: RemotingClient, address: str) -> bool:
    """Whether the name server knows any broker."""
    _, payload = client.call(address, GetClusterInfo(), timeout_ms=1000)
    return bool(json.loads(payload)["brokers"])
