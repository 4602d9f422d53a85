"""`zenit up --proxy`: a secured cluster with a proxy whose user may act for others and nothing else; down, and up again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zenitmq import Admin
from zenitmq.model.errors import AccessDenied

pytestmark = pytest.mark.timeout(180)

ZENIT = str(Path(sys.executable).with_name("zenit"))


class Session:
    """Runs `zenit` with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "HOME": str(home)}
        self.directory = str(home / "z")

    def json(self, command: str, *arguments: str) -> Any:
        done = subprocess.run(
            [ZENIT, command, "--dir", self.directory, *arguments, "--json"],
            env=self.environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def proxy(self) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.json("status")["processes"] if one["role"] == "proxy")
        return found


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_secured_cluster_has_a_proxy_and_has_it_again(tmp_path: Path) -> None:
    session = Session(tmp_path)
    made = session.json("up", "--secure", "--proxy", "--detach")
    try:
        proxy = session.proxy()
        assert proxy["up"]
        assert is_open(proxy["address"])
        assert is_open(proxy["remoting"])
        key = os.path.join(made["keys"], "proxy-1.key")
        with Admin(namesrv=made["namesrv"], key=key) as admin, pytest.raises(AccessDenied):
            admin.create_topic("orders")
        session.json("down")
        again = next(one for one in session.json("up", "--detach")["processes"] if one["role"] == "proxy")
        assert (again["address"], again["remoting"]) == (proxy["address"], proxy["remoting"])
        recorded = json.loads((tmp_path / "z" / "cluster.json").read_text())["processes"][-1]["settings"]
        (port,) = [one.removeprefix("broker_port=") for one in recorded if one.startswith("broker_port=")]
        assert is_open(f"127.0.0.1:{port}"), "where clients keep the broker"
        assert is_open(again["address"])
    finally:
        session.json("down")
