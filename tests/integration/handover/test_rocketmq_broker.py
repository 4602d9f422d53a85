"""RocketMQ's own broker takes over a store of ours with delayed messages, and ours takes it back.

It runs where Java, Maven and the jars of pom.xml are there already; it downloads nothing.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from handover_kit import Life, unique
from store_kit import SMALL, StillClock, message, put, read_queue

from zenitmq.broker.group.hand_over import hand_over
from zenitmq.model.clock import SystemClock
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.store.config import StoreConfig

HERE = Path(__file__).parent
SEGMENT = 1 << 17
CONFIG = StoreConfig(**{**SMALL, "segment_bytes": SEGMENT})
LATER = range(100, 160)
FAR = (200, 201)
RECALLED = (300, 301)
LEVELS = (400, 401, 402)
HOUR_MS = 3_600_000
OPEN = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref", "java.base/java.lang")


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with RocketMQ's broker and all it needs."""
    given = os.environ.get("ZENIT_ROCKETMQ_JARS")
    if given:
        return Path(given)
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("RocketMQ's own broker is not tried: there is no Java, or no Maven")
    folder = tmp_path_factory.mktemp("jars")
    command = ["mvn", "-o", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    made = subprocess.run(
        [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, timeout=120, check=False
    )
    if made.returncode:
        pytest.skip("RocketMQ's own broker is not tried: its jars are not here (CONTRIBUTING.md says how to get them)")
    return folder


def free_ports() -> int:
    """Of a broker for its clients; it takes the one two below as well, and the next is for replicas."""
    while True:
        with ExitStack() as bound:
            first = bound.enter_context(socket.socket())
            first.bind(("", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError):
                for other in (port - 2, port + 1):
                    bound.enter_context(socket.socket()).bind(("", other))
                return port


def run_rocketmq(jars: Path, work: Path, settings: dict[str, str], *, messages: int) -> str:
    """Its broker has the store until queue 0 of "t" holds so many messages, and 3 s more."""
    conf = work / "broker.conf"
    port = free_ports()
    mine = {"brokerName": "broker-a", "brokerClusterName": "zenit", "listenPort": port, "haListenPort": port + 1}
    conf.write_text("".join(f"{name}={value}\n" for name, value in {**settings, **mine}.items()))
    options = [f"--add-{kind}={package}=ALL-UNNAMED" for package in OPEN for kind in ("opens", "exports")]
    java = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", f"-Duser.home={work}", "-Dtls.server.mode=disabled", *options]
    command = [*java, "-cp", f"{jars}/*", str(HERE / "RunBroker.java"), str(conf), "t", str(messages), "60", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=work)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def fill(directory: Path) -> None:
    with Life(directory, StillClock(SystemClock().now_ms()), config=CONFIG) as life:
        life.begin()
        life.delay(0, 1)
        life.delay(1, 2000, named=False)
        for number in LATER:
            life.delay(number, 15_000 + number * 10)
        for number in FAR:
            life.delay(number, HOUR_MS)
        for number in LEVELS:
            life.delay_by_level(number, 3)
        for number in RECALLED:
            offset = life.delay(number, 15_000)
            life.delays.stage_end(offset, "t", unique(number), life.clock.time_ms + 15_000)
            life.store.commit()
        put(life.store, "t", 0, *(message("t", b"x" * 30_000) for _ in range(3)))
        put(life.store, "t", 0, *(message("t", b"x" * 30_000) for _ in range(3)))
        assert life.store.written > SEGMENT


@pytest.mark.timeout(400)  # 30 s of a machine that does nothing else
def test_waits_come_when_due_once_and_back_here_none_comes_again(jars: Path, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    fill(directory)
    document = hand_over(str(directory), CONFIG, clock=SystemClock())
    due = {0, 1, *LATER, *LEVELS}
    assert document["waiting"] == len(due) + len(FAR)
    told = run_rocketmq(jars, tmp_path, document["broker_conf"], messages=6 + len(due))
    assert f"messages {6 + len(due)}\n" in told
    clock = StillClock(SystemClock().now_ms())
    with Life(directory, clock, config=CONFIG) as life:
        found = [record for record in read_queue(life.store, "t", 0) if len(record.body) < 9]
        assert sorted(int(record.body) for record in found) == sorted(due)
        for record in found:
            out_ms = int(record.properties["TIMER_OUT_MS"])
            assert out_ms <= record.stored_at_ms
            deliver_at_ms = int(record.properties.get("TIMER_DELIVER_MS", out_ms))
            assert deliver_at_ms - 1001 <= record.stored_at_ms
        handed = read_queue(life.store, TIMER_TOPIC, 0)
        assert len(handed) >= document["waiting"]
        all_bodies = life.deliver(clock.time_ms + 2 * HOUR_MS)
        assert sorted(int(body) for body in all_bodies if len(body) < 9) == sorted([*due, *FAR])
