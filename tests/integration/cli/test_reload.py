"""SIGHUP: a server reads its configuration again, and goes on with what changes online."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zenitmq import Admin
from zenitmq.model.clock import monotonic_ms, sleep_ms

LIMIT_MS = 20_000


@contextmanager
def server(role: str, file: Path, log: Path, *settings: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "zenitmq", role, "--config", str(file)]
    for setting in settings:
        command += ["--set", setting]
    environment = {name: value for name, value in os.environ.items() if name != "ZENIT_LOG"}
    with log.open("wb") as lines, subprocess.Popen(command, stderr=lines, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for(log: Path, text: str) -> str:
    """The first line with the text."""
    deadline_ms = monotonic_ms() + LIMIT_MS
    while True:
        for line in log.read_text().splitlines():
            if text in line:
                return line
        assert monotonic_ms() < deadline_ms, log.read_text()
        sleep_ms(20)


def test_a_broker_takes_what_changes_online_and_names_the_rest(tmp_path: Path) -> None:
    broker, names = tmp_path / "broker.toml", tmp_path / "namesrv.toml"
    names.write_text("port = 0\nlisten_ms = 0\n")
    with server("namesrv", names, tmp_path / "namesrv.log", "metrics.bind="):
        address = wait_for(tmp_path / "namesrv.log", "name server started").partition("address=")[2].split()[0]
        start = f'port = 0\nnamesrv = ["{address}"]\nstore_dir = "{tmp_path}/store"\n[metrics]\nbind = ""\n'
        small = "[store]\nsegment_bytes = 1048576\nrecord_bytes_max = 65536\nbody_bytes_max = 50000\n"
        small += "frame_bytes_max = 1048576\n"
        broker.write_text(start + small)
        log = tmp_path / "broker.log"
        with server("broker", broker, log) as process, Admin(address, timeout=20) as admin:
            wait_for(log, "registered namesrv=")
            assert admin.broker_config()["store.retention_bytes"] == 0
            broker.write_text(start + small + "retention_bytes = 7340032\nqueue_files_open_max = 99\n")
            process.send_signal(signal.SIGHUP)
            assert "{'store.retention_bytes': 7340032}" in wait_for(log, "reloaded changed=")
            assert wait_for(log, "wait for a restart").endswith("store.queue_files_open_max")
            running = admin.broker_config()
            assert (running["store.retention_bytes"], running["store.queue_files_open_max"]) == (7_340_032, 256)
            broker.write_text(start + "[store]\nretention_bytes = -1\n")
            process.send_signal(signal.SIGHUP)
            assert "retention_bytes" in wait_for(log, "nothing was reloaded: ")
            assert admin.broker_config()["store.retention_bytes"] == 7_340_032
        assert process.returncode == 0


@pytest.mark.parametrize("role", ["namesrv", "controller"])
def test_others_change_what_they_log(tmp_path: Path, role: str) -> None:
    file, log = tmp_path / "server.toml", tmp_path / "server.log"
    start = "port = 0\n" + ('zookeeper = ["127.0.0.1:9"]\n' if role == "controller" else "")
    file.write_text(start)
    with server(role, file, log, "metrics.bind=") as process:
        wait_for(log, "started address=")
        file.write_text(f'{start}[log]\nlevel = "error"\n')
        process.send_signal(signal.SIGHUP)
        deadline_ms = monotonic_ms() + LIMIT_MS
        while "reloaded" not in log.read_text():  # at "error" this line is logged no more: so the level is set after it
            assert process.poll() is None
            assert monotonic_ms() < deadline_ms
            sleep_ms(20)
    assert process.returncode in (0, -signal.SIGTERM)
